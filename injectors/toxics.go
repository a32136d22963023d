package injectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/sockets"
	"github.com/lockdrill/lockdrill/internal/toxi"
)

// Toxics makes the faults of the network: latency, jitter, bandwidth, slices, black_hole, reset, slow_close and down, on the victims' ways to
// the locks' store, each a proxy of a Toxiproxy.
//
// A way belongs to a replica's name: the fault outlasts the replica's life, and with aim all it is on every way. Confirm asks twice:
// a connection of its own through each way, and the victims' own claims or, where the magnitude is too small for those to show it,
// their sockets. A client that goes round its way is void.
type Toxics struct {
	Fault    func(id string) fault.Spec             // as it is run: scaled
	Routes   func(replica string) []undo.ProxyRoute // one for each server of the store that it reaches
	Replicas []string                               // all names
	Await    Await
	Past     func() []history.Event
	Clock    func() int64
	Question endpoint.Question // how a connection of its own asks the store; without any, as a Redis is asked that wants no password
	Run      string            // part of the names of toxics on proxies that are somebody's own

	mu    sync.Mutex
	shots map[string]*ground // by the shot's name; only those of this process, not yet reverted
}

// ground is what was measured before a fault, and whether it is on.
type ground struct {
	base  time.Duration             // the slowest way's
	need  time.Duration             // the fault's: at least so long
	on    bool                      // and not void
	links map[string][]sockets.Conn // of victims that claim nothing, by name
}

// plan is one kind of fault as toxics and as what they must do.
type plan struct {
	toxics   []toxi.Toxic   // without names, at most one a stream
	down     bool           // the proxy is disabled
	cut      bool           // open connections are ended, by disabling the proxy for an instant
	holds    bool           // open connections stay
	trial    trial          // how a connection of our own is to show it
	evidence victimEvidence // how the victims are to show it
}

// wire is the fault of the network of that id.
func (x *Toxics) wire(id string) (fault.Network, error) {
	if net, ok := x.Fault(id).(fault.Network); ok {
		return net, nil
	}
	return nil, fmt.Errorf("fault %q of the experiment is none of the network", id)
}

// planOf turns a fault into toxics. Toxiproxy counts whole milliseconds and kB/s.
func (x *Toxics) planOf(w fault.Wire) plan {
	switch {
	case w.Cut == fault.Hole:
		return plan{toxics: streams(w.Stream, "timeout", map[string]any{"timeout": 0}), holds: true, trial: cutTrial(silence), evidence: victimEvidence{cut: true}}
	case w.Cut == fault.Reset:
		return plan{toxics: streams(w.Stream, "reset_peer", map[string]any{"timeout": 0}), cut: true, trial: cutTrial(broken), evidence: victimEvidence{cut: true}}
	case w.Cut == fault.Down:
		return plan{down: true, trial: cutTrial(refusal), evidence: victimEvidence{cut: true}}
	case w.Rate > 0:
		p := plan{toxics: streams(w.Stream, "bandwidth", map[string]any{"rate": w.Rate}), evidence: victimEvidence{sockets: true}}
		p.trial = echoTrial(w.Rate, len(p.toxics), x.question())
		return p
	case w.Piece > 0: // halved until a piece is no greater
		p := plan{toxics: streams(w.Stream, "slicer", map[string]any{"average_size": w.Piece, "size_variation": 0, "delay": w.Apart.Microseconds()}), evidence: victimEvidence{sockets: true}}
		p.trial = piecesTrial(w.Piece, w.Apart, len(p.toxics), x.question())
		return p
	case w.Linger > 0:
		p := plan{toxics: streams(w.Stream, "slow_close", map[string]any{"delay": millis(w.Linger)}), evidence: victimEvidence{sockets: true}}
		p.trial = closeTrial(time.Duration(len(p.toxics)) * round(w.Linger))
		return p
	}
	return delaying(w.Add, w.Jitter, w.Stream)
}

func streams(s fault.Stream, kind string, attributes map[string]any) []toxi.Toxic {
	var list []toxi.Toxic
	for _, one := range []fault.Stream{fault.StreamUp, fault.StreamDown} {
		if s == one || s == fault.StreamBoth || s == "" && one == fault.StreamDown {
			list = append(list, toxi.Toxic{Type: kind, Stream: string(one), Toxicity: 1, Attributes: attributes})
		}
	}
	return list
}

// delaying is latency with jitter, one toxic a stream. Where the jitter may eat all of the latency, no single answer needs to be late:
// one of many must be.
func delaying(add, jitter time.Duration, s fault.Stream) plan {
	add, jitter = round(add), round(jitter)
	p := plan{toxics: streams(s, "latency", map[string]any{"latency": add.Milliseconds(), "jitter": jitter.Milliseconds()})}
	if least := time.Duration(len(p.toxics)) * (add - jitter); least > 0 {
		p.trial, p.evidence = pingTrial(least, time.Duration(len(p.toxics))*(add+jitter)), victimEvidence{least: least}
		return p
	}
	some := max(add, jitter) / 2
	p.trial, p.evidence = someTrial(some, time.Duration(len(p.toxics))*(add+jitter)), victimEvidence{some: some}
	return p
}

