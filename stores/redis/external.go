package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	removePage  = 1000 // keys a SCAN call looks at
	removeTries = 5    // passes until one finds nothing
)

// Environment is what the target says it is, and whether it says so. A ledger that the run does not start is asked as the Redis that
// LedgerStore.AsRedis gives; so it is with Settings and Taken. It reads one key, in the database of the URL and, as the owner of a
// server may have said it once for all of it, in database 0. Two that differ are an error.
func Environment(ctx context.Context, r experiments.Redis) (name string, said bool, err error) {
	w, err := whereIs(r)
	if err != nil {
		return "", false, err
	}
	if name, err = environmentIn(ctx, w); err != nil || w.DB == 0 {
		return name, name != "", err
	}
	w.DB = 0
	server, err := environmentIn(ctx, w)
	if err == nil && name != "" && server != "" && name != server {
		err = fmt.Errorf("%s is %q there, and %q in database 0 of the same server", stores.EnvironmentKey, name, server)
	}
	name = cmp.Or(name, server)
	return name, name != "", err
}

// environmentIn is what one database says; "" = nothing.
func environmentIn(ctx context.Context, w undo.Store) (string, error) {
	c, err := Connect(w)
	if err != nil {
		return "", err
	}
	defer c.Close()
	name, err := c.Get(ctx, stores.EnvironmentKey).Result()
	if err = endpoint.Explained(err, w.TLS, w.Sentinel != nil); err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read %s at %s: %w", stores.EnvironmentKey, target(w), err)
	}
	return name, nil
}

// Settings checks what a person has to set before a Redis can be dialled, and dials nothing. An error wraps stores.ErrSettings.
func Settings(r experiments.Redis) error {
	if r.Mode != experiments.RedisExternal {
		return nil
	}
	w, err := whereIs(r)
	if err != nil {
		return err
	}
	if _, err = optionsOf(w); err == nil && w.Sentinel != nil {
		_, err = sentinelAccess(w.Sentinel)
	}
	return err
}

// whereIs reads the section of the file.
func whereIs(r experiments.Redis) (undo.Store, error) {
	if s := r.Sentinel; s != nil {
		return bySentinels(r, s)
	}
	if path, db, socket := experiments.Socket(r.URL); socket {
		return undo.Store{Addr: path, DB: db, UsernameEnv: r.UsernameEnv, PasswordEnv: r.PasswordEnv}, nil
	}
	w := undo.Store{CA: r.CA, Cert: r.Cert, Key: r.Key, UsernameEnv: r.UsernameEnv, PasswordEnv: r.PasswordEnv, Cluster: r.Cluster}
	for _, server := range r.Servers() {
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			return undo.Store{}, fmt.Errorf("url of a Redis %w: want redis://host:port/db or rediss://host:port/db", stores.ErrSettings) // the words of the parser would show the URL
		}
		w.TLS = u.Scheme == "rediss"
		w.DB, _ = strconv.Atoi(strings.Trim(u.Path, "/")) // "" = 0; the file was checked
		w.Addrs = append(w.Addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")))
	}
	w.Addr, w.Addrs = w.Addrs[0], w.Addrs[1:]
	return w, stores.Place(&w)
}

// target names it for a person, without secrets.
func target(w undo.Store) string {
	scheme := "redis"
	if w.TLS {
		scheme = "rediss"
	}
	where := fmt.Sprintf("%s://%s/%d", scheme, w.Addr, w.DB)
	if endpoint.Network(w.Addr) == "unix" {
		where = "unix:" + w.Addr
	}
	switch {
	case w.Sentinel != nil:
		return fmt.Sprintf("%s of the Sentinel at %s", w.Sentinel.Master, where)
	case w.Cluster:
		return "the cluster of " + where
	}
	return where
}

func optionsOf(w undo.Store) (*redis.Options, error) { return endpoint.Options(stores.EndpointOf(w)) }

// Endpoint is how a replica reaches the store.
func (s *Store) Endpoint() protocol.Endpoint {
	e := stores.EndpointOf(s.Where())
	e.Kind, e.Prefix = protocol.KindRedis, s.Prefix
	if e.TLS { // Addr may become a proxy's
		e.ServerName, _, _ = strings.Cut(e.Addr, ":")
		if host, err := url.Parse("//" + e.Addr); err == nil {
			e.ServerName = host.Hostname()
		}
	}
	return e
}

// Options are those of a connection to the store, for a probe to tune.
func (s *Store) Options() (*redis.Options, error) { return optionsOf(s.Where()) }

