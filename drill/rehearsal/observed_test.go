package rehearsal

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// outsider sees a world as somebody does who knows keys and effects alone: nobody says what it does, and what is seen may have holes.
type outsider struct {
	names  bool    // the key's value is its holder's name, which comes back
	token  bool    // effects say under which token they were written
	writer bool    // and which replica wrote them
	unread float64 // share of the effects that could not be read
	begins bool    // the file says which state begins a job
	due    bool    // effects tell of jobs before they are due

	says map[string]string // by lock: the source that tells whether its replicas believe to hold it
	ask  believing
}

func randomOutsider(r *rand.Rand) outsider {
	half := func() bool { return r.IntN(2) == 0 }
	o := outsider{names: half(), token: half(), writer: half()}
	o.token = o.token && !o.names // a name is no token
	if half() {
		o.unread = 0.1 * r.Float64()
	}
	return o
}

// look draws the outsider of a world, who may look seldom.
func (w *world) look() *rand.Rand {
	r := rand.New(rand.NewPCG(w.seed, 7))
	o, e := randomOutsider(r), w.e
	seldom := r.IntN(2) == 0
	if s := w.s; s != nil {
		seldom = s.has(looksSeldom)
		o = outsider{names: s.has(valuesNames), writer: s.has(effectsWriter), begins: s.has(beginsDeclared), due: s.has(jobsPutOff), says: map[string]string{}, ask: randomBelieving(r, s)}
		if o.token = s.has(effectsToken) && !o.names; s.has(recordsUnread) {
			o.unread = 0.1 * r.Float64()
		}
		for _, l := range e.System.Locks {
			switch {
			case s.has(beliefMetric) && l.Loop():
				o.says[l.Name] = experiments.HolderByMetric
			case s.has(beliefLog):
				o.says[l.Name] = experiments.HolderByLog
			}
		}
	}
	for i := range e.Faults {
		if b, burst := e.Faults[i].Spec.(*fault.Failures); burst && w.s != nil {
			b.Via = fault.ViaProxy
		}
	}
	if seldom {
		e.Probes.LockKeys.Every = between(r, 40*time.Millisecond, 240*time.Millisecond)
	}
	w.o = &o
	return r
}

// Names of what an outsider may have to do with.
const (
	valuesNames    = "values are names"
	effectsToken   = "effects say the token"
	effectsWriter  = "effects say the writer"
	recordsUnread  = "records that cannot be read"
	beginsDeclared = "beginnings are declared"
	looksSeldom    = "seldom looks"
	beliefMetric   = "belief by gauges"
	beliefLog      = "belief by lines"
	answersMissing = "answers are missing"
	answersLate    = "answers are late"
	linesLost      = "lines are lost"
	logsGoOn       = "logs go on over lives"
)

// outsiders are what outsiders have to do with.
func outsiders() []feature {
	says := func(w *world, source string) bool {
		return slices.Contains(slices.Collect(maps.Values(w.o.says)), source)
	}
	lines := func(w *world) bool { return says(w, experiments.HolderByLog) }
	gauges := func(w *world) bool { return says(w, experiments.HolderByMetric) }
	return []feature{
		{valuesNames, func(w *world) bool { return w.o.names }},
		{effectsToken, func(w *world) bool { return w.o.token }},
		{effectsWriter, func(w *world) bool { return w.o.writer }},
		{recordsUnread, func(w *world) bool { return w.o.unread > 0 }},
		{beginsDeclared, func(w *world) bool { return w.o.begins }},
		{looksSeldom, func(w *world) bool { return w.e.Probes.LockKeys.Every >= 40*time.Millisecond }},
		{beliefMetric, gauges},
		{beliefLog, lines},
		{answersMissing, func(w *world) bool { return gauges(w) && w.o.ask.unanswered > 0 }},
		{answersLate, func(w *world) bool { return gauges(w) && w.o.ask.late > 2*time.Millisecond }},
		{linesLost, func(w *world) bool { return lines(w) && w.o.ask.lost > 0 }},
		{logsGoOn, func(w *world) bool { return lines(w) && w.o.ask.goesOn }},
		{jobsPutOff, func(w *world) bool { return w.o.due && len(w.e.System.Work) > 0 }},
	}
}

func effectsOf(lock string) string { return lock + "-effects" }

