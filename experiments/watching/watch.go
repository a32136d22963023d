package watching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/probes"
)

const (
	lookEvery  = 50 * time.Millisecond // or 20 times what a look takes: a script keeps the server from all others
	shareOf    = 20
	lastLooks  = 5
	scanPage   = 1000 // keys that a SCAN looks at, once a look
	lookWithin = 2 * time.Second
	mostKeys   = 20_000
)

// Options say what is watched: keys of a Redis, or Lease objects.
type Options struct {
	Redis    experiments.Redis // without a URL: Leases
	Patterns []string          // of keys, as SCAN has them; one without a star is a name
	Cluster  kube.Options      // of the Leases
	Leases   []string          // their names; none = all of the namespace
	Clock    func() int64
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
	dial, err := endpoint.Options(protocol.Endpoint{Addr: at.Addr, DB: at.DB, TLS: at.TLSConfig != nil, CA: o.Redis.CA,
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
	Keys    int           `json:"keys_seen"`
	Others  int           `json:"keys_of_other_types"` // which this does not watch: hashes, streams
	TooMany bool          `json:"too_many_keys,omitempty"`
}

// looker is one of the probes.
type looker interface {
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
}

type watch struct {
	*Watcher
	table Table
	state State
	began int64
	probe looker
	scan  *scan           // nil = the keys are known
	took  []time.Duration // of the last looks
}

// Watch looks until ctx ends, and calls each with what has been seen after every look. It fails if the first look does.
func (r *Watcher) Watch(ctx context.Context, each func(State)) error {
	o := &r.o
	w := &watch{Watcher: r, began: o.Clock(), state: State{Every: lookEvery}}
	closing, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer closing()
	for {
		from := o.Clock()
		err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if w.state.Looks++; err != nil {
			if w.state.Looks == 1 {
				return err
			}
			w.state.Failed++
			w.state.Why = err.Error()
		}
		now := o.Clock()
		w.state.Every = w.pause(time.Duration(now - from))
		w.state.For, w.state.Rows = time.Duration(now-w.began), w.table.Rows(now)
		each(w.state)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.state.Every):
		}
	}
}

// pause is how long the server is left alone after a look. Of the last looks the fastest counts: a slow one may be this machine's fault.
func (w *watch) pause(took time.Duration) time.Duration {
	w.took = append(w.took, took)
	w.took = w.took[max(0, len(w.took)-lastLooks):]
	return max(lookEvery, shareOf*slices.Min(w.took))
}

// open makes the probes.
func (w *watch) open(ctx context.Context) (closing func(), err error) {
	if w.redis == nil {
		return w.openLeases(ctx)
	}
	options := *w.redis
	keys := probes.NewLockKeys(&options, "")
	w.probe = keys
	w.scan = newScan(w.redis, w.o.Patterns)
	for _, p := range w.o.Patterns {
		if !strings.ContainsAny(p, "*?[") {
			keys.Watch("", p)
		}
	}
	return func() { _ = errors.Join(keys.Close(), w.scan.client.Close()) }, nil
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
	leases := probes.NewLeases(w.cluster, locks, func(string) string { return "" }, w.o.Clock)
	w.probe, w.state.Keys = leases, len(names)
	return func() { _ = leases.Close() }, nil
}

func (w *watch) look(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, lookWithin)
	defer stop()
	if w.scan != nil {
		if err := w.find(ctx); err != nil {
			return err
		}
	}
	from := w.o.Clock()
	take, err := w.probe.Look(ctx, false)
	if err != nil {
		return err
	}
	for _, e := range take(history.Span{From: from, To: w.o.Clock()}) {
		if prev, found := w.scanned(e.Key); found && e.Look != nil && e.Look.Prev == nil {
			e.Look.Prev = &prev
		}
		w.table.See(e)
	}
	return nil
}

// find reads a page of the keys, and watches what is new in it.
func (w *watch) find(ctx context.Context) error {
	names, err := w.scan.page(ctx, w.o.Clock)
	if err != nil {
		return err
	}
	for _, name := range names {
		w.probe.(*probes.LockKeys).Expect("", name)
	}
	w.state.Keys, w.state.Others, w.state.TooMany = len(w.scan.known), w.scan.others, w.scan.tooMany
	return nil
}

// scanned is the time of the scan before that in which a key was found: it was not there at some instant of it.
func (w *watch) scanned(key string) (history.Span, bool) {
	if w.scan == nil {
		return history.Span{}, false
	}
	at, ok := w.scan.known[key]
	return at, ok && at != history.Span{}
}

// scan walks through the names of keys, page by page and again and again.
type scan struct {
	client   *redis.Client
	patterns []string // with stars
	at       int      // whose turn it is
	cursor   uint64
	began    int64
	last     history.Span            // of the last whole round; zero = there was none
	known    map[string]history.Span // keys, with the round before that in which each was found
	skipped  map[string]bool         // of other types
	others   int
	tooMany  bool
}

func newScan(o *redis.Options, patterns []string) *scan {
	options := *o
	options.Protocol, options.DisableIdentity, options.ContextTimeoutEnabled = 2, true, true
	s := &scan{client: redis.NewClient(&options), known: map[string]history.Span{}, skipped: map[string]bool{}}
	for _, p := range patterns {
		if strings.ContainsAny(p, "*?[") {
			s.patterns = append(s.patterns, p)
		}
	}
	return s
}

// page gives the names of locks that were not known.
func (s *scan) page(ctx context.Context, clock func() int64) ([]string, error) {
	if len(s.patterns) == 0 {
		return nil, nil
	}
	if s.at == 0 && s.cursor == 0 {
		s.began = clock()
	}
	found, next, err := s.client.Scan(ctx, s.cursor, s.patterns[s.at], scanPage).Result()
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	fresh := slices.DeleteFunc(found, func(name string) bool { _, known := s.known[name]; return known || s.skipped[name] })
	fresh, err = s.texts(ctx, fresh)
	if err != nil {
		return nil, err
	}
	if s.cursor = next; next == 0 {
		if s.at = (s.at + 1) % len(s.patterns); s.at == 0 {
			s.last = history.Span{From: s.began, To: clock()}
		}
	}
	return fresh, nil
}

// texts are those of the keys that hold a text, as locks do.
func (s *scan) texts(ctx context.Context, names []string) (texts []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	p := s.client.Pipeline()
	types := make([]*redis.StatusCmd, len(names))
	for i, name := range names {
		types[i] = p.Type(ctx, name)
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, fmt.Errorf("ask for the types of keys: %w", err)
	}
	for i, name := range names {
		switch kind := types[i].Val(); {
		case kind == "none": // it has gone
		case kind != "string":
			s.skipped[name] = true
			s.others++
		case len(s.known) >= mostKeys:
			s.tooMany = true
		default:
			s.known[name] = s.last
			texts = append(texts, name)
		}
	}
	return texts, nil
}
