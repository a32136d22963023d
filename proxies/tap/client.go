package tap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client asks the API of a proxy that stands by itself.
type Client struct {
	address string
	http    *http.Client
}

const (
	callWithin = time.Second
	mostAnswer = 1 << 20
)

// ErrNoFault is wrapped by answers about a fault that the proxy does not know.
var ErrNoFault = errors.New("the proxy has no such fault")

// NewClient returns a client of the API at http://host:port, or unix:PATH.
func NewClient(api string) *Client {
	c := &Client{address: strings.TrimSuffix(api, "/"), http: &http.Client{Timeout: callWithin}}
	if path, ok := strings.CutPrefix(api, "unix:"); ok {
		c.address = "http://localhost"
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	}
	return c
}

// Holders are the connections that carried tokens of a key, the latest last.
func (c *Client) Holders(ctx context.Context, query string) (all []Carrier, err error) {
	said := struct {
		Holders *[]Carrier `json:"holders"`
	}{&all}
	return all, c.call(ctx, http.MethodGet, "/holders?key="+query, nil, &said)
}

// Stats are what the proxy has seen.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	return s, c.call(ctx, http.MethodGet, "/stats", nil, &s)
}

// Inject arms a fault. holderOf, in place of its key, is the key of which only the present token's operations are struck.
func (c *Client) Inject(ctx context.Context, f Fault, holderOf string) error {
	form := faultForm{ID: f.ID, Op: f.Op, Mode: f.Mode, Count: f.Count, Share: f.Share, For: f.For.String(), Key: f.Key, HolderOf: holderOf}
	if f.Delay > 0 {
		form.Delay = f.Delay.String()
	}
	return c.call(ctx, http.MethodPost, "/faults", form, nil)
}

// Told is how far a fault of a proxy that stands by itself has come.
type Told struct {
	Over   bool
	Hits   int64
	Struck []Struck
}

// Fault asks about one.
func (c *Client) Fault(ctx context.Context, id string) (Told, error) {
	var v faultView
	err := c.call(ctx, http.MethodGet, "/faults/"+id, nil, &v)
	return Told{Over: v.Ended != nil, Hits: v.Hits, Struck: v.Struck}, err
}

// End ends a fault early.
func (c *Client) End(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/faults/"+id, nil, nil)
}

// Post sends a fault of another proxy's.
func (c *Client) Post(ctx context.Context, fault any) error {
	return c.call(ctx, http.MethodPost, "/faults", fault, nil)
}

// Seen are the statistics of another proxy.
func (c *Client) Seen(ctx context.Context, stats any) error {
	return c.call(ctx, http.MethodGet, "/stats", nil, stats)
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	if err := c.do(ctx, method, path, in, out); err != nil {
		return fmt.Errorf("ask the proxy: %w", err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNotFound:
		return ErrNoFault
	case res.StatusCode >= 300:
		var said struct{ Errors []Problem }
		if json.Unmarshal(text, &said) != nil || len(said.Errors) == 0 {
			return fmt.Errorf("it says %s", res.Status)
		}
		return fmt.Errorf("it says: %s: %s; %s", said.Errors[0].Field, said.Errors[0].Problem, said.Errors[0].Remedy)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}
