package drill

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/probes/holders"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// asking is what sources of system.holder are made of.
type asking struct {
	e        *experiments.Experiment
	files    *follow.Bus // nil = nobody else reads files
	replicas func() []testbed.Living
	redis    func() (*holders.RedisOptions, error)
	clock    func() int64
	onWindow func(holders.Cost)
}

// lives are the replicas as sources know them.
func (a *asking) lives() []holders.Life {
	var all []holders.Life
	for _, l := range a.replicas() {
		all = append(all, holders.Life{Incarnation: l.Incarnation, Name: l.Name, PID: l.PID, Since: l.Since, Known: l.Known, Log: l.Log, Metrics: l.Metrics})
	}
	return all
}

// chain are the sources, in the order of the file; logs are those that lines of pods' logs are for.
func (a *asking) chain() (c *holders.Chain, logs []*holders.Log, err error) {
	var sources []holders.Source
	for i := range a.e.System.Holder {
		s, err := a.source(&a.e.System.Holder[i])
		if err != nil {
			return nil, nil, err
		}
		if g, ok := s.(*holders.Log); ok {
			logs = append(logs, g)
		}
		sources = append(sources, s)
	}
	return holders.NewChain(a.clock, sources...), logs, nil
}

// source is one entry of the file. What could be wrong with it was found when the file was read.
func (a *asking) source(h *experiments.HolderSource) (holders.Source, error) {
	switch {
	case h.Value != nil:
		v := &holders.Value{Lives: a.lives, Field: h.Value.Field, Is: fits(h.Value.Is, a.lives)}
		if h.Value.Pattern != "" {
			v.Pattern = regexp.MustCompile(h.Value.Pattern)
		}
		return v, nil
	case h.Client != nil:
		return a.client(h.Client)
	case h.Proxy != nil && h.Proxy.Is != "":
		return holders.NewProxy(h.Proxy.API, fits(h.Proxy.Is, a.lives), a.lives), nil
	case h.Proxy != nil:
		return holders.NewProxy(h.Proxy.API, nil, a.lives), nil
	case h.Log != nil:
		glob := ""
		if p := a.e.System.Processes; p != nil {
			glob = follow.Glob(p.Log)
		}
		return holders.NewLog(regexp.MustCompile(h.Log.Pattern), a.files, glob, a.lives, a.lease, a.clock), nil
	case h.Metric != nil:
		return a.metric(h.Metric), nil
	}
	return a.command(h.Command), nil
}

// lease is how long a token of a lock stays where nobody renews it.
func (a *asking) lease(lock string) time.Duration {
	if l := a.e.Lock(lock); l != nil {
		return l.Policy.TTL
	}
	return 0
}

func (a *asking) client(h *experiments.HolderClient) (holders.Source, error) {
	options, err := a.redis()
	if err != nil {
		return nil, err
	}
	o := holders.ClientOptions{
		Redis: options, Lives: a.lives, Window: h.Window, Commands: h.Commands, Clock: a.clock, OnWindow: a.onWindow,
		Renews: func(lock string) time.Duration {
			if l := a.e.Lock(lock); l != nil {
				return l.Policy.RenewEvery
			}
			return 0
		},
	}
	if h.Is != "" {
		o.Is = fits(h.Is, a.lives)
	}
	return holders.NewClient(o), nil
}

func (a *asking) metric(h *experiments.HolderMetric) *holders.Metric {
	return &holders.Metric{
		Lives: a.lives, Series: h.Series,
		URL: func(l holders.Life) string {
			if h.URL == "" {
				return l.Metrics
			}
			url, _ := experiments.FillIn(h.URL, l.Known)
			return url
		},
		Labels: func(l holders.Life, q holders.Question) map[string]string {
			labels := map[string]string{}
			for name, value := range h.Labels {
				labels[name], _ = experiments.FillIn(about(value, q), l.Known)
			}
			return labels
		},
	}
}

func (a *asking) command(h *experiments.HolderCommand) holders.Source {
	return &holders.Command{Lives: a.lives, Run: func(q holders.Question) command.Command {
		c := command.Command{Within: h.Within}
		for _, word := range h.Run {
			c.Words = append(c.Words, about(word, q))
		}
		return c
	}}
}

// about fills in what a template says of the key. Its token is no word of it.
func about(template string, q holders.Question) string {
	return strings.NewReplacer("{"+experiments.AboutKey+"}", q.Key, "{"+experiments.AboutLock+"}", q.Lock,
		"{"+experiments.AboutEpoch+"}", lockcore.Fingerprint(q.Value)).Replace(template)
}