func round(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}

func millis(d time.Duration) int64 { return round(d).Milliseconds() }

// Prepare resolves the victims' ways and measures them as they are. A way that does not answer now could not show a fault either.
func (x *Toxics) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	f, err := x.wire(shot.Fault.ID)
	if err != nil {
		return undo.Record{}, err
	}
	p, names := x.planOf(f.Wire()), x.victims(f.Target(), shot.Fault)
	rec, err := x.routes(ctx, shot, p, names)
	if err != nil {
		return rec, err
	}
	g := &ground{}
	if rec.Routes[0].Theirs {
		late := x.Clock() + int64(throughWithin)
		if g.links, err = x.through(ctx, names, rec.Routes, func() bool { return x.Clock() >= late }); err != nil {
			return undo.Record{}, &voidError{history.Unconfirmed, err.Error()}
		}
	}
	seen, err := x.measure(ctx, rec.Routes, p.trial.before(), 0)
	if err != nil {
		return undo.Record{}, &voidError{history.Unconfirmed, fmt.Sprintf("the way to the store was disturbed before the fault: %v", err)}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.shots == nil {
		x.shots = map[string]*ground{}
	}
	g.base = slices.Max(seen)
	g.need, x.shots[shot.Op] = p.trial.need(g.base), g
	return rec, nil
}

// routes are the victims' ways with what the fault will put on them. A proxy of somebody's own is not disabled for an instant: its open
// connections end when they are used.
func (x *Toxics) routes(ctx context.Context, shot history.Event, p plan, names []string) (rec undo.Record, err error) {
	for _, name := range names {
		all := x.Routes(name)
		if len(all) == 0 {
			return rec, fmt.Errorf("%s has no way to the store that could be struck", name)
		}
		for _, w := range all {
			if w, err = x.resolve(ctx, name, w); err != nil {
				return rec, err
			}
			if slices.ContainsFunc(rec.Routes, func(o undo.ProxyRoute) bool { return o.Proxy == w.Proxy }) { // they share it
				continue
			}
			for _, t := range p.toxics {
				w.Toxics = append(w.Toxics, x.toxicName(&w, shot, t.Stream))
			}
			w.Down = p.down || p.cut && !w.Theirs
			rec.Routes = append(rec.Routes, w)
		}
	}
	if len(rec.Routes) == 0 {
		return rec, &voidError{history.NoTarget, "no replica's way to the store is struck"}
	}
	return rec, nil
}

// victims are the names of the replicas whose ways are struck. With aim all these are all, those included that are dead just now.
func (x *Toxics) victims(a fault.Aim, b *history.Fault) []string {
	list := victimsOf(history.Event{Fault: b})
	if (a.All || a == (fault.Aim{})) && len(x.Replicas) > 0 {
		list = x.Replicas
	}
	var names []string
	for _, v := range list {
		if name := history.ReplicaOf(v); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// resolve is one way of a replica as the Toxiproxy knows it now.
func (x *Toxics) resolve(ctx context.Context, name string, w undo.ProxyRoute) (undo.ProxyRoute, error) {
	find := toxi.New(w.API).Current
	if w.Theirs {
		find = toxi.New(w.API).Proxy
	}
	now, err := find(ctx, w.Proxy)
	if err == nil && w.Theirs {
		err = x.vacant(now)
	}
	if err != nil {
		return w, fmt.Errorf("look for the way of %s: %w", name, err)
	}
	if !now.Enabled {
		return w, fmt.Errorf("the way of %s, proxy %s, is disabled, and not by this fault", name, now.Name)
	}
	w.Proxy, w.Listen, w.Upstream, w.Toxics = now.Name, now.Listen, now.Upstream, nil
	return w, nil
}

// toxicName carries the run and the replica (by the proxy's name, which is ours or stands in the record), the fault, the shot and the stream.
func (x *Toxics) toxicName(w *undo.ProxyRoute, shot history.Event, stream string) string {
	begins := w.Proxy
	if w.Theirs {
		begins = toxicPrefix + x.Run
	}
	return fmt.Sprintf("%s-%s.%d-%s", begins, shot.Fault.ID, shot.Fault.Shot, stream)
}

// Inject is done when the server has answered: then all connections, open and new, are under the fault. Open connections that are to
// be reset are ended with FIN (the server cannot reset those), new ones with RST.
func (x *Toxics) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(x.Clock())
	f, err := x.wire(r.Shot.Fault.ID)
	if err != nil {
		return span, err
	}
	p := x.planOf(f.Wire())
	err = each(r.Routes, func(w undo.ProxyRoute) error {
		c := toxi.New(w.API)
		if w.Down {
			if err := c.Enable(ctx, w.Proxy, false); err != nil {
				return err
			}
		}
		for i, t := range p.toxics {
			t.Name = w.Toxics[i]
			if err := c.Add(ctx, w.Proxy, t); err != nil {
				return err
			}
		}
		if w.Down && p.cut {
			return c.Enable(ctx, w.Proxy, true)
		}
		return nil
	})
	span.To = x.Clock()
	if err == nil {
		x.edit(r.Shot.Op, func(g *ground) { g.on = true })
	}
	return span, err
}

// Confirm measures every way from outside and waits until the victims have felt the fault, and meanwhile looks whether it is still on.
func (x *Toxics) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	window, saw, err := x.confirm(ctx, r, applied)
	if err != nil { // for how long a void fault was on is of no interest
		x.edit(r.Shot.Op, func(g *ground) { g.on = false })
	}
	return window, saw, err
}

