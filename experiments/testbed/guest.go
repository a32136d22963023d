package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
)

// storeAt reads the store section of a file, of a store that is somebody's: the first of its servers, and all of them.
func storeAt(s *experiments.Store) (w undo.Store, err error) {
	w = undo.Store{Kind: string(s.Kind), CA: s.CA, Cert: s.Cert, Key: s.Key, UsernameEnv: s.UsernameEnv, PasswordEnv: s.PasswordEnv}
	port := map[experiments.StoreKind]string{experiments.StoreEtcd: "2379", experiments.StorePostgres: "5432"}[s.Kind]
	for _, one := range strings.Split(s.URL, ",") {
		u, err := url.Parse(one)
		if err != nil || u.Hostname() == "" {
			return w, fmt.Errorf("store.url %w: it names no server", ErrSettings) // the words of the parser would show the URL
		}
		w.Addrs = append(w.Addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
		w.TLS = w.TLS || u.Scheme == "https" || s.CA+s.Cert != ""
		w.Database = strings.Trim(u.Path, "/")
	}
	w.Addr = w.Addrs[0]
	return w, place(&w)
}

// targetOf names a store for a person, without secrets.
func targetOf(w undo.Store) string {
	if w.Kind == "" {
		return target(w)
	}
	return w.Kind + " " + strings.Join(w.Addrs, ",")
}

// notOurs is what is not done to a store that the run did not start.
type notOurs struct{}

var errGuest = errors.New("it is not this run's own store")

func (notOurs) Processes() (pids []int, busy bool) { return nil, false }
func (notOurs) Process() *undo.Process             { return nil }
func (notOurs) Kill(context.Context) error         { return fmt.Errorf("kill the store: %w", errGuest) }
func (notOurs) Start(context.Context, bool) error  { return fmt.Errorf("start the store: %w", errGuest) }
func (notOurs) Flush(context.Context) error        { return fmt.Errorf("flush the store: %w", errGuest) }
func (notOurs) Cut(context.Context) error          { return fmt.Errorf("fail over the store: %w", errGuest) }
func (notOurs) FailOver(context.Context) error {
	return fmt.Errorf("fail over the store: %w", errGuest)
}
