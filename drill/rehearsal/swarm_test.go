package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// A world that has a little of everything hides what only shows where something is missing: a lock that is never renewed meets no burst
// of renewals for long, where each world has three faults of twenty kinds. So each world leaves out half of all features, drawn by its
// seed. The kept seeds of TestSeedsThatFailed are of worlds with everything.

// swarm is what one world leaves out; nil = nothing.
type swarm struct{ off map[string]bool }

// drawSwarm leaves out each feature in half of all seeds.
func drawSwarm(seed uint64) *swarm {
	r := rand.New(rand.NewPCG(seed, 11))
	s := &swarm{off: map[string]bool{}}
	for _, f := range features() {
		s.off[f.name] = r.IntN(2) == 0
	}
	return s
}

func (s *swarm) has(feature string) bool { return s == nil || !s.off[feature] }

// one is drawn, or, where that is left out, the first of all that is not; drawn as well where all are.
func one[T ~string](s *swarm, of string, drawn T, all ...T) T {
	for _, x := range append([]T{drawn}, all...) {
		if s.has(of + string(x)) {
			return x
		}
	}
	return drawn
}

// world is what a seed draws.
type world struct {
	seed uint64
	e    *experiments.Experiment
	net  sim.Net
	s    *swarm
	o    *outsider    // nil = its replicas say what they do
	dark history.Span // when nobody looked at the keys; From is To where somebody did all the time
}

// drawWorld is the world of a seed, as its replicas tell of it: one that leaves out half, or, where whole, nothing.
func drawWorld(seed uint64, whole bool) world {
	w := world{seed: seed}
	if !whole {
		w.s = drawSwarm(seed)
	}
	w.e, w.net = drawDrill(seed, w.s)
	if !whole && w.s.has(blindStretches) {
		w.dark = drawDark(seed)
	}
	return w
}

// feature is something that a world may have.
type feature struct {
	name string
	in   func(*world) bool
}

// Names of features that are left out while a world is drawn; those of faults and policies are the words that files have for them.
const (
	hasLoop        = "a loop"
	hasJobs        = "jobs"
	renewJitter    = "renewals with jitter"
	neverRenewed   = "never renewed"
	stopBudget     = "a stop budget"
	manyFailures   = "several failures"
	afterAbandon   = "released after abandonment"
	waiting        = "waits for the key"
	fencedLedger   = "a fenced ledger"
	strictLedger   = "a strict ledger"
	looking        = "looks before it works"
	alone          = "one replica"
	severalShots   = "several shots"
	severalFaults  = "several faults"
	loss           = "a network that loses"
	slowNet        = "a slow network"
	lateTimers     = "late timers"
	byWorker       = "a burst in the worker"
	someCalls      = "a burst of some calls"
	blindStretches = "blind stretches"
)

func faultKinds() []string {
	return []string{"kill", "pause", "renew_failures", "acquire_failures", "release_failures", "latency", "jitter", "bandwidth", "black_hole", "reset", "down",
		"store pause", "store freeze", "store stop", "store restart", "store flush", "store failover", "delete_key vanish", "delete_key stranger", "clock"}
}

// kindOf is a fault's kind, with its form where forms do other things.
func kindOf(f *experiments.Fault) string {
	kind := f.Kind()
	if kind == "store" || kind == "delete_key" {
		kind += " " + f.Form()
	}
	return kind
}

