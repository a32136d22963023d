package holders

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// Proxy asks a lockdrill proxy which connection carried the key's present token.
type Proxy struct {
	Lives  func() []Life
	Is     Fits // of the name of a listener; nil = the other end of the connection says
	client *tap.Client
	ends   *Ends
}

// NewProxy returns a source that asks api: http://host:port, or unix:PATH.
func NewProxy(api string, is Fits, lives func() []Life) *Proxy {
	return &Proxy{Lives: lives, Is: is, client: tap.NewClient(api), ends: &Ends{Lives: lives}}
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

func (p *Proxy) carriers(ctx context.Context, q Question) ([]tap.Carrier, error) {
	all, err := p.client.Holders(ctx, url.QueryEscape(q.Key))
	epoch := lockcore.Fingerprint(q.Value)
	return slices.DeleteFunc(all, func(c tap.Carrier) bool { return c.Epoch != epoch }), err
}