// experiment is e as the file of somebody who only watches says it.
func (o outsider) experiment(e *experiments.Experiment) *experiments.Experiment {
	seen := *e
	seen.System.Mode, seen.System.Work, seen.System.Effects = experiments.ModeObserve, nil, nil
	seen.System.Processes = &experiments.Processes{Match: `service (?P<name>\S+)`}
	seen.Redis = experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://10.0.0.5:6379"}
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		m := experiments.EffectMap{Op: "op"}
		if l.Policy.Loop == nil {
			m.Job, m.State, m.Terminal = "job", "state", []string{"DONE"}
			if o.begins {
				m.Begin = []string{history.StateBegin}
			}
		}
		if o.token {
			m.Token = "token"
		}
		if o.writer {
			m.Replica = "who"
		}
		seen.System.Effects = append(seen.System.Effects, experiments.Effects{Name: effectsOf(l.Name), Lock: l.Name, Stream: "effects:" + l.Name, Map: m,
			ProbeSettings: e.Probes.Ledger})
	}
	if len(o.says) > 0 {
		seen.System.Locks = slices.Clone(e.System.Locks)
	}
	for i := range seen.System.Locks {
		l := &seen.System.Locks[i]
		switch o.says[l.Name] {
		case experiments.HolderByMetric:
			l.Belief = &experiments.Belief{Metric: &experiments.HolderMetric{Series: "leads"}, Every: o.ask.every, MaxGap: o.ask.maxGap}
		case experiments.HolderByLog:
			l.Belief = &experiments.Belief{Log: &experiments.BeliefLog{Gain: "holds (?P<key>.*)", Lose: "leaves (?P<key>.*)"}, Every: o.ask.every, MaxGap: o.ask.maxGap}
		}
	}
	return &seen
}

// promises are those of the file, and what else an outsider can ask.
func (w *world) promises(file *experiments.Experiment) {
	r := rand.New(rand.NewPCG(w.seed, 19))
	file.SLOs = slices.Clone(file.SLOs)
	for i := range file.System.Locks {
		l := &file.System.Locks[i]
		file.SLOs = append(file.SLOs, asks(l, l.Belief != nil, r)...)
		if !l.Loop() {
			file.SLOs = append(file.SLOs, experiments.SLO{Lock: l.Name, DuplicateTerminalStates: &experiments.CountLimit{Bound: *experiments.AtMost(0)}})
			if w.o.due {
				file.SLOs = append(file.SLOs, experiments.SLO{Lock: l.Name, Stranded: &experiments.CountLimit{Bound: *experiments.AtMost(0)}})
			}
		}
	}
}

