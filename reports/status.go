package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Status is the state of a run at a glance, for a block that is drawn again and again. Who holds a lock is what its key says
// at the store, named by the replicas' claims.
type Status struct {
	Expected time.Duration // of the drill, from its steady state on; 0 = not known

	steady     int64 // ns: when that began; 0 = not yet
	experiment *experiments.Experiment
	phase      string
	phaseSince int64
	epochs     map[string]string // epoch of a loop's lock -> incarnation that asked with it
	dead       map[string]bool   // incarnations
	keys       map[string]map[string]keyState
	looked     map[string]int64      // by probe: ns, until when its looks are known to have shown what there was
	shots      map[string]*shotCount // by fault id
	active     []history.Event       // fault.applied, until reverted, void or verified
	done       map[string]bool       // jobs
}

// keyState is the last sample of a key that is present.
type keyState struct {
	epoch string
	named string // incarnation that the look names: of an observed system
	since int64  // ns: first seen with this epoch
	lease int64  // ns: when it runs out unless renewed; 0 = never
}

// NewStatus returns the status of a run of e before its first event.
func NewStatus(e *experiments.Experiment) *Status {
	s := &Status{
		experiment: e,
		phase:      "start",
		epochs:     map[string]string{},
		dead:       map[string]bool{},
		keys:       map[string]map[string]keyState{},
		looked:     map[string]int64{},
		shots:      map[string]*shotCount{},
		done:       map[string]bool{},
	}
	for i := range e.System.Locks {
		s.keys[e.System.Locks[i].Name] = map[string]keyState{}
	}
	for i := range e.Faults {
		s.shots[e.Faults[i].ID] = &shotCount{}
	}
	return s
}

// Observe takes the next event. It never blocks.
func (s *Status) Observe(e history.Event) {
	switch {
	case e.Phase != nil:
		s.phase, s.phaseSince = e.Phase.Name, e.From
		if e.Phase.Name == history.PhaseSteady {
			s.steady = e.From
		}
	case e.Kind == history.ReplicaExit:
		s.dead[e.Replica.Incarnation] = true
	case e.Kind == history.AcquireInvoke && s.isLoop(e.Lock):
		s.epochs[e.Epoch] = e.Source
	case e.Kind == history.AcquireReturn && e.Outcome == history.Fail:
		delete(s.epochs, e.Epoch)
	case e.Kind == history.CoverageKind:
		s.looked[e.Coverage.Probe] = e.To
	case e.Look != nil && s.keys[e.Lock] != nil:
		s.sample(&e)
	case e.Entry != nil && e.Entry.Terminal && e.Entry.Accepted:
		s.done[e.Entry.Subject] = true
	case e.Fault != nil && s.shots[e.Fault.ID] != nil:
		s.fault(e)
	}
}

func (s *Status) isLoop(lock string) bool {
	return slices.ContainsFunc(s.experiment.System.Locks, func(l experiments.Lock) bool { return l.Name == lock && l.Loop() })
}

func (s *Status) sample(e *history.Event) {
	keys := s.keys[e.Lock]
	if l := s.experiment.Lock(e.Lock); l != nil {
		s.looked[probeOf(l)] = e.To
	}
	if !e.Look.Present {
		delete(keys, e.Key)
		return
	}
	state := keyState{epoch: e.Epoch, named: e.Look.Holder, since: e.From}
	if old, ok := keys[e.Key]; ok && old.epoch == e.Epoch {
		state.since = old.since
	}
	if e.Look.PTTL >= 0 {
		state.lease = e.To + e.Look.PTTL
	}
	keys[e.Key] = state
}

func (s *Status) fault(e history.Event) {
	ofShot := func(a history.Event) bool { return a.Op == e.Op }
	switch e.Kind {
	case history.FaultApplied:
		s.active = append(s.active, e)
	case history.FaultConfirmed:
		s.shots[e.Fault.ID].confirmed++
		s.shots[e.Fault.ID].fired++
		if seen(e.Fault).Traits().Kills { // it is over: what follows is its takeover
			s.active = slices.DeleteFunc(s.active, ofShot)
		}
	case history.FaultVoid:
		s.shots[e.Fault.ID].void++
		s.shots[e.Fault.ID].fired++
		s.active = slices.DeleteFunc(s.active, ofShot)
	case history.FaultReverted, history.FaultVerified:
		s.active = slices.DeleteFunc(s.active, ofShot)
	}
}

// A block that is drawn again in place must fit on the screen: with its first line it has at most 12.
const (
	mostLocks  = 4
	mostFaults = 4
	mostActive = 3
)

