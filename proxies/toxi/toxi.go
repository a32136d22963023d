// Package toxi speaks to the HTTP API of a Toxiproxy server, every call under a time limit: the server's own client takes no
// context, and the server can hang for ever when a toxic is removed (Shopify/toxiproxy#558).
//
// It knows neither faults nor replicas. Its one invariant: it changes only the proxy that a call names, and never calls /reset,
// which is everybody's.
package toxi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// CallWithin bounds each call: what takes longer hangs.
const CallWithin = 1500 * time.Millisecond

// What the server says no to.
var (
	ErrNotFound = errors.New("no such proxy or toxic")
	ErrExists   = errors.New("there is one of this name already")
)

// Proxy is one proxy of a server.
type Proxy struct {
	Name     string  `json:"name"`
	Listen   string  `json:"listen"`   // host:port; port 0 = any
	Upstream string  `json:"upstream"` // host:port
	Enabled  bool    `json:"enabled"`
	Toxics   []Toxic `json:"toxics,omitempty"`
}

// Toxic is one disturbance of one direction of a proxy.
type Toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // upstream, downstream
	Toxicity   float64        `json:"toxicity"`
	Attributes map[string]any `json:"attributes"`
}

// Client is a server's API. It keeps no connections.
type Client struct {
	base string
	http *http.Client
}

// New is the API at a base URL, http://host:8474.
func New(base string) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Proxies lists all proxies by name. It hangs where one of them does.
func (c *Client) Proxies(ctx context.Context) (map[string]Proxy, error) {
	var all map[string]Proxy
	return all, c.call(ctx, http.MethodGet, "/proxies", nil, &all)
}

// Proxy looks at one proxy and its toxics. A proxy that does not answer in time hangs.
func (c *Client) Proxy(ctx context.Context, name string) (Proxy, error) {
	var p Proxy
	return p, c.call(ctx, http.MethodGet, path(name), nil, &p)
}

// Create makes a proxy; the answer says where it listens.
func (c *Client) Create(ctx context.Context, p Proxy) (Proxy, error) {
	var made Proxy
	return made, c.call(ctx, http.MethodPost, "/proxies", p, &made)
}

// Enable switches a proxy on, or off: then its connections are closed and new ones are refused.
func (c *Client) Enable(ctx context.Context, name string, on bool) error {
	return c.call(ctx, http.MethodPost, path(name), map[string]any{"enabled": on}, nil) // POST: servers before 2.6 know no PATCH
}

// Add adds a toxic; it is in effect on all connections when this returns.
func (c *Client) Add(ctx context.Context, proxy string, t Toxic) error {
	return c.call(ctx, http.MethodPost, path(proxy)+"/toxics", t, nil)
}

// Remove removes a toxic.
func (c *Client) Remove(ctx context.Context, proxy, toxic string) error {
	return c.call(ctx, http.MethodDelete, path(proxy)+"/toxics/"+url.PathEscape(toxic), nil, nil)
}

// maxNext bounds a chain of successors.
const maxNext = 20

// Next is the name of the proxy that takes the place of one that hangs.
func Next(name string) string {
	base, n := name, 1
	if i := strings.LastIndexByte(name, '~'); i > 0 {
		if _, err := fmt.Sscanf(name[i+1:], "%d", &n); err == nil {
			base = name[:i]
		}
	}
	return fmt.Sprintf("%s~%d", base, n+1)
}

// Current is the proxy of that name, or the last of its successors. It does not ask those that were succeeded: they hang.
func (c *Client) Current(ctx context.Context, name string) (Proxy, error) {
	p, err := c.Proxy(ctx, Next(name))
	if errors.Is(err, ErrNotFound) {
		return c.Proxy(ctx, name)
	}
	for range maxNext {
		if err != nil {
			return p, err
		}
		next, nextErr := c.Proxy(ctx, Next(p.Name))
		if errors.Is(nextErr, ErrNotFound) {
			return p, nil
		}
		p, err = next, nextErr
	}
	return p, fmt.Errorf("proxy %s has too many successors", name)
}

// Drop deletes a proxy and its successors and reads back that they are gone. A proxy that hangs is left alone: to delete it would
// make the whole server hang. Of what does not exist, nothing is left.
func (c *Client) Drop(ctx context.Context, name string) error {
	var errs []error
	for range maxNext {
		_, err := c.Proxy(ctx, name)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err == nil {
			err = c.drop(ctx, name)
		} else {
			err = fmt.Errorf("proxy %s does not answer and is left: restart the Toxiproxy at %s when its other users can bear it: %w", name, c.base, err)
		}
		errs = append(errs, err)
		name = Next(name)
	}
	return errors.Join(errs...)
}

func (c *Client) drop(ctx context.Context, name string) error {
	err := c.call(ctx, http.MethodDelete, path(name), nil, nil)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err = c.Proxy(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err == nil:
		err = errors.New("it is still there")
	}
	return fmt.Errorf("delete proxy %s: %w", name, err)
}

func path(proxy string) string { return "/proxies/" + url.PathEscape(proxy) }

// call sends one request and reads the answer, if there is to be one, into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	if err := c.do(ctx, method, path, in, out); err != nil {
		return fmt.Errorf("toxiproxy: %s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case resp.StatusCode == http.StatusConflict:
		return ErrExists
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s: %.200s", resp.Status, bytes.TrimSpace(text))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("this is not the API of a Toxiproxy: %w", err)
	}
	return nil
}