// openExternal takes a Redis that exists: one run at a time, and none while an earlier one has left something there.
func openExternal(ctx context.Context, r experiments.Redis, g *stores.Ground) (*Store, error) {
	w, err := whereIs(r)
	if err != nil {
		return nil, err
	}
	c, err := Connect(w)
	if err != nil {
		return nil, err
	}
	info, err := serverInfo(ctx, c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach %s: %w", target(w), err), c.Close())
	}
	w.RunID = info["run_id"]
	at, all := w, w.Addrs
	if w.Cluster { // whoever cleans up may find the first one dead
		all = append(serversOf(ctx, c), w.Addrs...)
	}
	if w.PasswordEnv == "" { // which goes to those that the file names, also by the word of a journal
		at.Addrs = all
	}
	e := &external{client: c, Stay: stores.Stay{At: at}}
	s := &Store{
		Info: history.StoreInfo{Kind: "external", Version: versionIn(info), RunID: info["run_id"]},
		Addr: w.Addr, Prefix: g.Prefix, client: c, where: w, host: e, self: e.held,
	}
	claim := func(ctx context.Context, key string) error {
		return e.claim(ctx, key, map[string]time.Duration{stores.TurnKey: stores.TurnTTL}[key])
	}
	mine := func(ctx context.Context, r undo.Record) error {
		there := *r.Store
		there.Addrs, r.Store = all, &there
		return leave(ctx, r)
	}
	if err = e.Take(ctx, g, claim, e.renew, mine); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// external is the run's stay at a Redis that it did not start.
type external struct {
	stores.Stay
	client redis.UniversalClient
}

// claim sets a key of the target to this run, unless it is another's.
func (e *external) claim(ctx context.Context, key string, ttl time.Duration) error {
	ok, err := e.client.SetNX(ctx, key, e.Me, ttl).Result()
	if err != nil {
		return fmt.Errorf("set %s at %s: %w", key, target(e.At), err)
	}
	if ok {
		return nil
	}
	value, err := e.client.Get(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("read %s at %s: %w", key, target(e.At), err)
	}
	if value == e.Me {
		return nil
	}
	return stores.HeldBy(target(e.At), key, value)
}

// renew prolongs the turn. One that is gone, as after a flush, is taken again; another's is not.
func (e *external) renew(ctx context.Context) error {
	err := e.client.Eval(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
		[]string{stores.TurnKey}, e.Me, stores.TurnTTL.Milliseconds()).Err()
	if err != nil {
		return err
	}
	return e.claim(ctx, stores.TurnKey, stores.TurnTTL)
}

// held fails once the target is another run's: the drill is over then.
func (e *external) held() (string, error) { return "", e.Held() }

var errNotOurs = errors.New("it is not this run's own server: start a server of the run's own with redis.mode: spawn")

func (e *external) Kill(context.Context) error {
	return fmt.Errorf("kill %s: %w", e.At.Addr, errNotOurs)
}

// start implements host: it was never killed.
func (e *external) start(ctx context.Context, client redis.UniversalClient, _ bool) error {
	return client.Ping(ctx).Err()
}

func (e *external) Process() *undo.Process { return nil }

// End implements host: it removes every key of the run, verifies it, and gives the target back.
func (e *external) End(ctx context.Context) error {
	return e.Stay.End(func() error { return e.GiveBack(ctx) })
}

// leave undoes a stay at a Redis that the run did not start, from any process that reaches it: every key below the run's prefix is
// removed, which is verified, and then turn and open mark, if they are this run's.
func leave(ctx context.Context, r undo.Record) error {
	c, err := Connect(*r.Store)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := removeKeys(ctx, c, r.Key.Name, removeTries); err != nil {
		return fmt.Errorf("remove keys %s* at %s: %w", r.Key.Name, target(*r.Store), err)
	}
	for _, key := range []string{stores.TurnKey, stores.OpenKey} { // the mark last: whoever sees none finds nothing of ours
		err := c.Eval(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`, []string{key}, r.Key.Token).Err()
		if err != nil {
			return fmt.Errorf("give up %s at %s: %w", key, target(*r.Store), err)
		}
	}
	return nil
}

// removeKeys deletes the keys that begin with prefix, and those that stand beside a lock, whose names begin with "{" and the prefix. With
// more than one try it goes on until a pass finds none.
func removeKeys(ctx context.Context, c redis.UniversalClient, prefix string, tries int) error {
	for range tries {
		found := 0
		for _, begin := range []string{prefix, "{" + prefix} {
			err := onServers(ctx, c, func(ctx context.Context, server *redis.Client) error {
				n, err := removeOnce(ctx, server, c, begin)
				found += n
				return err
			})
			if err != nil {
				return err
			}
		}
		if found == 0 || tries == 1 {
			return nil
		}
	}
	return fmt.Errorf("somebody still writes keys there: there were some in each of %d passes", tries)
}

func removeOnce(ctx context.Context, server *redis.Client, c redis.UniversalClient, begin string) (found int, err error) {
	pattern := globQuote(begin) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := server.Scan(ctx, cursor, pattern, removePage).Result()
		if err != nil {
			return found, fmt.Errorf("scan: %w", err)
		}
		if _, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error { // of a cluster they are not in one slot
			for _, key := range keys {
				pipe.Unlink(ctx, key)
			}
			return nil
		}); err != nil {
			return found, fmt.Errorf("unlink: %w", err)
		}
		found += len(keys)
		if cursor = next; cursor == 0 {
			return found, nil
		}
	}
}

// RunID is what a server calls itself since it was started.
func RunID(ctx context.Context, r experiments.Redis) (string, error) {
	c, err := Reach(r)
	if err != nil {
		return "", err
	}
	defer c.Close()
	info, err := serverInfo(ctx, c)
	return info["run_id"], err
}
