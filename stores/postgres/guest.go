package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

const port = "5432"

// guest is the run's stay at a PostgreSQL that it did not start. It leaves nothing there: its turn is a lock of its session, and goes
// with that.
type guest struct {
	locks
	turn  stores.Turn
	where undo.Store
}

// environment is what a database says it is, by a setting of its own, and whether it says so.
func environment(ctx context.Context, s *experiments.Store) (name string, said bool, err error) {
	w, err := stores.At(s, port)
	if err != nil {
		return "", false, err
	}
	c, err := dialGuest(w, "lockdrill")
	if err != nil {
		return "", false, err
	}
	defer c.Close()
	if name, err = c.Environment(ctx); err != nil {
		return "", false, fmt.Errorf("ask %s: %w", stores.Target(w), err)
	}
	return name, name != "", nil
}

// dialGuest makes a connection as the file says; it does not dial yet.
func dialGuest(w undo.Store, application string) (*Client, error) {
	a, err := endpoint.AccessTo(stores.EndpointOf(w), "store") // its certificate is read by the driver
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "postgres", Host: w.Addr, Path: "/" + cmp.Or(w.Database, "postgres")}
	switch {
	case a.Password != "":
		dsn.User = url.UserPassword(a.User, a.Password)
	case a.User != "":
		dsn.User = url.User(a.User)
	}
	if secure := (url.Values{}); w.TLS {
		for name, path := range map[string]string{"sslrootcert": w.CA, "sslcert": w.Cert, "sslkey": w.Key} {
			if path != "" {
				secure.Set(name, path)
			}
		}
		secure.Set("sslmode", "verify-full")
		dsn.RawQuery = secure.Encode()
	}
	return Dial(dsn.String(), application)
}

func openGuest(ctx context.Context, s *experiments.Store) (stores.Store, error) {
	w, err := stores.At(s, port)
	if err != nil {
		return nil, err
	}
	c, err := dialGuest(w, "lockdrill")
	if err != nil {
		return nil, err
	}
	p := &guest{where: w}
	p.Client = c
	life, err := c.Life(ctx)
	if err == nil {
		err = c.Take(ctx, stores.TurnKey)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use %s (one run at a time has its lock %s): %w", stores.Target(w), stores.TurnKey, err), c.Close())
	}
	p.info = history.StoreInfo{Kind: "external", Version: "PostgreSQL " + life.Version, RunID: life.Run}
	p.turn.Keep(ctx, func(ctx context.Context) error { // a session that was cut off has lost it
		if taken, err := c.Taken(ctx, stores.TurnKey); err == nil && !taken {
			return c.Take(ctx, stores.TurnKey)
		}
		return nil
	})
	return p, nil
}

func (p *guest) Endpoint() protocol.Endpoint {
	e := stores.EndpointOf(p.where)
	e.Database = cmp.Or(e.Database, "postgres")
	return e
}

func (p *guest) Where() undo.Store { return p.where }

// Question implements stores.Asked.
func (p *guest) Question(protocol.Endpoint) (endpoint.Question, error) {
	c, err := p.As("lockdrill way")
	return endpoint.AskPostgres(c.Raw), err
}

// Held fails once the turn is another run's.
func (p *guest) Held() error { return p.turn.Held() }

// Close gives the turn back.
func (p *guest) Close(context.Context) error { return p.turn.End(p.Client.Close) }
