package injectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/sockets"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// Faults of the network, on the victims' ways to the locks' store, each a proxy of a Toxiproxy.
//
// A way belongs to a replica's name: the fault outlasts the replica's life, and with aim all it is on every way. It is seen twice:
// by a connection of its own through each way, and by the victims' own claims or, where the magnitude is too small for those to show it,
// by their sockets. A client that goes round its way is void.
var wires = Row{Needs: func(h *Hit) bool { return h.Routes != nil }, Find: routes, Do: poison, See: felt, End: freeRoutes}

// ground is what was measured before a fault, and whether it is on. Only the process that made it has it, until it is reverted.
type ground struct {
	plan
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

// planOf turns a fault into toxics, and into what shows it: a trait of it each.
func (h *Hit) planOf(f fault.Fault) plan {
	w, _ := f.Wire()
	p := plan{toxics: toxicsOf(f, w.Stream), evidence: victimEvidence{cut: w.Cut != "", sockets: w.Cut == ""}}
	switch n := len(p.toxics); {
	case w.Cut == fault.Hole:
		p.holds, p.trial = true, cutTrial(silence)
	case w.Cut == fault.Reset:
		p.cut, p.trial = true, cutTrial(broken(0))
	case w.Cut == fault.Down:
		p.down, p.trial = true, cutTrial(refusal)
	case w.Ends > 0:
		p.trial = cutTrial(broken(w.Ends))
		p.trial.calm = carried(w.Ends)
	case w.Rate > 0:
		p.trial = echoTrial(w.Rate, n, h.question())
	case w.Piece > 0: // halved until a piece is no greater
		p.trial = piecesTrial(w.Piece, w.Apart, n, h.question())
	case w.Linger > 0:
		p.trial = closeTrial(time.Duration(n) * fault.Whole(w.Linger))
	default:
		p.trial, p.evidence = delayed(fault.Whole(w.Add), fault.Whole(w.Jitter), time.Duration(n))
	}
	return p
}

// toxicsOf are one a direction.
func toxicsOf(f fault.Fault, s fault.Stream) (list []toxi.Toxic) {
	called, attributes := f.Toxic()
	for _, one := range []fault.Stream{fault.StreamUp, fault.StreamDown} {
		if called != "" && s.On(one) {
			list = append(list, toxi.Toxic{Type: called, Stream: string(one), Toxicity: 1, Attributes: attributes})
		}
	}
	return list
}

// delayed is what latency with jitter shows, in n directions. Where the jitter may eat all of the latency, no single answer needs to be
// late: one of many must be.
func delayed(add, jitter, n time.Duration) (trial, victimEvidence) {
	if least := n * (add - jitter); least > 0 {
		return pingTrial(least, n*(add+jitter)), victimEvidence{least: least}
	}
	some := max(add, jitter) / 2
	return someTrial(some, n*(add+jitter)), victimEvidence{some: some}
}

// routes resolves the victims' ways and measures them as they are. A way that does not answer now could not show a fault either.
func routes(ctx context.Context, h *Hit) (err error) {
	g := &ground{plan: h.planOf(fault.Of(h.Spec))}
	if err := h.routes(ctx, g.plan); err != nil {
		return err
	}
	if h.theirs() {
		late := h.now() + int64(throughWithin)
		if g.links, err = h.through(ctx, func() bool { return h.now() >= late }); err != nil {
			return void(history.Unconfirmed, "%v", err)
		}
	}
	seen, err := h.measure(ctx, g.trial.before(), 0)
	if err != nil {
		return void(history.Unconfirmed, "the way to the store was disturbed before the fault: %v", err)
	}
	g.base = slices.Max(seen)
	g.need, h.ground = g.trial.need(g.base), g
	return nil
}

// theirs: the ways go through proxies of somebody's own.
func (h *Hit) theirs() bool { return h.Rec.Routes[0].Theirs }

// routes are the victims' ways with what the fault will put on them. A proxy of somebody's own is not disabled for an instant: its open
// connections end when they are used.
func (h *Hit) routes(ctx context.Context, p plan) error {
	for _, name := range h.names() {
		all := h.Routes(name)
		if len(all) == 0 {
			return fmt.Errorf("%s has no way to the store that could be struck", name)
		}
		for _, w := range all {
			w, err := h.resolve(ctx, name, w)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(h.Rec.Routes, func(o undo.ProxyRoute) bool { return o.Proxy == w.Proxy }) { // they share it
				continue
			}
			for _, t := range p.toxics {
				w.Toxics = append(w.Toxics, h.toxicName(&w, t.Stream))
			}
			w.Down = p.down || p.cut && !w.Theirs
			h.Rec.Routes = append(h.Rec.Routes, w)
		}
	}
	if len(h.Rec.Routes) == 0 {
		return void(history.NoTarget, "no replica's way to the store is struck")
	}
	return nil
}

// names are those of the replicas whose ways are struck. With aim all these are all, those included that are dead just now.
func (h *Hit) names() (names []string) {
	list, a := victimsOf(h.Rec.Shot), h.Spec.Target()
	if (a.All || a == (fault.Aim{})) && len(h.Replicas) > 0 {
		list = h.Replicas
	}
	for _, v := range list {
		if name := history.ReplicaOf(v); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// resolve is one way of a replica as the Toxiproxy knows it now.
func (h *Hit) resolve(ctx context.Context, name string, w undo.ProxyRoute) (undo.ProxyRoute, error) {
	find := toxi.New(w.API).Current
	if w.Theirs {
		find = toxi.New(w.API).Proxy
	}
	now, err := find(ctx, w.Proxy)
	if err == nil && w.Theirs {
		err = h.vacant(now)
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
func (h *Hit) toxicName(w *undo.ProxyRoute, stream string) string {
	begins := w.Proxy
	if w.Theirs {
		begins = toxicPrefix + h.Run
	}
	return fmt.Sprintf("%s-%s.%d-%s", begins, h.fault().ID, h.fault().Shot, stream)
}

// poison is done when the server has answered: then all connections, open and new, are under the fault. Open connections that are to
// be reset are ended with FIN (the server cannot reset those), new ones with RST.
func poison(ctx context.Context, h *Hit) error {
	err := each(h.Rec.Routes, func(_ int, w undo.ProxyRoute) error {
		c := toxi.New(w.API)
		if w.Down {
			if err := c.Enable(ctx, w.Proxy, false); err != nil {
				return err
			}
		}
		for i, t := range h.ground.toxics {
			t.Name = w.Toxics[i]
			if err := c.Add(ctx, w.Proxy, t); err != nil {
				return err
			}
		}
		if w.Down && h.ground.cut {
			return c.Enable(ctx, w.Proxy, true)
		}
		return nil
	})
	h.ground.on = err == nil
	return err
}

// felt measures every way from outside and waits until the victims have felt the fault, and meanwhile looks whether it is still on.
func felt(ctx context.Context, h *Hit) error {
	err := h.felt(ctx)
	h.Window = history.Span{From: h.Applied.From, To: h.now()}
	h.ground.on = err == nil // for how long a void fault was on is of no interest
	return err
}

func (h *Hit) felt(ctx context.Context) error {
	g := h.ground
	h.Saw.Baseline, h.Saw.Expected = int64(g.base), int64(g.need)
	observed, err := h.measure(ctx, g.trial, g.need)
	if len(observed) > 0 && !g.trial.cut {
		h.Saw.Observed = int64(slices.Min(observed))
	}
	switch {
	case err != nil:
		return void(history.Unconfirmed, "a connection of our own did not show the fault: %v", err)
	case h.Saw.Observed < h.Saw.Expected:
		return void(history.Unconfirmed, "a connection of our own was not slowed down: %s, expected at least %s", time.Duration(h.Saw.Observed), g.need)
	case h.theirs():
		h.Saw.Detail, err = h.seeLinks(ctx)
	default:
		g.evidence.base = g.base
		h.Saw.Detail, err = h.seeVictims(ctx, g.evidence)
	}
	return cmp.Or(h.stillOn(ctx), err)
}

// stillOn is the error of a fault that has ended before its time.
func (h *Hit) stillOn(ctx context.Context) error {
	lost := h.lost(ctx)
	if lost == nil {
		return nil
	}
	return void(history.Unconfirmed, "the fault ended before its time: %v", lost)
}

// lost says which part of a fault is not there any more.
func (h *Hit) lost(ctx context.Context) error {
	return each(h.Rec.Routes, func(_ int, w undo.ProxyRoute) error {
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
}

// freeRoutes ends the fault on every way by its record, each within a few seconds whatever the server does, and reads back that it has
// ended; in the process that made it, also by a round trip. It removes only toxics that the record names. A fault that had ended before
// is an error once: nobody knows for how long it was on.
func freeRoutes(ctx context.Context, h *Hit) error {
	g, lost, began := h.ground, error(nil), h.now()
	h.ground = nil
	if g != nil && g.on {
		lost = h.lost(ctx)
	}
	err := each(h.Rec.Routes, func(_ int, w undo.ProxyRoute) error {
		err := error(nil)
		if h.Again && w.Theirs && w.Down {
			err, w.Down = stillDown(ctx, w), false
		}
		if err = errors.Join(err, revertWay(ctx, w)); err != nil {
			by := undo.ByHand(undo.Record{Kind: h.Rec.Kind, Routes: []undo.ProxyRoute{w}})
			return fmt.Errorf("free the way %s: %w; by hand: %s", w.Proxy, err, strings.Join(by, "; "))
		}
		return nil
	})
	h.Ended = history.Span{From: began, To: h.now()}
	if err == nil && g != nil {
		err = h.awaitFree(ctx, *g)
	}
	if err == nil && lost != nil {
		err = fmt.Errorf("fault %s had ended before it was ended: %w: nothing of it is left, but for how long it was on is not known", h.Rec.Shot.Op, lost)
	}
	return err
}

// each does one thing to all ways at once, and joins the errors.
func each(routes []undo.ProxyRoute, do func(int, undo.ProxyRoute) error) error {
	errs := make([]error, len(routes))
	var wg sync.WaitGroup
	for i, w := range routes {
		wg.Go(func() { errs[i] = do(i, w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
