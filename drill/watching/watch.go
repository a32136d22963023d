package watching

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores/lease"
	redislocks "github.com/lockdrill/lockdrill/stores/redis"
	"github.com/lockdrill/lockdrill/stores/witness"
)

const (
	lookEvery  = 50 * time.Millisecond // or 20 times what a look takes: a script keeps the server from all others
	shareOf    = 20
	lastLooks  = 5
	LookWithin = 2 * time.Second // a look takes no longer, and nor is a stretch without one tolerated
	mostKeys   = 20_000          // that are looked at
	askCosts   = time.Minute
)

// Options say what is watched: keys of a Redis, or Lease objects.
type Options struct {
	Redis    experiments.Redis // without a URL: Leases
	Patterns []string          // of keys, as SCAN has them; one without a star is a name
	Cluster  kube.Options      // of the Leases
	Leases   []string          // their names; none = all of the namespace
	Holder   *regexp.Regexp    // finds the holder's name in a value, as its group holder; nil = values stay unread
	Clock    func() int64
}

// Seen is an event of a probe, in the order in which they come about.
type Seen struct {
	history.Event
	Values draft.Values // of what stands in its key; "" = nothing new about it
	Holder string       // the name in its value; "" = none is known
}

// Watcher looks at what its Options say, by itself.
type Watcher struct {
	o       Options
	redis   *redis.Options // nil = Leases
	cluster *kube.Cluster
}

// New reads what is needed to dial, the variables of the environment and the kubeconfig, and does not dial.
func New(o Options) (*Watcher, error) {
	if o.Redis.URL == "" {
		cluster, err := kube.Open(o.Cluster)
		return &Watcher{o: o, cluster: cluster}, err
	}
	if err := o.Redis.Check(); err != nil {
		return nil, err
	}
	at, err := redis.ParseURL(o.Redis.URL)
	if err != nil {
		return nil, errors.New("--redis: not the url of a Redis") // the parser's words would show it
	}
	dial, err := endpoint.Options(protocol.Endpoint{Addr: at.Addr, DB: at.DB, TLS: at.TLSConfig != nil, CA: o.Redis.CA, Cert: o.Redis.Cert, Key: o.Redis.Key,
		UsernameEnv: o.Redis.UsernameEnv, PasswordEnv: o.Redis.PasswordEnv})
	return &Watcher{o: o, redis: dial}, err
}

// Namespace is that of the Leases, "" of a Redis.
func (w *Watcher) Namespace() string {
	if w.cluster == nil {
		return ""
	}
	return w.cluster.Namespace
}

// State is what a watch has come to.
type State struct {
	Rows    []Row         `json:"locks"`
	For     time.Duration `json:"watched_ns"`
	Looks   int           `json:"looks"`
	Failed  int           `json:"failed_looks"`
	Why     string        `json:"last_failure,omitempty"`
	Every   time.Duration `json:"look_every_ns"` // at present
	Last    history.Span  `json:"-"`             // the last look
	Took    time.Duration `json:"-"`             // by it
	Server  time.Duration `json:"-"`             // processor time of the servers for all looks, as far as they tell; asked once a minute
	Keys    int           `json:"keys_seen"`
	TooMany bool          `json:"too_many_keys,omitempty"`
}

// looker is one of the probes.
type looker interface {
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
}

type watch struct {
	*Watcher
	see   func(Seen)
	state State
	began int64
	asked int64 // when the servers were asked what the looks cost
	probe looker
	keys  *redislocks.Keyspace // the probe of keys
	mu    sync.Mutex
	said  map[string]Seen // of the values that the present look showed, by their keys
	took  []time.Duration // of the last looks
}

// Watch looks until ctx ends, and calls each with what has been seen after every look. It fails if the first look does.
func (r *Watcher) Watch(ctx context.Context, each func(State)) error {
	var table Table
	return r.Follow(ctx, table.note, func(s State) {
		s.Rows = table.Rows(r.o.Clock())
		each(s)
	})
}