func (x *Toxics) confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	var base, need time.Duration
	x.edit(r.Shot.Op, func(g *ground) { base, need = g.base, g.need })
	f, err := x.wire(r.Shot.Fault.ID)
	if err != nil {
		return applied, history.Fault{}, err
	}
	p := x.planOf(f.Wire())
	saw := history.Fault{Baseline: int64(base), Expected: int64(need)}
	window := func() history.Span { return history.Span{From: applied.From, To: x.Clock()} }

	observed, err := x.measure(ctx, r.Routes, p.trial, need)
	if len(observed) > 0 && !p.trial.cut {
		saw.Observed = int64(slices.Min(observed))
	}
	switch {
	case err != nil:
		return window(), saw, &voidError{history.Unconfirmed, fmt.Sprintf("a connection of our own did not show the fault: %v", err)}
	case saw.Observed < saw.Expected:
		return window(), saw, &voidError{history.Unconfirmed, fmt.Sprintf("a connection of our own was not slowed down: %s, expected at least %s",
			time.Duration(saw.Observed), need)}
	}
	names := x.victims(f.Target(), r.Shot.Fault)
	if r.Routes[0].Theirs {
		saw.Detail, err = x.seeLinks(ctx, r, names, applied, p)
	} else {
		p.evidence.base = base
		saw.Detail, err = x.seeVictims(ctx, r, names, applied, p.evidence)
	}
	if gone := x.stillOn(ctx, r); gone != nil {
		return window(), saw, gone
	}
	return window(), saw, err
}

// stillOn is the error of a fault that has ended before its time.
func (x *Toxics) stillOn(ctx context.Context, r undo.Record) error {
	lost := x.lost(ctx, r)
	if lost == "" {
		return nil
	}
	return &voidError{history.Unconfirmed, "the fault ended before its time: " + lost}
}

// lost says which part of a fault is not there any more, or "".
func (x *Toxics) lost(ctx context.Context, r undo.Record) string {
	err := each(r.Routes, func(w undo.ProxyRoute) error {
		p, err := toxi.New(w.API).Proxy(ctx, w.Proxy)
		switch {
		case errors.Is(err, toxi.ErrNotFound):
			return fmt.Errorf("proxy %s is gone: was the Toxiproxy restarted?", w.Proxy)
		case err != nil: // no answer says nothing
			return nil
		case len(w.Toxics) == 0 && p.Enabled:
			return fmt.Errorf("proxy %s was enabled by somebody else", w.Proxy)
		case len(ours(p, w)) < len(w.Toxics):
			return fmt.Errorf("proxy %s has lost our toxics: were they removed by somebody else?", w.Proxy)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

// Revert ends the fault on every way and reads back that it has ended; in the process that made it, also by a round trip. A fault
// that had ended before is an error once: nobody knows for how long it was on.
func (x *Toxics) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(x.Clock())
	x.mu.Lock()
	g := x.shots[r.Shot.Op]
	delete(x.shots, r.Shot.Op)
	x.mu.Unlock()
	lost := ""
	if g != nil && g.on {
		lost = x.lost(ctx, r)
	}
	err := RevertRoutes(ctx, r)
	span.To = x.Clock()
	if err == nil && g != nil {
		err = x.awaitFree(ctx, r.Routes, *g)
	}
	if err == nil && lost != "" {
		err = fmt.Errorf("fault %s had ended before it was ended: %s: nothing of it is left, but for how long it was on is not known", r.Shot.Op, lost)
	}
	return span, err
}

func (x *Toxics) edit(op string, f func(*ground)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if g := x.shots[op]; g != nil {
		f(g)
	}
}

// each does one thing to all ways at once, and joins the errors.
func each(routes []undo.ProxyRoute, do func(undo.ProxyRoute) error) error {
	errs := make([]error, len(routes))
	var wg sync.WaitGroup
	for i, w := range routes {
		wg.Go(func() { errs[i] = do(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
