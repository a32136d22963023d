package sli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/history"
)

// Bounds of memory, and of the number of series.
const (
	mostKeys    = 20_000
	mostLocks   = 500
	mostHolders = 200 // of a lock, at a time
	other       = "other"
)

// Exporter keeps what a watch sees and shows it on a registry of its own. Its methods may be called at any time.
type Exporter struct {
	Registry *prometheus.Registry

	mu    sync.Mutex
	names map[string]bool // keys that were asked for by name
	keys  map[string]*tape
	locks map[string]bool
	ends  history.Ends
	cover coverage

	held, takeover, parts, renewals         *prometheus.HistogramVec // all but the last by the bound of the range
	grants, leases, vanished                *prometheus.CounterVec
	looks                                   *prometheus.CounterVec
	took                                    prometheus.Histogram
	every, known, lastLook, server, tooMany prometheus.Gauge
	forgotten                               prometheus.Counter
	failed                                  int   // looks, so far
	blind                                   bool  // the last look failed
	looked                                  int64 // when the last one that succeeded ended
}

const bound, lockLabel, part = "bound", "lock", "part"

// New returns an exporter of the keys that names name, one by one, and of whatever else it is shown.
func New(names []string) *Exporter {
	x := &Exporter{Registry: prometheus.NewRegistry(), names: map[string]bool{}, keys: map[string]*tape{}, locks: map[string]bool{}, ends: history.Ends{}}
	for _, n := range names {
		x.names[n] = true
	}
	seconds := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
	histogram := func(o prometheus.HistogramOpts, name, help string, labels ...string) *prometheus.HistogramVec {
		o.Name, o.Help, o.Buckets = "lockdrill_watch_"+name, help, seconds
		h := prometheus.NewHistogramVec(o, labels)
		x.Registry.MustRegister(h)
		return h
	}
	// Not the others: a server that takes native histograms takes their buckets no more, which exported alerts ask for.
	native := prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockdrill_watch_" + name, Help: help}, labels)
		x.Registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockdrill_watch_" + name, Help: help})
		x.Registry.MustRegister(g)
		return g
	}
	x.held = histogram(prometheus.HistogramOpts{}, "held_seconds", "For how long a key was one grant's, at least (lo) and at most (hi).", lockLabel, bound)
	x.takeover = histogram(prometheus.HistogramOpts{}, "takeover_seconds", "After a lease that ran out: from its holder's failure to the next grant, at least (lo) and at most (hi).", lockLabel, bound)
	x.parts = histogram(native, "takeover_part_seconds", "Of those takeovers: what was left of the lease, and the pickup, at least (lo) and at most (hi).", lockLabel, part, bound)
	x.renewals = histogram(prometheus.HistogramOpts{}, "renewal_interval_seconds", "Time between two renewals of a lease, or from its grant to the first.", lockLabel)
	x.grants = counter("grants_total", "Grants that were seen.", lockLabel)
	x.leases = counter("leases_ended_total", "Leases that ended, by how.", lockLabel, "how")
	x.vanished = counter("vanished_total", "Keys that were gone before their lease's end, and whose token came back: nobody had released them.", lockLabel)
	x.looks = counter("looks_total", "Looks at the locks.", "result")
	x.took = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lockdrill_watch_look_seconds", Help: "How long a look took.", Buckets: prometheus.ExponentialBuckets(.0005, 2, 13)})
	x.forgotten = prometheus.NewCounter(prometheus.CounterOpts{Name: "lockdrill_watch_forgotten_keys_total", Help: "Keys that there was no memory for: what came of them is not counted."})
	x.every = gauge("look_interval_seconds", "The pause between two looks, at present.")
	x.known = gauge("keys", "Keys that are looked at.")
	x.tooMany = gauge("too_many_keys", "1 if more keys match than are looked at.")
	x.lastLook = gauge("last_look_timestamp_seconds", "When a look last succeeded.")
	x.server = gauge("server_cpu_seconds", "Processor time that all looks have cost the servers so far, as far as they tell.")
	x.Registry.MustRegister(x.took, x.forgotten, holders{x}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	for _, result := range []string{"ok", "failed"} {
		x.looks.WithLabelValues(result)
	}
	return x
}

// leaseObject tells a Lease of Kubernetes from a key.
func leaseObject(e *history.Event) bool { return strings.HasSuffix(e.Source, "leases") }

// See takes in what a look showed of a key.
func (x *Exporter) See(s watching.Seen) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case s.Kind == history.GapKind:
		x.cover.gaps = latest(append(x.cover.gaps, s.Span))
		return nil
	case s.Look == nil:
		return nil
	}
	t := x.keys[s.Key]
	if t == nil {
		if t = x.room(&s.Event); t == nil {
			return nil
		}
	}
	n, err := t.see(&s, x.ends.Extended(s.Event), &x.cover)
	if !t.leased {
		return err
	}
	t.lock = cmp.Or(t.lock, x.lockOf(&s.Event))
	if n.granted {
		x.grants.WithLabelValues(t.lock).Inc()
	}
	if n.renewal > 0 {
		x.renewals.WithLabelValues(t.lock).Observe(seconds(n.renewal))
	}
	if n.returned {
		x.vanished.WithLabelValues(t.lock).Inc()
	}
	if n.ending != nil {
		x.leases.WithLabelValues(t.lock, string(n.ending.How)).Inc()
		if n.ending.Held != nil {
			observe(x.held, *n.ending.Held, t.lock)
		}
	}
	if n.takeover != nil {
		observe(x.takeover, *n.takeover.Takeover, t.lock)
		observe(x.parts, n.takeover.Residual, t.lock, verdict.PartResidual)
		observe(x.parts, n.takeover.Pickup, t.lock, verdict.PartPickup)
	}
	return err
}