// Follow is Watch for whoever keeps what was seen: see gets it event by event, and each what the looks came to, without rows.
func (r *Watcher) Follow(ctx context.Context, see func(Seen), each func(State)) error {
	o := &r.o
	w := &watch{Watcher: r, see: see, began: o.Clock(), state: State{Every: lookEvery}}
	closing, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer closing()
	for seen := false; ; {
		from := o.Clock()
		err := w.look(ctx)
		if over(ctx) {
			return nil
		}
		switch w.state.Looks++; {
		case err == nil || errors.Is(err, redislocks.ErrNotYet):
			seen = true
		case !seen && w.redis != nil:
			if inner := errors.Unwrap(err); inner != nil { // which says how many keys it was about
				err = inner
			}
			return fmt.Errorf("the Redis %s cannot be looked at: %w", w.redis.Addr, endpoint.Explained(err, w.redis.TLSConfig != nil, false))
		case !seen:
			return err
		default:
			w.state.Failed++
			w.state.Why = err.Error()
		}
		now := o.Clock()
		w.state.Last, w.state.Took = history.Span{From: from, To: now}, time.Duration(now-from)
		w.state.For, w.state.Every = time.Duration(now-w.began), w.pause(w.state.Took)
		if w.keys != nil && time.Duration(now-w.asked) >= askCosts {
			w.asked, w.state.Server = now, time.Duration(w.keys.Observer(ctx).Ours)
		}
		each(w.state)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.state.Every):
		}
	}
}

// holderIn is the holder's name in a value, "" where there is none.
func (o *Options) holderIn(value string) string {
	if o.Holder == nil {
		return ""
	}
	found := o.Holder.FindStringSubmatch(value)
	if found == nil {
		return ""
	}
	return found[o.Holder.SubexpIndex("holder")]
}

// over says whether the watch has ended, and has cut its last look off. A socket with the deadline of ctx fails before ctx itself is done.
func over(ctx context.Context) bool {
	at, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(at)
}

// pause is how long the server is left alone after a look. Of the last looks the fastest counts: a slow one may be this machine's fault, and
// the first one dials. So the first few follow one another, at most half of the time, and say what a look costs.
func (w *watch) pause(took time.Duration) time.Duration {
	w.took = append(w.took, took)
	if len(w.took) < lastLooks {
		return max(lookEvery, took)
	}
	w.took = w.took[len(w.took)-lastLooks:]
	return max(lookEvery, shareOf*slices.Min(w.took))
}

// open makes the probes.
func (w *watch) open(ctx context.Context) (closing func(), err error) {
	if w.redis == nil {
		return w.openLeases(ctx)
	}
	o := redislocks.KeyspaceOptions{Client: endpoint.Clients(w.redis, w.o.Redis.Cluster, LookWithin), DB: w.redis.DB, Canary: "lockdrill:watch", Quiet: true, Exact: map[string]string{}, Most: mostKeys, MaxGap: LookWithin, Clock: w.o.Clock}
	for _, p := range w.o.Patterns {
		if strings.ContainsAny(p, "*?[") {
			o.Globs = append(o.Globs, p)
		} else {
			o.Exact[p] = ""
		}
	}
	if alone, ok := o.Client.(*redis.Client); ok {
		// A server that does not say goes on to be looked at: the first look says what is wrong.
		if info, err := alone.Info(ctx, "cluster").Result(); err == nil && strings.Contains(info, "cluster_enabled:1") {
			return nil, errors.Join(errors.New("this server has a part of a cluster's keys: say --cluster"), alone.Close())
		}
	}
	w.keys = redislocks.NewKeyspace(o)
	w.said = map[string]Seen{}
	w.keys.Name(witness.Names{Holder: func(u witness.Unclaimed) witness.Named {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said[u.Key] = Seen{Values: kindOf(u.Value), Holder: w.o.holderIn(u.Value)}
		return witness.Named{Holder: "seen"} // once is enough
	}})
	w.probe = w.keys
	return func() { _ = w.keys.Close() }, nil
}

func (w *watch) openLeases(ctx context.Context) (func(), error) {
	names := w.o.Leases
	if len(names) == 0 {
		all, err := w.cluster.Leases(ctx)
		if err != nil {
			return nil, err
		}
		for i := range all {
			names = append(names, all[i].Name)
		}
	}
	locks := map[string]string{}
	for _, name := range names {
		locks[name] = name
	}
	leases := lease.NewNamed(w.cluster, locks, func(string) string { return "" }, w.o.Clock)
	w.probe, w.state.Keys = leases, len(names)
	return func() { _ = leases.Close() }, nil
}

func (w *watch) look(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, LookWithin)
	defer stop()
	from := w.o.Clock()
	take, err := w.probe.Look(ctx, false)
	if err != nil {
		return err
	}
	events := take(history.Span{From: from, To: w.o.Clock()})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		seen := w.said[e.Key]
		if seen.Event = e; e.Look != nil && e.Look.Named != "" { // a Lease object names its holder
			seen.Holder = w.o.holderIn(e.Look.Named)
		}
		w.see(seen)
	}
	clear(w.said) // told: what was seen of keys that have gone is not kept
	if w.keys != nil {
		w.state.Keys, w.state.TooMany = w.keys.Known()
	}
	return nil
}
