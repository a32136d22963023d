package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// postgresGuest is the run's stay at a PostgreSQL that it did not start. It leaves nothing there: its turn is a lock of its session, and goes
// with that.
type postgresGuest struct {
	notOurs
	keptTurn
	advisoryLocks
	where undo.Store
}

// PostgresEnvironment is what a database says it is, by a setting of its own, and whether it says so.
func PostgresEnvironment(ctx context.Context, s *experiments.Store) (name string, said bool, err error) {
	w, err := storeAt(s)
	if err != nil {
		return "", false, err
	}
	c, err := dialGuest(w, "lockdrill")
	if err != nil {
		return "", false, err
	}
	defer c.Close()
	if name, err = c.Environment(ctx); err != nil {
		return "", false, fmt.Errorf("ask %s: %w", targetOf(w), err)
	}
	return name, name != "", nil
}

// dialGuest makes a connection as the file says; it does not dial yet.
func dialGuest(w undo.Store, application string) (*postgres.Client, error) {
	a, err := endpoint.AccessTo(endpointOf(w), "store") // its certificate is read by the driver
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
	return postgres.Dial(dsn.String(), application)
}

func openPostgresGuest(ctx context.Context, s *experiments.Store) (LockStore, error) {
	w, err := storeAt(s)
	if err != nil {
		return nil, err
	}
	c, err := dialGuest(w, "lockdrill")
	if err != nil {
		return nil, err
	}
	p := &postgresGuest{where: w}
	p.client = c
	life, err := c.Life(ctx)
	if err == nil {
		err = c.Take(ctx, leaseKey)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use %s (one run at a time has its lock %s): %w", targetOf(w), leaseKey, err), c.Close())
	}
	p.info = history.StoreInfo{Kind: "external", Version: "PostgreSQL " + life.Version, RunID: life.Run}
	p.keep(ctx, func(ctx context.Context) error { // a session that was cut off has lost it
		if taken, err := c.Taken(ctx, leaseKey); err == nil && !taken {
			return c.Take(ctx, leaseKey)
		}
		return nil
	})
	return p, nil
}

func (p *postgresGuest) Endpoint() protocol.Endpoint {
	e := endpointOf(p.where)
	e.Database = cmp.Or(e.Database, "postgres")
	return e
}

func (p *postgresGuest) Where() undo.Store { return p.where }

func (p *postgresGuest) Close(context.Context) error { return p.end(p.client.Close) }