// fits says how a name leads to a replica: by a template, or, where there is none, by what the name begins with. A name that fits several
// is the longest one's, as with pods: by "{name}-*", s-1-x is s-1's and not s's. That holds of one that has died, too: what it left is
// not the shorter one's. Longer is who alone fits the other one's template; where that is nobody, all of them are meant.
func fits(is string, lives func() []holders.Life) holders.Fits {
	own := func(l holders.Life, name string) bool {
		if is == "" {
			return l.Name != "" && (*experiments.HolderNames)(nil).Is(name, l.Name, nil, nil)
		}
		return experiments.FitsTemplate(is, l.Known, name)
	}
	if endless.MatchString(is) {
		return own
	}
	spelt := func(l holders.Life) string { // the template of its names
		if is == "" {
			return l.Name
		}
		text, _ := experiments.FillIn(is, l.Known)
		return text
	}
	var mu sync.Mutex
	seen := map[string]holders.Life{} // by that template
	return func(l holders.Life, name string) bool {
		if !own(l, name) {
			return false
		}
		all := lives()
		mu.Lock()
		defer mu.Unlock()
		for _, o := range all {
			seen[spelt(o)] = o
		}
		for text, o := range seen {
			if own(o, name) && own(l, text) && !own(o, spelt(l)) {
				return false
			}
		}
		return true
	}
}

// endless finds a star that nothing parts from a word: by "{name}*", s10 may be s1's as well.
var endless = regexp.MustCompile(`[A-Za-z0-9}]\*|\*[A-Za-z0-9{]`)

// askHolders lets the sources of the file say who holds keys, when a look shows a new token and again just before each shot.
func (d *Drill) askHolders(fleet observedFleet, names *witness.Names) error {
	if len(d.e.System.Holder) == 0 {
		return nil
	}
	a := &asking{e: d.e, files: &d.files, replicas: fleet.Replicas, redis: d.locks.Options, clock: d.clock, onWindow: d.window}
	chain, logs, err := a.chain()
	if err != nil {
		return fmt.Errorf("open sources of holders: %w", err)
	}
	d.heard.Store(&logs)
	d.looks = append(d.looks, chain.Close)
	names.Holder, names.Shown = chain.Named, false
	d.cfg.Again = func(ctx context.Context, shot history.Event) error { return d.again(ctx, chain, shot) }
	return nil
}

// again asks who holds the key of a shot, and reads the key once more after that.
func (d *Drill) again(ctx context.Context, chain *holders.Chain, shot history.Event) error {
	at := slices.IndexFunc(d.backends, func(b witness.Watch) bool { return !b.Kind().Named })
	l := d.e.Lock(shot.Lock)
	if at < 0 || l == nil || l.Lease != "" || shot.Fault.Victim == "" {
		return nil
	}
	now, err := d.stillHeld(ctx, d.backends[at], shot)
	if err != nil {
		return err
	}
	if err := chain.Confirm(ctx, now, shot.Fault.Victim); err != nil {
		return err
	}
	_, err = d.stillHeld(ctx, d.backends[at], shot)
	return err
}

// stillHeld reads the key of a shot: its token is to be the one that was aimed at.
func (d *Drill) stillHeld(ctx context.Context, keys witness.Watch, shot history.Event) (witness.Unclaimed, error) {
	now, epoch, held, err := keys.Now(ctx, shot.Lock, shot.Key)
	switch {
	case err != nil:
		return now, holders.NewVoid(history.HolderUnknown, err.Error())
	case !held || epoch != shot.Epoch:
		return now, holders.NewVoid(history.Moved, "the lock key named another holder, or none, when it was read again just before the shot")
	}
	return now, nil
}

// window records what a window of MONITOR came to.
func (d *Drill) window(c holders.Cost) {
	o := &history.Observer{Way: history.ProbeMonitor, Commands: int64(c.Commands), Window: int64(c.Took)}
	if c.CPU > 0 {
		o.Server = int64(c.CPU * float64(c.Took))
	}
	e := history.Event{Kind: history.CoverageKind, Span: history.Span{From: c.Began, To: c.Began + int64(c.Took)}, Source: "probe:monitor",
		Coverage: &history.Coverage{Probe: history.ProbeMonitor, Samples: int64(c.Commands), Observer: o}}
	if c.Err != nil {
		e.Coverage.Why = c.Err.Error()
	}
	_ = d.record(e) // a failed recorder ends the run by itself
}

// listener is who is told what pods' logs say.
type listener interface {
	Line(incarnation string, l follow.Line)
	Cut(whose string, at history.Span)
}

// recalling is who wants to know what a pod's log had before its lines are told.
type recalling interface {
	Past(incarnation string, at history.Span, lines []follow.Line, why string)
}

// hearPods lets all listen who want lines of pods' logs. Sources of holders come once the pods are watched.
func (d *Drill) hearPods(o *testbed.PodsOptions) {
	if len(d.lines) == 0 && !slices.ContainsFunc(d.e.System.Holder, func(h experiments.HolderSource) bool { return h.Log != nil }) {
		return
	}
	o.OnLine = func(incarnation string, l follow.Line) {
		for _, s := range d.lines {
			s.Line(incarnation, l)
		}
		if logs := d.heard.Load(); logs != nil {
			for _, g := range *logs {
				g.Line(incarnation, l)
			}
		}
	}
	var recalls []recalling
	for _, s := range d.lines {
		if r, ok := s.(recalling); ok {
			recalls = append(recalls, r)
		}
	}
	if len(recalls) > 0 {
		o.OnPast = func(incarnation string, p testbed.Past) {
			for _, r := range recalls {
				r.Past(incarnation, p.At, p.Lines, p.Why)
			}
		}
	}
	o.OnCut = func(whose string, at history.Span) {
		for _, s := range d.lines {
			s.Cut(whose, at)
		}
	}
}