// atMost keeps n of the lines; the last of them then says how many more there are.
func atMost(n int, lines []string, what string) []string {
	if len(lines) <= n {
		return lines
	}
	return append(lines[:n-1:n-1], "  and "+figures.Plural(len(lines)-n+1, "more "+what))
}

// Render draws the block as it stands at now since the run's origin: at most 12 lines of at most width columns, without newlines.
func (s *Status) Render(width int, now time.Duration) []string {
	var locks, active []string
	for i := range s.experiment.System.Locks {
		locks = append(locks, s.lock(&s.experiment.System.Locks[i], now))
	}
	for _, a := range s.active {
		active = append(active, fmt.Sprintf("  active  %s on %s for %s", a.Op, targets(seen(a.Fault).Traits(), a.Fault.Victim, a.Fault.Victims), brief(now-time.Duration(a.From))))
	}
	lines := []string{s.Heartbeat(now)}
	lines = append(lines, atMost(mostLocks, locks, "lock")...)
	lines = append(lines, atMost(mostFaults, s.faults(), "fault")...)
	lines = append(lines, atMost(mostActive, active, "active fault")...)
	for i, l := range lines {
		lines[i] = doc.Clip(doc.Painted(l, false), width)
	}
	return lines
}

// Heartbeat is the state in one line.
func (s *Status) Heartbeat(now time.Duration) string {
	parts := []string{
		s.experiment.Name,
		fmt.Sprintf("%s for %s", s.phase, brief(now-time.Duration(s.phaseSince))),
		brief(now) + " gone",
	}
	limit := s.experiment.Limits.MaxRun
	switch left := s.Expected - (now - time.Duration(s.steady)); {
	case s.Expected > 0 && s.steady > 0 && left >= 0:
		parts = append(parts, "about "+brief(left)+" left")
	case s.Expected > 0 && s.steady > 0 && limit > 0:
		parts = append(parts, "longer than expected, at most "+brief(max(0, limit-now))+" left")
	case limit > 0:
		parts = append(parts, "at most "+brief(max(0, limit-now))+" left")
	}
	if jobs := s.jobs(); jobs > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s done", figures.Count(len(s.done)), figures.Plural(jobs, "job")))
	}
	return doc.Painted(strings.Join(parts, ", "), false)
}

func (s *Status) jobs() int {
	n := 0
	for _, w := range s.experiment.System.Work {
		n += w.Jobs
	}
	return n
}

// lock is the holder of a loop's key, or the number of keys held of a job lock.
func (s *Status) lock(l *experiments.Lock, now time.Duration) string {
	keys := s.keys[l.Name]
	if !l.Loop() {
		return fmt.Sprintf("  held    %s: %s", l.Name, figures.Plural(len(keys), "key"))
	}
	state, ok := keys[cmp.Or(l.Lease, l.Key)]
	switch looked, ever := s.looked[probeOf(l)]; {
	case !ever:
		return fmt.Sprintf("  holder  %s: not known, it was not looked at yet", l.Name)
	case now-time.Duration(looked) > unlooked && !ok:
		return fmt.Sprintf("  holder  %s: not known, it was last looked at %s ago", l.Name, brief(now-time.Duration(looked)))
	case !ok:
		return fmt.Sprintf("  holder  %s: nobody", l.Name)
	}
	stranger := "a stranger"
	if s.experiment.Observed() {
		stranger = "not known who"
	}
	holder := cmp.Or(s.epochs[state.epoch], state.named, stranger)
	if s.dead[holder] {
		holder += " (dead)"
	}
	text := fmt.Sprintf("  holder  %s: %s for %s", l.Name, holder, brief(now-time.Duration(state.since)))
	if state.lease > 0 {
		text += ", lease ends in " + brief(max(0, time.Duration(state.lease)-now))
	}
	return text
}

// unlooked is how long after a look what it showed is told. What was covered is written each second.
const unlooked = 3 * time.Second

// probeOf is the probe that looks at the keys of the lock.
func probeOf(l *experiments.Lock) string {
	if l.Lease != "" {
		return experiments.ProbeLeases
	}
	return experiments.ProbeKeys
}

// faults counts the shots of each fault against what the file declares.
func (s *Status) faults() []string {
	var lines []string
	for i := range s.experiment.Faults {
		f := &s.experiment.Faults[i]
		n := *s.shots[f.ID]
		if !f.Repeat.Answered {
			n.declared = f.Repeat.Count
		}
		text := "  fault   " + f.ID + ": " + n.String()
		if f.Repeat.Answered {
			text += fmt.Sprintf(", at most %d until the percentiles are answered", f.Repeat.Count)
		}
		lines = append(lines, text)
	}
	return lines
}

// brief writes a stretch of time for a glance.
func brief(d time.Duration) string {
	if d >= time.Minute {
		return d.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%.1fs", max(0, d).Seconds())
}