func observe(h *prometheus.HistogramVec, d facts.Dur, labels ...string) {
	h.WithLabelValues(append(labels, "lo")...).Observe(seconds(d.Lo))
	h.WithLabelValues(append(labels, "hi")...).Observe(seconds(d.Hi))
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// lockOf is the label of a key. Its series begin at 0, so that the first event counts in an increase.
func (x *Exporter) lockOf(e *history.Event) string {
	lock := e.Key
	if !x.names[lock] && !leaseObject(e) {
		lock = watching.Group(lock)
	}
	if !x.locks[lock] && len(x.locks) >= mostLocks {
		lock = other
	}
	if x.locks[lock] {
		return lock
	}
	x.locks[lock] = true
	for _, b := range []string{"lo", "hi"} {
		x.held.WithLabelValues(lock, b)
		x.takeover.WithLabelValues(lock, b)
		x.parts.WithLabelValues(lock, verdict.PartResidual, b)
		x.parts.WithLabelValues(lock, verdict.PartPickup, b)
	}
	x.renewals.WithLabelValues(lock)
	x.grants.WithLabelValues(lock)
	x.vanished.WithLabelValues(lock)
	for _, how := range facts.LeaseEnds() {
		x.leases.WithLabelValues(lock, string(how))
	}
	return lock
}

// room makes room for a key: where there is none, the half of the free ones that were seen the longest ago go. nil = all are held.
func (x *Exporter) room(e *history.Event) *tape {
	if len(x.keys) >= mostKeys {
		free := slices.DeleteFunc(slices.Collect(maps.Keys(x.keys)), func(key string) bool { return x.keys[key].held })
		slices.SortFunc(free, func(a, b string) int { return cmp.Compare(x.keys[a].at, x.keys[b].at) })
		for _, key := range free[:(len(free)+1)/2] {
			if len(x.keys[key].looks) > 0 {
				x.forgotten.Inc() // its next grant would have been a takeover
			}
			delete(x.keys, key)
			delete(x.ends, key)
		}
		if len(free) == 0 {
			x.forgotten.Inc()
			return nil
		}
	}
	t := &tape{leased: leaseObject(e)}
	x.keys[e.Key] = t
	return t
}

// Looked takes in what a look came to.
func (x *Exporter) Looked(s watching.State) {
	x.mu.Lock()
	failed := s.Failed > x.failed
	if x.failed, x.blind = s.Failed, failed; !failed {
		x.looked = s.Last.To
		x.cover.looked(s.Last)
	}
	x.mu.Unlock()
	if failed {
		x.looks.WithLabelValues("failed").Inc()
	} else {
		x.looks.WithLabelValues("ok").Inc()
		x.lastLook.SetToCurrentTime()
	}
	x.took.Observe(s.Took.Seconds())
	x.every.Set(s.Every.Seconds())
	x.known.Set(float64(s.Keys))
	x.server.Set(s.Server.Seconds())
	x.tooMany.Set(0)
	if s.TooMany {
		x.tooMany.Set(1)
	}
}

// holders shows who holds how many keys of each lock at present: the only figure that is made when it is asked for.
type holders struct{ x *Exporter }

var holdersOf = prometheus.NewDesc("lockdrill_watch_holders", "Keys that are held at present, by holder; without a name where none is known. Missing while looks fail.", []string{lockLabel, "holder"}, nil)

// Describe implements prometheus.Collector.
func (h holders) Describe(to chan<- *prometheus.Desc) { to <- holdersOf }

// Collect implements prometheus.Collector.
func (h holders) Collect(to chan<- prometheus.Metric) {
	h.x.mu.Lock()
	if h.x.blind { // who holds now is not known
		h.x.mu.Unlock()
		return
	}
	counts := map[string]map[string]int{}
	for lock := range h.x.locks {
		counts[lock] = map[string]int{"": 0}
	}
	for _, t := range h.x.keys {
		if !t.held || t.lock == "" || t.until != 0 && t.until < h.x.looked {
			continue
		}
		of, by := counts[t.lock], t.holder
		if _, known := of[by]; !known && len(of) >= mostHolders {
			by = other
		}
		of[by]++
	}
	h.x.mu.Unlock()
	for lock, of := range counts {
		for by, n := range of {
			to <- prometheus.MustNewConstMetric(holdersOf, prometheus.GaugeValue, float64(n), lock, by)
		}
	}
}