// features are all, in a fixed order: by that the seeds draw.
func features() []feature {
	var all []feature
	add := func(name string, in func(*world) bool) { all = append(all, feature{name, in}) }
	policy := func(name string, in func(*lockcore.Policy) bool) {
		add(name, func(w *world) bool {
			return slices.ContainsFunc(w.e.System.Locks, func(l experiments.Lock) bool { return in(&l.Policy) })
		})
	}
	work := func(name string, in func(*experiments.Work) bool) {
		add(name, func(w *world) bool { return len(w.e.System.Work) > 0 && in(&w.e.System.Work[0]) })
	}
	burst := func(name string, in func(*fault.Failures) bool) {
		add(name, func(w *world) bool {
			return slices.ContainsFunc(w.e.Faults, func(f experiments.Fault) bool {
				b, is := f.Spec.(*fault.Failures)
				return is && in(b)
			})
		})
	}
	for _, kind := range faultKinds() {
		add(kind, func(w *world) bool {
			return slices.ContainsFunc(w.e.Faults, func(f experiments.Fault) bool { return kindOf(&f) == kind })
		})
	}
	for _, class := range classes() {
		policy("class "+string(class), func(p *lockcore.Policy) bool { return p.Class == class })
	}
	for _, mode := range releases() {
		policy("release "+string(mode), func(p *lockcore.Policy) bool { return p.Release.Mode == mode })
	}
	for _, mode := range loops() {
		policy("loop "+string(mode), func(p *lockcore.Policy) bool { return p.Loop != nil && p.Loop.Mode == mode })
	}
	policy(hasLoop, func(p *lockcore.Policy) bool { return p.Loop != nil })
	add(hasJobs, func(w *world) bool { return len(w.e.System.Work) > 0 })
	policy(renewJitter, func(p *lockcore.Policy) bool { return p.RenewJitter > 0 })
	policy(neverRenewed, func(p *lockcore.Policy) bool { return p.RenewEvery == 0 })
	policy(stopBudget, func(p *lockcore.Policy) bool { return p.StopBudget > 0 })
	policy(manyFailures, func(p *lockcore.Policy) bool { return p.MaxFailures > 1 })
	policy(afterAbandon, func(p *lockcore.Policy) bool { return p.Release.AfterAbandon == lockcore.AfterAbandonStopped })
	policy(waiting, func(p *lockcore.Policy) bool { return p.Acquire.Mode == lockcore.AcquireWait })
	work(fencedLedger, func(x *experiments.Work) bool { return x.Fenced })
	work(strictLedger, func(x *experiments.Work) bool { return x.Strict })
	work(looking, func(x *experiments.Work) bool { return x.Look })
	add(alone, func(w *world) bool { return w.e.System.Replicas == 1 })
	add(severalShots, func(w *world) bool {
		return slices.ContainsFunc(w.e.Faults, func(f experiments.Fault) bool { return f.Repeat.Count > 1 })
	})
	add(severalFaults, func(w *world) bool { return len(w.e.Faults) > 1 })
	add(loss, func(w *world) bool { return w.net.Loss > 0 })
	add(slowNet, func(w *world) bool { return w.net.Most > slow })
	add(lateTimers, func(w *world) bool { return w.net.Late > 0 })
	burst(byWorker, func(b *fault.Failures) bool { return b.Via == fault.ViaWorker })
	burst(someCalls, func(b *fault.Failures) bool { return b.Count > 0 || b.Share > 0 })
	add(blindStretches, func(w *world) bool { return w.dark.From < w.dark.To })
	return append(all, outsiders()...)
}

// slow is a round trip that is felt.
const slow = 4 * time.Millisecond

func classes() []lockcore.Class {
	return []lockcore.Class{lockcore.Standard, lockcore.Critical, lockcore.Continuity, lockcore.LegacyCount, lockcore.LegacyWarn}
}

func releases() []lockcore.ReleaseMode {
	return []lockcore.ReleaseMode{lockcore.ReleaseSingle, lockcore.ReleaseNone, lockcore.ReleaseBoundedRetry}
}

func loops() []lockcore.LoopMode {
	return []lockcore.LoopMode{lockcore.LoopRenewed, lockcore.LoopTTLHold, lockcore.LoopExplicit}
}

// plainly takes out of a policy what is left out.
func (s *swarm) plainly(p *lockcore.Policy) {
	if s == nil {
		return
	}
	p.Class, p.Release.Mode = one(s, "class ", p.Class, classes()...), one(s, "release ", p.Release.Mode, releases()...)
	if !s.has(renewJitter) {
		p.RenewJitter = 0
	}
	if !s.has(neverRenewed) && p.RenewEvery == 0 {
		p.RenewEvery = p.TTL / 3
	}
	if !s.has(stopBudget) {
		p.StopBudget = 0
	}
	if !s.has(manyFailures) {
		p.MaxFailures = 1
	}
	if !s.has(afterAbandon) {
		p.Release.AfterAbandon = lockcore.AfterAbandonSkip
	}
	if !s.has(waiting) {
		p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: p.OpTimeout}
	}
}

