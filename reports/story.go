package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Story tells a run as it happens, a line for each event that a person would want to know of. It retells what was claimed
// and seen; it judges nothing.
type Story struct {
	Level StoryLevel // of the lines that Line gives

	loops   map[string]bool                   // locks of which every grant is news
	errors  map[string]experiments.LockErrors // by lock: what callers of the real one read
	pids    map[string]int                    // by incarnation
	pods    map[string]string                 // names, by the incarnation in it
	waited  map[string]string                 // what a pod was last said to wait for, by its UID
	doomed  map[string]bool                   // incarnations that a fault was about to kill
	faults  map[string]*experiments.Fault
	repeats map[string]int // lines that were told once and are counted from then on: delays of a probe, void shots
	width   int            // of the column that says who
	closing bool           // from here on replicas are meant to end

	began   int64              // ns: of the first line
	told    map[StoryLevel]int // lines
	dropped int                // lines beyond what a minute has room for
}

// StoryLevel is how much of a story is told.
type StoryLevel int

// Levels of a story, from the most to the least.
const (
	TellAll  StoryLevel = iota // every line
	TellMain                   // what was done and what came of it: at most 57 lines for a drill of a minute
	TellBad                    // what is not as it should be, and the end
)

// room is how many lines of a level a drill of a minute has. A longer one has more in proportion; phases and the end are told beside them.
var room = map[StoryLevel]int{tellGrants: 14, TellMain: 24, TellBad: 11}

// tellGrants is the room of grants, which are told as TellMain is: a lock that is granted again and again crowds out no fault.
const tellGrants StoryLevel = -1

// NewStory returns the story of one run of e.
func NewStory(e *experiments.Experiment) *Story {
	s := &Story{loops: map[string]bool{}, errors: map[string]experiments.LockErrors{}, pids: map[string]int{}, pods: map[string]string{}, waited: map[string]string{}, told: map[StoryLevel]int{}, repeats: map[string]int{}, doomed: map[string]bool{}, faults: map[string]*experiments.Fault{}, width: doc.LabelWidth}
	for i := range e.Faults { // void shots are repeated, at most as often again
		f := &e.Faults[i]
		s.faults[f.ID] = f
		s.width = max(s.width, len(fmt.Sprintf("%s#%d", f.ID, 2*f.Repeat.Count)))
	}
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		s.loops[l.Name], s.errors[l.Name] = l.Loop(), l.Errors()
	}
	return s
}

// Line is the next event in one short line without a newline, such as
// "T+12.4s  kill-holder#3  SIGKILL r2.1 (pid 4711) holding cordum:reconciler:default", or "" where it is not worth one.
// Events are given in the order of recording.
func (s *Story) Line(e history.Event) string {
	at, who, what := s.Told(e)
	if what == "" {
		return ""
	}
	return doc.Painted(doc.Pad(at, 9)+" "+doc.Pad(who, s.width)+"  "+what, false)
}

// Told is Line in its parts; what is "" where the event is not worth a line.
func (s *Story) Told(e history.Event) (at, who, what string) {
	who, what = s.next(&e)
	if what == "" || !s.tells(&e) {
		return "", "", ""
	}
	if e.Kind == history.RunEnd && s.dropped > 0 {
		what += fmt.Sprintf("; %s left out (--log-level debug tells all)", figures.Plural(s.dropped, "line"))
	}
	return figures.Clock(e.To), who, what
}

// tells decides whether the line of an event is told at the story's level.
func (s *Story) tells(e *history.Event) bool {
	weight := weightOf(e)
	switch {
	case s.Level == TellAll:
		return true
	case e.Kind == history.RunEnd, e.Kind == history.RunAbort, e.Kind == history.RunPhase && s.Level == TellMain:
		return true
	case weight < s.Level:
		return false
	}
	if len(s.told) == 0 {
		s.began = e.To
	}
	minutes := max(1, float64(e.To-s.began)/float64(time.Minute))
	if e.Kind == history.AcquireReturn {
		weight = tellGrants
	}
	if float64(s.told[weight]) >= float64(room[weight])*minutes {
		s.dropped++
		return false
	}
	s.told[weight]++
	return true
}

// weightOf is the least level at which the line of an event is told.
func weightOf(e *history.Event) StoryLevel {
	switch e.Kind {
	case history.FaultConfirmed, history.ReplicaReady, history.RunCalibration, history.RunPrediction, history.WaitEnd:
		return TellAll
	case history.FaultVoid, history.GapKind, history.ReplicaExit, history.UnownedEnter, history.RunCleanup, history.ObjectKind, history.StoreIncarnation:
		return TellBad
	}
	if e.Entry != nil {
		return TellBad
	}
	return TellMain
}

