package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Keys on a Redis that the run did not start, beside those below the run's prefix.
const (
	EnvironmentKey = "lockdrill:environment" // what the target says it is; set by its owner
	leaseKey       = "lockdrill:run"         // whose turn it is: one run at a time
	openKey        = "lockdrill:open"        // who has keys here; no TTL: it outlives a runner that died
)

const (
	leaseTTL   = 15 * time.Second
	leaseEvery = leaseTTL / 3
	sweepPage  = 1000 // keys a SCAN call looks at
	sweepTries = 5    // passes until one finds nothing
)

// ErrSettings is wrapped by errors that a person mends by a setting: a variable that is not set, a server that is too old.
var ErrSettings = endpoint.ErrSettings

// Holder is a run that has a target, as the target says.
type Holder struct {
	Run    string    `json:"run"`
	Host   string    `json:"host"` // a label
	Since  time.Time `json:"since"`
	Folder string    `json:"folder"`
}

// HeldError refuses a run because of another one at the same target.
type HeldError struct {
	Target string
	Holder
	Open bool // that run is over, and has left something to be undone
}

func (e *HeldError) Error() string {
	who := fmt.Sprintf("run %s since %s (host %s, folder %s)", e.Run, e.Since.Format(time.RFC3339), e.Host, e.Folder)
	if e.Open {
		return fmt.Sprintf("%s was left unfinished by %s: run `lockdrill recover %s` there first; where that folder is lost, see that no key lockdrill:%s:* is left and delete the key %s",
			e.Target, who, e.Folder, e.Run, openKey)
	}
	return fmt.Sprintf("%s is held by %s: one run at a time; a run that died gives it up after %s", e.Target, who, leaseTTL)
}

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
		err = fmt.Errorf("%s is %q there, and %q in database 0 of the same server", EnvironmentKey, name, server)
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
	name, err := c.Get(ctx, EnvironmentKey).Result()
	if err = endpoint.Explained(err, w.TLS, w.Sentinel != nil); err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read %s at %s: %w", EnvironmentKey, target(w), err)
	}
	return name, nil
}

// Settings checks what a person has to set before a Redis can be dialled, and dials nothing. An error wraps ErrSettings.
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
	u, err := url.Parse(r.URL)
	if err != nil || u.Hostname() == "" {
		return undo.Store{}, fmt.Errorf("url of a Redis %w: want redis://host:port/db or rediss://host:port/db", ErrSettings) // the words of the parser would show the URL
	}
	w := undo.Store{Addr: u.Host, TLS: u.Scheme == "rediss", CA: r.CA, Cert: r.Cert, Key: r.Key, UsernameEnv: r.UsernameEnv, PasswordEnv: r.PasswordEnv, Cluster: r.Cluster}
	if u.Port() == "" {
		w.Addr += ":6379"
	}
	w.DB, _ = strconv.Atoi(strings.Trim(u.Path, "/")) // "" = 0; the file was checked
	return w, place(&w)
}

// place makes the paths of a store's files absolute: recover may be run anywhere.
func place(w *undo.Store) (err error) {
	for _, path := range []*string{&w.CA, &w.Cert, &w.Key} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find the files of certificates: %w", err)
		}
	}
	return nil
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

func endpointOf(w undo.Store) protocol.Endpoint {
	return protocol.Endpoint{Kind: w.Kind, Addr: w.Addr, Addrs: w.Addrs, DB: w.DB, Database: w.Database, TLS: w.TLS, CA: w.CA, Cert: w.Cert, Key: w.Key, UsernameEnv: w.UsernameEnv, PasswordEnv: w.PasswordEnv}
}

func optionsOf(w undo.Store) (*redis.Options, error) { return endpoint.Options(endpointOf(w)) }