// history is h as that run would have recorded it.
func (o outsider) history(e *experiments.Experiment, d *Drill, r *rand.Rand) *history.History {
	h, t := d.History, d.Truth
	by := map[string]*sim.Epoch{}
	for i := range t.Epochs {
		by[t.Epochs[i].ID] = &t.Epochs[i]
	}
	value := func(epoch string) string {
		if x := by[epoch]; o.names && x != nil && x.Replica != "" {
			return nameOf(x.Replica)
		}
		return epoch
	}
	seen := *h
	seen.Header.Mode, seen.Events = history.Live, nil
	pos := map[string]int64{}
	add := func(ev history.Event) {
		ev.N, ev.Seq = int64(len(seen.Events))+1, 0 // streams that are not those of the run have other numbers
		if ev.Note != nil {
			note := *ev.Note
			note.Last = nil
			ev.Note = &note
		}
		seen.Events = append(seen.Events, ev)
	}
	believed := o.ask.beliefs(d, o.says, e.System.Locks, r)
	for _, ev := range h.Events {
		for len(believed) > 0 && believed[0].At <= ev.At {
			add(believed[0])
			believed = believed[1:]
		}
		switch {
		case ev.Kind == history.RunEnvironment:
			env := *ev.Environment
			env.Fleet, env.Store, env.Ledger, env.Calls = history.FleetObservedProcesses, history.StoreInfo{Kind: "external", Version: "7.0.15"}, history.StoreInfo{}, ""
			ev.Environment = &env
			add(ev)
		case ev.Kind == history.LookKind:
			l := *ev.Look
			if x := by[ev.Epoch]; l.Present && x != nil {
				l.Holder = x.Replica
			}
			ev.Look, ev.Epoch = &l, value(ev.Epoch)
			add(ev)
		case ev.Kind == history.LedgerEntry:
			if !ev.Entry.Accepted {
				continue
			}
			x := *ev.Entry
			writer := by[ev.Epoch]
			x.Foreign, x.Named, x.Writer = true, "", ""
			if o.writer && writer != nil {
				x.Writer = writer.Replica
			}
			ev.Source, ev.Fence = "probe:effects:"+effectsOf(ev.Lock), 0
			if r.Float64() < o.unread {
				same := func(of history.Event) bool { return of.Unread != nil && of.Source == ev.Source && of.Span == ev.Span }
				if n := slices.IndexFunc(seen.Events, same); n >= 0 { // of one read
					seen.Events[n].Unread.Count++
					continue
				}
				add(history.Event{Kind: history.UnreadKind, Source: ev.Source, Span: ev.Span, Unread: &history.Unread{Source: "effects:" + effectsOf(ev.Lock), Count: 1, Reason: history.Unparsable}})
				continue
			}
			pos[ev.Lock]++
			x.Pos = pos[ev.Lock]
			if !o.token {
				ev.Epoch = ""
			}
			ev.Entry = &x
			add(ev)
		case ev.Incarnation != nil && ev.Incarnation.Store == "ledger":
		case ev.Kind == history.CoverageKind || ev.Kind == history.GapKind:
			if ev.Coverage.Probe != "ledger" {
				add(ev)
				continue
			}
			for i := range e.System.Locks {
				c := *ev.Coverage
				c.Probe = "effects:" + effectsOf(e.System.Locks[i].Name)
				each := ev
				each.Coverage, each.Source = &c, "probe:"+c.Probe
				add(each)
			}
		case ev.Kind == history.ReplicaReady, !strings.Contains(ev.Source, "."): // what is not a replica's word
			if f := ev.Fault; f != nil && o.names {
				ev.Epoch = value(ev.Epoch)
			}
			if !strings.HasPrefix(string(ev.Kind), "job.") {
				add(ev)
			}
		}
	}
	return &seen
}

// canBeDone reports that the faults of e can be done to somebody's own replicas: those that a worker of ours makes happen cannot.
func canBeDone(e *experiments.Experiment) bool {
	return !slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool {
		b, burst := f.Spec.(*fault.Failures)
		return burst && b.Via == fault.ViaWorker
	})
}

// observedSeeds of a plain test; make truth asks for more.
const observedSeeds = 2000

