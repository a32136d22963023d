package holders

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Proxy asks a lockdrill proxy which connection carried the key's present token.
type Proxy struct {
	Lives   func() []Life
	Is      Fits // of the name of a listener; nil = the other end of the connection says
	address string
	client  *http.Client
	ends    *Ends
}

// Bounds of a question to a proxy.
const (
	proxyWithin = time.Second
	mostAnswer  = 1 << 20
)

// NewProxy returns a source that asks api: http://host:port, or unix:PATH.
func NewProxy(api string, is Fits, lives func() []Life) *Proxy {
	p := &Proxy{Lives: lives, Is: is, address: api, client: &http.Client{Timeout: proxyWithin}, ends: &Ends{Lives: lives}}
	if path, ok := strings.CutPrefix(api, "unix:"); ok {
		p.address = "http://localhost"
		p.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	}
	return p
}

// Word implements Source.
func (*Proxy) Word() string { return "proxy" }

// Ask implements Source.
func (p *Proxy) Ask(ctx context.Context, q Question) Answer {
	carried, err := p.carriers(ctx, q)
	if err != nil {
		return unknown(oneLine(err.Error()))
	}
	if len(carried) == 0 {
		return unknown("no connection of the proxy has carried its present token")
	}
	var a Answer
	for _, c := range carried {
		found := Answer{}
		if p.Is != nil {
			found = named(p.Lives(), p.Is, c.Name)
		} else if end, err := p.ends.Of(c.Client, 0); err != nil {
			found.Why = err.Error()
		} else {
			found.Holders = []string{end.Incarnation}
		}
		if len(found.Holders) == 0 {
			if a.Why = found.Why; a.Why == "" {
				a.Why = fmt.Sprintf("the proxy's listener %.40q is named after no replica that lives", c.Name)
			}
			continue
		}
		for _, h := range found.Holders {
			a.Holders = add(a.Holders, h)
		}
	}
	return a
}

// carrier is a connection that carried the token.
type carrier struct {
	Epoch  string `json:"epoch"`
	Name   string `json:"name"`
	Client string `json:"client"`
}

func (p *Proxy) carriers(ctx context.Context, q Question) ([]carrier, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address+"/holders?key="+url.QueryEscape(q.Key), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the proxy: %w", err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the proxy: %w", err)
	}
	defer res.Body.Close()
	var said struct {
		Holders []carrier `json:"holders"`
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the proxy: it says %s", res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, mostAnswer)).Decode(&said); err != nil {
		return nil, fmt.Errorf("ask the proxy: %w", err)
	}
	epoch := lockcore.Fingerprint(q.Value)
	var now []carrier
	for _, c := range said.Holders {
		if c.Epoch == epoch {
			now = append(now, c)
		}
	}
	return now, nil
}