// Endpoint is how a replica reaches the store.
func (s *Store) Endpoint() protocol.Endpoint {
	e := endpointOf(s.Where())
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
func openExternal(ctx context.Context, r experiments.Redis, o Options, prefix string) (*Store, error) {
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
	e := &external{client: c, where: w, journal: o.Journal, prefix: prefix}
	s := &Store{
		Info: history.StoreInfo{Kind: "external", Version: info["redis_version"], RunID: info["run_id"]},
		Addr: w.Addr, Prefix: prefix, client: c, where: w, host: e, self: e.held,
	}
	if e.me, err = holder(o.Run, o.Folder); err == nil {
		err = e.take(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// external is the run's stay at a Redis that it did not start.
type external struct {
	client  redis.UniversalClient
	where   undo.Store
	journal *undo.Journal
	record  int
	prefix  string
	me      string // the value of the lease and of the open mark

	turn keptTurn
}

// take writes the stay down, takes the lease and leaves the open mark.
func (e *external) take(ctx context.Context) (err error) {
	e.record, err = e.journal.Intend(undo.Record{Kind: undo.StandKeys, Store: &e.where, Key: &undo.Key{Name: e.prefix, Token: e.me}})
	if err != nil {
		return err
	}
	for _, k := range []struct {
		key string
		ttl time.Duration
	}{{leaseKey, leaseTTL}, {openKey, 0}} {
		if err = e.claim(ctx, k.key, k.ttl); err != nil {
			return abandon(ctx, err, e.giveBack)
		}
	}
	e.turn.keep(ctx, e.renew)
	return nil
}

// claim sets a key of the target to this run, unless it is another's.
func (e *external) claim(ctx context.Context, key string, ttl time.Duration) error {
	ok, err := e.client.SetNX(ctx, key, e.me, ttl).Result()
	if err != nil {
		return fmt.Errorf("set %s at %s: %w", key, target(e.where), err)
	}
	if ok {
		return nil
	}
	value, err := e.client.Get(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("read %s at %s: %w", key, target(e.where), err)
	}
	if value == e.me {
		return nil
	}
	return heldBy(e.where, key, value)
}

func heldBy(w undo.Store, key, value string) *HeldError {
	held := &HeldError{Target: target(w), Open: key == openKey}
	_ = json.Unmarshal([]byte(value), &held.Holder) // what another version has written is still another's
	return held
}

// renew prolongs the lease; an error says that it is lost. One that is gone, as after a flush, is taken again; another's is not.
func (e *external) renew(ctx context.Context) error {
	err := e.client.Eval(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
		[]string{leaseKey}, e.me, leaseTTL.Milliseconds()).Err()
	if err == nil {
		err = e.claim(ctx, leaseKey, leaseTTL)
	}
	if held := new(HeldError); errors.As(err, &held) {
		return held
	}
	return nil // a target that does not answer now is asked again
}

// held fails once the target is another run's: the drill is over then.
func (e *external) held() (string, error) { return "", e.turn.Held() }

var errNotOurs = errors.New("it is not this run's own server: start a server of the run's own with redis.mode: spawn")

func (e *external) kill(context.Context) error {
	return fmt.Errorf("kill %s: %w", e.where.Addr, errNotOurs)
}

// start implements host: it was never killed.
func (e *external) start(ctx context.Context, client redis.UniversalClient, _ bool) error {
	return client.Ping(ctx).Err()
}

func (e *external) process() *undo.Process { return nil }

// end removes every key of the run, verifies it, and gives the target back.
func (e *external) end(ctx context.Context) error {
	return e.turn.end(func() error { return e.giveBack(ctx) })
}

func (e *external) giveBack(ctx context.Context) error {
	r := undo.Record{Kind: undo.StandKeys, Store: &e.where, Key: &undo.Key{Name: e.prefix, Token: e.me}}
	if err := EndKeys(ctx, r); err != nil {
		return err
	}
	return e.journal.Mark(e.record, undo.Undone, "")
}

// EndKeys undoes a stay at a Redis that the run did not start, from any process that reaches it: every key below the run's prefix is
// removed, which is verified, and then lease and open mark, if they are this run's.
func EndKeys(ctx context.Context, r undo.Record) error {
	if r.Store == nil || r.Key == nil || !strings.HasPrefix(r.Key.Name, "lockdrill:") || strings.Count(r.Key.Name, ":") != 2 || !strings.HasSuffix(r.Key.Name, ":") {
		return errors.New("remove keys: the record does not name a run's prefix")
	}
	if r.Store.Kind == protocol.KindEtcd {
		return endEtcdKeys(ctx, r)
	}
	c, err := Connect(*r.Store)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := sweep(ctx, c, r.Key.Name, sweepTries); err != nil {
		return fmt.Errorf("remove keys %s* at %s: %w", r.Key.Name, target(*r.Store), err)
	}
	for _, key := range []string{leaseKey, openKey} { // the mark last: whoever sees none finds nothing of ours
		err := c.Eval(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`, []string{key}, r.Key.Token).Err()
		if err != nil {
			return fmt.Errorf("give up %s at %s: %w", key, target(*r.Store), err)
		}
	}
	return nil
}

// sweep deletes the keys that begin with prefix, and those that stand beside a lock, whose names begin with "{" and the prefix. With
// more than one try it goes on until a pass finds none.
func sweep(ctx context.Context, c redis.UniversalClient, prefix string, tries int) error {
	for range tries {
		found := 0
		for _, begin := range []string{prefix, "{" + prefix} {
			err := onServers(ctx, c, func(ctx context.Context, server *redis.Client) error {
				n, err := sweepOnce(ctx, server, c, begin)
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

func sweepOnce(ctx context.Context, server *redis.Client, c redis.UniversalClient, begin string) (found int, err error) {
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(begin) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := server.Scan(ctx, cursor, pattern, sweepPage).Result()
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
	w, err := whereIs(r)
	if err != nil {
		return "", err
	}
	c, err := Connect(w)
	if err != nil {
		return "", err
	}
	defer c.Close()
	info, err := serverInfo(ctx, c)
	return info["run_id"], err
}