// What is measured of somebody's own system contains what really happened as well, whatever its keys' values and its effects tell: the
// same random worlds, seen by somebody to whom nobody says what it does.
func TestTruthFromOutside(t *testing.T) {
	roomy(t)
	from, n := uint64(0), uint64(observedSeeds)
	if s := os.Getenv("LOCKDRILL_TRUTH_SEEDS"); s != "" {
		n = max(n, number(t, s)/20)
	}
	if s := os.Getenv("LOCKDRILL_TRUTH_SEED"); s != "" {
		from, n = number(t, s), 1
	}
	if testing.Short() {
		n = min(n, 60)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var together met
	worlds, trials := 0, 0
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := from + uint64(worker); seed < from+n; seed += uint64(runtime.GOMAXPROCS(0)) {
				w := drawWorld(seed, whole())
				wrong, seen, can := compareObserved(&w)
				if !can {
					continue
				}
				mu.Lock()
				worlds, trials = worlds+1, trials+seen
				together.see(&w)
				if len(wrong) > 0 {
					t.Errorf("%s: %s", &w, wrong[0])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n >= observedSeeds && (worlds < observedSeeds/2 || trials < observedSeeds/2) {
		t.Errorf("%d trials in %d worlds: that is too little to say anything", trials, worlds)
	}
	for _, lack := range together.lacks(true) {
		t.Error(lack)
	}
	t.Logf("%d trials in %d worlds%s", trials, worlds, together.text(true))
}

// Seeds in which an outsider once measured what had not happened, and what that was.
func TestSeedsFromOutsideThatFailed(t *testing.T) {
	for seed, was := range map[uint64]string{
		2:     "a renewal that looks bracket around a fault was taken for one before it",
		346:   "a next life that took the key under the same name was taken for a renewal",
		719:   "whoever had finished its job was thought to hold its lock still",
		1758:  "a renewal before the first look was thought impossible",
		2393:  "a renewal and a release between two looks were thought impossible, and a write under them unowned",
		2404:  "a renewal in a stretch without looks was thought impossible, and a write under it unowned",
		3465:  "a renewal after the last look was thought impossible",
		4417:  "a write of nobody that is known was held against a paused replica",
		5987:  "a renewal that a frozen store took in last, and the release behind it, were thought impossible",
		6910:  "who had given its key back, and been replaced, before a restart was thought to be struck by it",
		9159:  "what a holder still wrote when its key had been taken was thought to be of its next grant",
		9242:  "a name that came back after its key had been deleted was thought to have been seen after its lease's end",
		10402: "what a holder wrote under a grant between two looks was thought to be of the one before",
		4855:  "a name that came back after its key had been deleted was thought to have held all the time",
	} {
		w := drawWorld(seed, true)
		if wrong, _, _ := compareObserved(&w); len(wrong) > 0 {
			t.Errorf("LOCKDRILL_TRUTH_SEED=%d (%s): %s", seed, was, wrong[0])
		}
	}
}

// compareObserved holds what an outsider of the seed measures against what happened. can is false where a fault cannot be done to replicas
// of somebody's own.
func compareObserved(w *world) (wrong []string, trials int, can bool) {
	e, net, seed := w.e, w.net, w.seed
	r := w.look()
	if !canBeDone(e) {
		return nil, 0, false
	}
	o := *w.o
	d, err := New(e, net).Run(context.Background(), int64(seed))
	if err != nil {
		return []string{err.Error()}, 0, true
	}
	d.History = inTheDark(d.History, w.dark)
	file := o.experiment(e)
	w.promises(file)
	told, soon := w.putOff(d)
	seen := o.history(e, told, r)
	c := &comparison{e: e, t: d.Truth, j: analysis.NewJudger(file).Judge(seen), final: math.MaxInt64,
		blink: int64(e.Probes.LockKeys.MaxGap + 2*(e.Probes.LockKeys.Every+2*net.Most))}
	for i := range d.History.Events {
		switch ev := &d.History.Events[i]; {
		case ev.Kind != history.RunPhase:
		case ev.Phase.Name == history.PhaseFinal:
			c.final = ev.From
		case ev.Phase.Name == history.PhaseFaults:
			c.faults = ev.From
		}
	}
	c.index()
	c.strikes(d.History)
	c.asSeen(o)
	c.takeovers()
	c.endedTwice()
	if o.unread == 0 {
		c.duplicates()
		c.effects()
	}
	c.outside()
	c.stranded(d.History, soon)
	for _, f := range c.j.Findings {
		if f.Code == verdict.FindingRolledBack && c.anyBack() || strings.Contains(f.What, "twice: store.incarnation") || // virtual time has no two instants for two restarts
			strings.Contains(f.What, "longer than the lock's timings allow") { // nobody tells of calls that the network lost
			continue
		}
		c.wrong = append(c.wrong, fmt.Sprintf("an honest world gives a contradiction: %s %v", f.What, f.Evidence))
	}
	for i := range c.wrong {
		c.wrong[i] = fmt.Sprintf("%+v: %s", o, c.wrong[i])
	}
	return c.wrong, len(c.j.Takeovers), true
}

// anyBack reports that a standby brought a key back.
func (c *comparison) anyBack() bool {
	return slices.ContainsFunc(c.t.Epochs, func(e sim.Epoch) bool { return e.Back })
}

// asSeen takes for a renewal whatever prolonged a lease: a look shows that, also where no answer came. Who gives back a key whose value
// is its name, and takes it again between two looks, prolongs it as well.
func (c *comparison) asSeen(o outsider) {
	c.renewals, c.regrants, c.seen = map[string][]history.Span{}, map[string][]history.Span{}, &o
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		for _, at := range e.Renewed {
			c.renewals[e.ID] = append(c.renewals[e.ID], history.At(at))
		}
		for j := range c.t.Epochs {
			again := &c.t.Epochs[j]
			if !o.names || again.Key != e.Key || nameOf(again.Replica) != nameOf(e.Replica) || again.Granted == sim.Never || !later(again, e) {
				continue
			}
			for _, at := range append([]int64{again.Granted}, again.Renewed...) {
				c.regrants[e.ID] = append(c.regrants[e.ID], history.At(at))
			}
		}
	}
}