// plain takes out of an experiment and its network what is left out.
func (s *swarm) plain(e *experiments.Experiment, net *sim.Net) {
	if s == nil {
		return
	}
	for i := range e.System.Work {
		x := &e.System.Work[i]
		x.Fenced, x.Strict, x.Look = x.Fenced && s.has(fencedLedger), x.Strict && s.has(strictLedger), x.Look && s.has(looking)
	}
	if !s.has(alone) {
		e.System.Replicas = max(2, e.System.Replicas)
	}
	if !s.has(severalFaults) {
		e.Faults = e.Faults[:1]
	}
	for i := range e.Faults {
		f := &e.Faults[i]
		if !s.has(severalShots) {
			f.Repeat.Count = 1
		}
		if b, burst := f.Spec.(*fault.Failures); burst && !s.has(byWorker) {
			b.Via = fault.ViaProxy
		}
		if b, burst := f.Spec.(*fault.Failures); burst && !s.has(someCalls) {
			b.Count, b.Share = 0, 0
		}
	}
	if !s.has(loss) {
		net.Loss = 0
	}
	if !s.has(slowNet) {
		net.Most = min(net.Most, slow)
	}
	if !s.has(lateTimers) {
		net.Late = 0
	}
}

// fault draws a fault that is not left out; any where all are.
func (s *swarm) fault(r *rand.Rand, e *experiments.Experiment) experiments.Fault {
	if s == nil {
		return randomFault(r, e)
	}
	var kinds []string
	for _, kind := range faultKinds() {
		if s.has(kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return randomFault(r, e)
	}
	kind := pick(r, kinds...)
	for {
		if f := randomFault(r, e); kindOf(&f) == kind {
			return f
		}
	}
}

// met counts in how many worlds two features were together.
type met struct {
	worlds int
	pairs  map[[2]string]int
}

// see takes in the features of a world.
func (m *met) see(w *world) {
	m.worlds++
	if m.pairs == nil {
		m.pairs = map[[2]string]int{}
	}
	var here []string
	all := features()
	if w.o == nil {
		all = all[:len(all)-len(outsiders())]
	}
	for _, f := range all {
		if f.in(w) {
			here = append(here, f.name)
		}
	}
	for i, a := range here {
		m.pairs[[2]string{a, a}]++
		for _, b := range here[i+1:] {
			m.pairs[[2]string{a, b}]++
		}
	}
}

// never lists the pairs of features that never met though they can; outside = somebody looks who is told nothing.
func (m *met) never(outside bool) (pairs []string) {
	all := features()
	if !outside {
		all = all[:len(all)-len(outsiders())]
	}
	for i, a := range all {
		for _, b := range all[i:] {
			if m.pairs[[2]string{a.name, b.name}] == 0 && !apart(a.name, b.name, outside) {
				pairs = append(pairs, a.name+" + "+b.name)
			}
		}
	}
	return pairs
}

// text says which pairs never met.
func (m *met) text(outside bool) string {
	never := m.never(outside)
	return fmt.Sprintf("\npairs of features: %d met in %d worlds, %d never did: %s", len(m.pairs), m.worlds, len(never), strings.Join(never, ", "))
}

// lacks says so where more pairs never met than may have happened by chance: of two thousand worlds each pair is in some.
func (m *met) lacks(outside bool) []string {
	if never := m.never(outside); m.worlds >= 1500 && len(never) > len(m.pairs)/200 {
		return []string{fmt.Sprintf("%d pairs of features never met in %d worlds, such as %s", len(never), m.worlds, never[0])}
	}
	return nil
}

// apart reports two features that no world can have both.
func apart(a, b string, outside bool) bool {
	switch {
	case outside && (a == byWorker || b == byWorker): // nobody asks somebody else's workers to fail
		return true
	case a != b && strings.HasPrefix(a, "loop ") && strings.HasPrefix(b, "loop "): // there is one loop
		return true
	case a == valuesNames && b == effectsToken: // a name is no token
		return true
	}
	return false
}