// next is Line in its parts, for formats with columns of their own.
func (s *Story) next(e *history.Event) (who, what string) {
	if e.Replica != nil && e.Replica.Pod != nil {
		s.pods[e.Replica.Incarnation] = e.Replica.Pod.Name
	}
	if e.Replica != nil && e.Replica.PID != 0 {
		s.pids[e.Replica.Incarnation] = e.Replica.PID
	}
	switch {
	case e.Kind == history.FaultIntent && seen(e.Fault).Traits().Kills:
		for _, v := range append(e.Fault.Victims, e.Fault.Victim) {
			s.doomed[v] = true
		}
	case e.Kind == history.RunAbort, e.Kind == history.RunPhase && e.Phase.Name == history.PhaseFinal:
		s.closing = true
	}
	if e.Kind == history.GapKind || e.Kind == history.FaultVoid {
		return s.once(e)
	}
	if who, what = s.describe(e); e.Kind == history.RunEnd && what != "" {
		what += s.repeated()
	}
	return who, what
}

// once tells what often repeats the first time.
func (s *Story) once(e *history.Event) (who, what string) {
	if who, what = s.describe(e); e.Kind == history.GapKind {
		who = e.Coverage.Probe
	}
	of := who
	if e.Fault != nil {
		of = e.Fault.ID + " " + string(e.Fault.Why)
	}
	if s.repeats[of]++; s.repeats[of] > 1 {
		return who, ""
	}
	return who, what
}

// repeated says how often what was told once came again.
func (s *Story) repeated() (text string) {
	for _, of := range slices.Sorted(maps.Keys(s.repeats)) {
		if n := s.repeats[of]; n > 1 {
			text += fmt.Sprintf("; %s: %s in all", of, figures.Plural(n, "time"))
		}
	}
	return text
}

// clockAt is the clock for what a judgement gives in seconds.
func clockAt(seconds float64) string { return figures.Clock(figures.Nanoseconds(seconds)) }

func (s *Story) describe(e *history.Event) (who, what string) {
	switch {
	case e.Fault != nil:
		return e.Op, s.fault(e)
	case e.Environment != nil:
		return "stores", environment(e.Environment)
	case e.Calibration != nil:
		return "calibration", calibration(e.Calibration)
	case e.Prediction != nil:
		return "prediction", prediction(e.Prediction)
	case e.Phase != nil:
		return "phase", because(e.Phase.Name, e.Phase.Why)
	case e.Note != nil:
		return note(e)
	case e.Incarnation != nil && e.Incarnation.Life > 1:
		lost := "lost its data"
		if e.Incarnation.Why == "run_id_changed" {
			lost = "is another server, or was restarted, and may have lost data"
		}
		if e.Incarnation.Why == history.EntriesLost {
			lost = "lost entries"
		}
		return "stores", fmt.Sprintf("the %s store %s (%s): life %d", e.Incarnation.Store, lost, e.Incarnation.Why, e.Incarnation.Life)
	case e.Replica != nil:
		return timeline.OwnName(e.Replica.Incarnation, e.Replica.Called), s.replica(e)
	case e.Object != nil:
		return e.Object.Kind, s.object(e.Object)
	case e.Kind == history.GapKind:
		return e.Coverage.Probe, delayed(e)
	case e.Entry != nil && !e.Entry.Accepted:
		return "ledger", fmt.Sprintf("refused state %q of %s with fence %d: %s", e.Entry.State, e.Entry.Subject, e.Fence, e.Entry.Reason)
	}
	return e.Source, s.claim(e)
}

// delayed is a stretch in which a probe did not look.
func delayed(e *history.Event) string {
	text := "probe delayed " + figures.Short(e.Width())
	if e.Coverage.Why != "" {
		text += " (" + e.Coverage.Why + ")"
	}
	return text
}

// claim is what a replica says about its lock.
func (s *Story) claim(e *history.Event) string {
	switch e.Kind {
	case history.AcquireReturn:
		if s.loops[e.Lock] && e.Outcome == history.OK {
			return fmt.Sprintf("was granted %s, fence %d", e.Key, e.Fence)
		}
	case history.AbandonKind:
		text := fmt.Sprintf("gave up %s: %s", e.Key, e.Abandon.Reason)
		if n := e.Abandon.Failures; n > 0 {
			text += fmt.Sprintf(", after %s in a row", figures.Plural(n, "failed renewal"))
		}
		if says := s.errors[e.Lock].Abandoned; says != "" {
			text += fmt.Sprintf("; its work reads %q", says)
		}
		return text
	case history.WaitEnd:
		if says := s.errors[e.Lock].Busy; says != "" && e.Outcome == history.Fail {
			return fmt.Sprintf("waited for %s in vain: its caller reads %q", e.Key, says)
		}
	case history.UnownedEnter:
		return "works on without owning " + e.Key
	}
	return ""
}

func (s *Story) fault(e *history.Event) string {
	f := e.Fault
	switch e.Kind {
	case history.FaultApplied:
		return s.applied(e)
	case history.FaultConfirmed:
		seen := measuredOf(f)
		if f.Detail != "" {
			seen = strings.TrimPrefix(seen+"; "+f.Detail, "; ")
		}
		return because("confirmed", seen)
	case history.FaultVoid:
		return because("void ("+string(f.Why)+")", f.Detail)
	case history.FaultReverted:
		switch {
		case e.Source != "runner" && seen(f).Traits().Fails != "":
			return fmt.Sprintf("over in %s after %s", e.Source, figures.Plural(f.Hits, "hit"))
		case e.Source != "runner":
			return "over in " + e.Source
		case f.Declared > 0:
			return "over"
		}
	}
	return ""
}

func (s *Story) applied(e *history.Event) string {
	f := e.Fault
	victim := targets(seen(f).Traits(), f.Victim, f.Victims)
	if pid := s.pids[f.Victim]; pid != 0 {
		victim += fmt.Sprintf(" (pid %d)", pid)
	}
	pod := s.pods[f.Victim]
	if pod != "" {
		victim += " (pod " + pod + ")"
	}
	return action(e, s.faults[f.ID], victim, pod != "")
}

func (s *Story) replica(e *history.Event) string {
	r := e.Replica
	switch {
	case e.Kind == history.ReplicaReady && r.PID != 0:
		return fmt.Sprintf("ready, pid %d", r.PID)
	case e.Kind == history.ReplicaReady:
		return "ready"
	case e.Kind == history.ReplicaExit && r.Bad > 0:
		are := "that are no events"
		if r.Bad == 1 {
			are = "that is no event"
		}
		return fmt.Sprintf("ended: %s; it wrote %s %s, first: %s", r.Exit, figures.Plural(r.Bad, "line"), are, r.BadLine)
	case e.Kind == history.ReplicaExit && !s.closing && !s.doomed[r.Incarnation]:
		return "ended UNEXPECTEDLY: " + r.Exit
	}
	return "" // starts are told by ready, ends by their faults
}

// object says what a pod waits for, once; that a container is about to start is no news.
func (s *Story) object(o *history.Object) string {
	word, last := o.Waiting, s.waited[o.UID]
	s.waited[o.UID] = word
	if o.Gone || word == "" || word == last || strings.HasSuffix(word, ": ContainerCreating") || strings.HasSuffix(word, ": PodInitializing") {
		return ""
	}
	return o.Name + " waits: " + word
}

func note(e *history.Event) (who, what string) {
	switch {
	case e.Kind == history.RunAbort:
		return "abort", because(e.Note.What, e.Note.Why)
	case e.Kind == history.RunCleanup && !e.Note.OK:
		return "clean-up", because(e.Note.What+" NOT verified", e.Note.Why)
	case e.Kind == history.RunEnd && e.Note.OK:
		return "end", because(e.Note.What+", nothing left behind", e.Note.Why)
	case e.Kind == history.RunEnd:
		return "end", because(e.Note.What+", clean-up NOT verified", e.Note.Why)
	}
	return "", ""
}

func environment(e *history.Environment) string {
	fleet := fmt.Sprintf("%d replicas as %s", e.Replicas, e.Fleet)
	switch e.Fleet {
	case history.FleetObservedPods:
		fleet = fmt.Sprintf("%d pods of somebody's own, only watched", e.Replicas)
	case history.FleetObservedProcesses:
		fleet = fmt.Sprintf("%d processes of somebody's own, only watched", e.Replicas)
	}
	if e.Cluster != "" {
		fleet += " in Kubernetes " + e.Cluster
	}
	switch e.Calls {
	case history.CallsSingle:
		fleet += ", each lock operation sent by itself"
	case history.CallsBatched:
		fleet += ", lock operations sent in batches"
	}
	var stores []string
	for _, s := range []struct {
		what string
		on   history.StoreInfo
	}{{"locks", e.Store}, {"ledger", e.Ledger}} {
		if s.on.Kind != "" && s.on.Kind != "none" { // an observed system may have neither
			stores = append(stores, s.what+" on "+store(s.on))
		}
	}
	on := strings.Join(stores, ", ")
	if on != "" {
		on += "; "
	}
	return fmt.Sprintf("%s%s; %s, %d CPUs", on, fleet, e.OS, e.CPUs)
}

func store(s history.StoreInfo) string {
	return s.Called("redis") + " (" + s.Kind + ")"
}

func calibration(c *history.Calibration) string {
	text := fmt.Sprintf("round trip p50 %s, p99 %s; timers late by %s (p99), expiry by %s (worst)",
		figures.Short(c.RTT50), figures.Short(c.RTT99), figures.Short(c.Timer99), figures.Short(c.Expiry))
	return text
}

func prediction(p *history.Prediction) string {
	if p.Why != "" {
		return "none: " + p.Why
	}
	if len(p.Takeovers) == 0 {
		return figures.Plural(p.Seeds, "rehearsal") + " of this file gave no takeover"
	}
	var parts []string
	for _, t := range p.Takeovers {
		hi := "open"
		if t.Hi != nil {
			hi = figures.Short(*t.Hi)
		}
		parts = append(parts, fmt.Sprintf("%s %s %s to %s", t.Lock, t.Class, figures.Short(t.Lo), hi))
	}
	return fmt.Sprintf("takeovers in %s of this file: %s", figures.Plural(p.Seeds, "rehearsal"), strings.Join(parts, "; "))
}

// roughly writes what a judgement gives in seconds for a glance.
func roughly(seconds float64) string { return figures.Short(figures.Nanoseconds(seconds)) }

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
