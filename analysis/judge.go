// Package analysis turns an experiment and a history into a judgement. It is pure: no I/O, no clock, no randomness, so a run
// judged again next year gives the same answer, byte for byte. What it concludes are values of package verdict.
//
// The judge measures what happened, as ranges and counts, to the letter of docs/judging.md, holds it against the SLOs and
// says whether the question was reached. Its one invariant: PASS is never the answer to a question that was not reached.
package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Judge holds what was read against the promises of the experiment. It is a pure function: the same experiment and history give the same
// Judgement, byte for byte.
func (ix *Facts) Judge() *verdict.Judgement { return ix.judging().judgement() }

// Judge reads and judges h, which is whole.
func (r *Judger) Judge(h *history.History) *verdict.Judgement { return r.whole(h).Judge() }

// Judge reads and judges h, which is whole. e is the experiment as loaded (not scaled).
func Judge(e *experiments.Experiment, h *history.History) *verdict.Judgement {
	return FactsOf(e, h).Judge()
}

func (j *judging) judgement() *verdict.Judgement {
	ix := j.ix
	out := &verdict.Judgement{
		SchemaVersion: verdict.VerdictVersion,
		Run:           j.run(),
		Missing:       append([]verdict.Missing{}, j.runMissing()...),
		SLOs:          []verdict.SLOResult{},
		Faults:        []verdict.FaultResult{},
		Takeovers:     []verdict.Takeover{},
		Overlap:       []verdict.Overlap{},
		Abandonments:  []verdict.Abandonment{},
		Duplicates:    []verdict.Duplicate{},
		Debts:         []verdict.Debt{},
		NotOwned:      []verdict.NotOwned{},
		Distributions: []verdict.Distribution{},
		Bands:         j.bands(j.warmup),
		Probes:        ix.summaries(),
	}
	for i := range j.asked {
		r, sample := j.row(&j.asked[i])
		out.SLOs, j.samples = append(out.SLOs, r), append(j.samples, sample)
	}
	out.Expected = j.expected()
	ix.rests(out.SLOs)
	ix.rests(out.Expected)
	for _, s := range ix.shots {
		out.Faults = append(out.Faults, s.result(ix))
		for _, t := range s.trials {
			if !t.void.IsVoid() {
				out.Takeovers = append(out.Takeovers, t.takeover())
			}
		}
	}
	for i := range ix.exp.Faults {
		if id := ix.exp.Faults[i].ID; !slices.ContainsFunc(ix.shots, func(s *shot) bool { return s.id == id }) {
			out.NeverFired = append(out.NeverFired, verdict.NeverFired{ID: id, Shots: ix.shotsOf(id)})
		}
	}
	out.Takeovers = append(out.Takeovers, ix.thefts()...)
	j.fill(out)
	out.Unknown = j.unknown()
	out.Rolling = j.rolledOut()
	var outside []verdict.Finding
	out.Predicted, outside = ix.predicted(out.Takeovers)
	out.Machine = ix.machine()
	out.HoldersBy, out.Monitor = ix.holdersBy, ix.monitor
	out.Findings = append([]verdict.Finding{}, slices.Concat(ix.findings, j.impossible(), outside, ix.compareMetrics())...)
	out.Warnings = j.warnings()
	out.ExitCode = j.exit(out)
	out.Verdict = verdict.ExitName(out.ExitCode)
	return out
}

// judging is one judgement in the making.
type judging struct {
	*Judger
	ix     *Facts
	status string
	warmup time.Duration // allowance for the first effect after a grant, by the run's calibration

	samples  []verdict.Sample // beside the rows of promises
	figures  map[figureKey]figure
	serieses map[seriesKey]*series
	fencings map[string]fencing
	giveups  map[string]giveUps
	dups     map[string]duplicates
	debts    map[string]debts
	spread   map[string][]*distribution
}

// judging begins a judgement.
func (ix *Facts) judging() *judging {
	j := &judging{Judger: ix.judger, ix: ix, figures: map[figureKey]figure{}, serieses: map[seriesKey]*series{}, fencings: map[string]fencing{}, giveups: map[string]giveUps{}, dups: map[string]duplicates{},
		debts: map[string]debts{}, spread: map[string][]*distribution{}}
	j.status = verdict.StatusCutOff
	if end := j.ix.end; end != nil {
		j.status = end.Note.What
	}
	// A grant is answered, work entered and begin written: a few round trips and one timer.
	j.warmup = tenths(5*time.Duration(j.ix.cal.RTT99) + time.Duration(j.ix.cal.Timer99))
	for _, name := range j.lockNames() {
		j.fencings[name] = j.ix.effectOverlap(name)
		j.giveups[name] = j.ix.giveUpsOf(name)
		j.dups[name] = j.ix.duplicatesOf(name)
		j.debts[name] = j.ix.debtsOf(name)
		j.spread[name] = j.ix.distributionsOf(name)
	}
	return j
}

// scale is the time scale that the experiment was run at.
func (j *judging) scale() float64 { return cmp.Or(j.ix.exp.Scaled, 1) }

// lockNames lists the locks that were declared, then those that only the history knows.
func (j *judging) lockNames() []string {
	if j.ix.only != nil {
		return []string{j.ix.only.lock}
	}
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range j.ix.exp.System.Locks {
		add(j.ix.exp.System.Locks[i].Name)
	}
	for _, k := range j.ix.keyOrder {
		add(k.lock)
	}
	return names
}

func (j *judging) run() verdict.RunInfo {
	last := j.ix.last
	r := verdict.RunInfo{
		ID: j.ix.header.Run, Experiment: j.ix.header.Experiment, Status: j.status, Started: j.ix.header.Started,
		Seconds: seconds(last), Seed: j.ix.header.Seed, TimeScale: j.ix.header.TimeScale, Live: j.ix.header.Mode == history.Live,
		Labels: j.ix.header.Labels, Steady: j.steady(), CleanedUp: j.ix.clean() && j.ix.end != nil && j.ix.end.Note.OK,
	}
	if t, err := time.Parse(time.RFC3339Nano, j.ix.header.Started); err == nil {
		r.Ended = t.Add(time.Duration(last)).UTC().Format(time.RFC3339Nano)
	}
	return r
}

// fill adds the lists and counts that are reported whether an SLO asks for them or not.
func (j *judging) fill(out *verdict.Judgement) {
	ix := j.ix
	c := &out.Counts
	for _, name := range j.lockNames() {
		f, g, d := j.fencings[name], j.giveups[name], j.dups[name]
		for _, level := range []string{verdict.LevelBelief, verdict.LevelWork} {
			if o := ix.timeOverlap(name, level); o.n > 0 {
				v := o.Range()
				out.Overlap = append(out.Overlap, verdict.Overlap{Lock: name, Level: level, Lo: v.Lo, Hi: v.Hi, Evidence: cite(o.evidence...)})
			}
		}
		if ix.ledgered[name] && !ix.exp.Observed() {
			hi := float64(f.hi)
			out.Overlap = append(out.Overlap, verdict.Overlap{Lock: name, Level: verdict.LevelEffect, Lo: float64(f.lo), Hi: &hi, Stale: f.stale, Unowned: f.unowned, Evidence: cite(f.evidence...)})
		}
		out.Abandonments = append(out.Abandonments, g.list...)
		out.Duplicates = append(out.Duplicates, d.list...)
		j.fillUpkeep(out, name)
		again, _ := ix.reExecuted(name)
		stranded, _, _ := ix.strandedOf(name)
		vanished, _ := ix.vanishedOf(name)
		c.Vanished += vanished.lo
		c.VanishedAtMost += vanished.hi
		c.Jobs += d.jobs
		c.Finished += d.finished
		c.TerminalAccepted += d.accepted
		c.Duplicates += d.extra
		c.Abandonments += g.raw
		if l := ix.exp.Lock(name); l != nil && l.AbandonedBy != nil {
			c.Abandonments += int(signalledAbandonments(j, &experiments.Limit{Lock: name}).lo)
		}
		c.StaleApplied += f.stale
		c.StaleRefused += f.refused
		c.UnownedEffects += f.unowned
		c.OwnerRejected += len(f.ownerRejected)
		c.ReExecuted += again.lo
		c.ReExecutedAtMost += again.hi
		c.Stranded += stranded.lo
		c.StrandedAtMost += stranded.hi
	}
	for _, k := range ix.keyOrder {
		c.FenceRegressions += len(k.regressions)
	}
	for _, s := range ix.shots {
		c.NothingOwed += s.nothingOwed
		for _, t := range s.trials {
			if t.class == verdict.ClassFalse {
				c.FalseTakeovers++
			}
		}
	}
}

// warnings says what a reader of the numbers should know and no SLO asks.
func (j *judging) warnings() []string {
	ix := j.ix
	ws := []string{}
	add := func(format string, args ...any) { ws = append(ws, fmt.Sprintf(format, args...)) }
	if ix.torn != "" {
		add("The history is damaged at its end: %s", ix.torn)
	}
	if ix.header.Mode == history.Rehearsal {
		add("This is a rehearsal in virtual time. It says nothing about a live system.")
	}
	if s := ix.header.TimeScale; s != 1 {
		add("Time scale %g: figures are real seconds, held against scaled limits.", s)
	}
	for _, ev := range ix.exits {
		if r := ev.Replica; !r.Wanted && !ix.hitBy(r.Incarnation) {
			add("%s ended by itself at %s: %s", r.Incarnation, figures.Clock(ev.To), r.Exit)
		}
	}
	for _, ev := range ix.lives {
		lost := "lost its data"
		if ev.Incarnation.Why == "run_id_changed" {
			lost = "was restarted or replaced, and may have lost data,"
		}
		add("The locks' store %s between %s and %s. From then on grants are ordered by time, and fences prove nothing.", lost, figures.Clock(ev.From), figures.Clock(ev.To))
	}
	if ix.failsOver() {
		add("Redis with asynchronous replication can grant a lock twice after a failover, because it forgets what was not yet replicated.")
	}
	for _, why := range ix.lostLedger {
		add("The ledger lost entries, so no row can pass: %s", why)
	}
	for _, name := range j.lockNames() {
		if n := len(j.fencings[name].ownerRejected); n > 0 {
			add("Lock %s: the ledger refused %d writes of the rightful owner, because fences went back.", name, n)
		}
	}
	for _, l := range j.lintsWith(j.warmup) {
		if !l.OK && !l.Ahead() {
			add("%s %s: %s. %s", l.Rule, l.Of(), l.Text, l.Means)
		}
	}
	for _, a := range ix.aborts {
		add("The run was aborted at %s: %s", figures.Clock(a.From), abortText(a.Note))
	}
	return ws
}

// failsOver reports a fail-over of the locks' store, declared or fired.
func (ix *Facts) failsOver() bool {
	fired := slices.ContainsFunc(ix.shots, func(s *shot) bool {
		return s.does.FailsOver
	})
	return fired || slices.ContainsFunc(ix.exp.Faults, func(f experiments.Fault) bool {
		return f.Traits().FailsOver
	})
}

// clean reports that everything that was cleaned up was verified, as far as the history tells.
func (ix *Facts) clean() bool {
	return !slices.ContainsFunc(ix.cleanups, func(c *history.Event) bool { return !c.Note.OK })
}

// exit is the status of the run: the worst of what applies.
func (j *judging) exit(out *verdict.Judgement) int {
	ix := j.ix
	codes, word := []int{verdict.ExitPass}, verdict.Pass
	add := func(applies bool, code int) {
		if applies {
			codes = append(codes, code)
		}
	}
	for _, s := range out.Rows() {
		word = verdict.Worst(word, s.Verdict)
	}
	broke := func(a *history.Event) bool { return a.Note.What == history.AbortError }
	add(!ix.clean() || ix.end != nil && !ix.end.Note.OK, verdict.ExitDirty)
	add(j.status == verdict.StatusError || slices.ContainsFunc(ix.aborts, broke), verdict.ExitError)
	add(word == verdict.Fail, verdict.ExitSLOFailed)
	add(j.status == verdict.StatusAborted || ix.end != nil && len(ix.aborts) > 0, verdict.ExitAborted)
	add(word == verdict.Inconclusive || len(out.SLOs) == 0 || j.status != verdict.StatusCompleted, verdict.ExitInconclusive)
	return verdict.WorstExit(codes...)
}

// tenths rounds an allowance up to what reads well in a sum, a tenth of a millisecond.
func tenths(d time.Duration) time.Duration {
	const step = 100 * time.Microsecond
	return (d + step - 1) / step * step
}

// fillUpkeep adds the lists of debts, answers and distributions.
func (j *judging) fillUpkeep(out *verdict.Judgement, lock string) {
	ds := j.debts[lock]
	out.Counts.OrphanAcquires += ds.orphans.lo
	for _, d := range ds.list {
		out.Debts = append(out.Debts, verdict.Debt{
			Lock: lock, Key: d.e.key, Epoch: d.e.id, Replica: d.e.replica, Cause: d.cause, From: seconds(d.start.From), Debt: d.time.Range(),
			Lateness:  seconds(d.late.time),
			Effective: d.effective.Range(), WaiterSeconds: d.waiting.Range(), Evidence: cite(d.evidence()...),
		})
	}
	for _, op := range []string{opRenew, opRelease} {
		if o := j.ix.notOwnedOf(lock, op); o.answered+o.own > 0 {
			out.NotOwned = append(out.NotOwned, verdict.NotOwned{
				Lock: lock, Op: op, Answered: o.answered, Absent: o.absent, Other: o.other, Own: o.own, Ratio: float64(o.ratio()) / 1e9, Evidence: cite(o.evidence...),
			})
		}
	}
	for _, d := range j.spread[lock] {
		if len(d.values) == 0 {
			continue
		}
		at := func(p float64) verdict.Range { return quantile(d.values, p).Range() }
		out.Distributions = append(out.Distributions, verdict.Distribution{
			Lock: lock, Class: d.class, Measure: d.measure, N: len(d.values), Cut: d.cut, P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(0),
		})
	}
}

// Judger judges histories of one experiment, one after the other: what depends on the experiment alone is worked out once. It is not
// safe for concurrent use.
type Judger struct {
	exp  *experiments.Experiment // scaled
	file *experiments.Experiment // as loaded

	asked, expectations []experiments.Limit // the rows, in their order
	measures            map[string]*measure
	conditions          []condition
	sums                map[sumOf]forecast.PromiseBand
	all                 map[time.Duration][]verdict.Band  // by warm-up
	lints               map[time.Duration][]forecast.Lint // likewise, in the numbers of the file
}

// NewJudger prepares for histories of e, which is the experiment as loaded (not scaled).
func NewJudger(e *experiments.Experiment) *Judger {
	scaled := experiments.Scale(e)
	return &Judger{exp: scaled, file: e, asked: scaled.Rows(), expectations: scaled.Expectations(), measures: measures(), conditions: conditions(),
		lints: map[time.Duration][]forecast.Lint{}}
}

// Read takes in h, in one pass. An error is h's.
func (r *Judger) Read(h history.Source) (*Facts, error) {
	ix := &Facts{

		judger: r, exp: r.exp, header: h.Header(),
		keys: map[string]*keyIndex{}, byLock: map[string][]*keyIndex{}, jobs: map[string]*job{}, replicas: map[string][]*epoch{},
		writes: map[opKey]*claim{}, deaths: map[string]death{}, claims: map[string]int64{}, pauses: map[string][]pause{},
		ready: map[string]int64{}, heard: map[string]bool{}, called: map[string]string{}, probes: map[string]*coverage{}, samples: signals.Samples{},
		ledgered: map[string]bool{}, asked: map[string]bool{}, idsLate: map[string]bool{}, claimed: map[string]bool{}, told: history.Numbers{}, unread: map[string]unread{}, vanishings: map[*epoch]vanishing{}, beliefs: map[string][]*history.Event{}, phases: map[string]*history.Event{},
	}
	if err := ix.read(h); err != nil {
		return nil, err
	}
	return ix, nil
}

// whole is Read of what is in memory: nothing can go wrong.
func (r *Judger) whole(h *history.History) *Facts {
	facts, err := r.Read(h.Source())
	if err != nil {
		panic(err)
	}
	return facts
}

// sumOf says what a sum of L3 depends on, beside the experiment.
type sumOf struct {
	lock, measure, class string
	limit                int64
	quantile             float64
	warmup               time.Duration
}

// told is the band of a measure of a lock after faults of a class, held against a limit.
func (r *Judger) told(lock *experiments.Lock, l *experiments.Limit, class string, warmup time.Duration) forecast.PromiseBand {
	of := sumOf{lock.Name, l.Measure, class, l.At, l.Quantile, warmup}
	if s, known := r.sums[of]; known {
		return s
	}
	s := forecast.PromiseOf(r.exp, lock, l, class, warmup)
	if r.sums == nil {
		r.sums = map[sumOf]forecast.PromiseBand{}
	}
	r.sums[of] = s
	return s
}

// bands are those of all locks.
func (r *Judger) bands(warmup time.Duration) []verdict.Band {
	if r.all == nil {
		r.all = map[time.Duration][]verdict.Band{}
	}
	if r.all[warmup] == nil {
		r.all[warmup] = forecast.Bands(r.exp, warmup)
	}
	return slices.Clone(r.all[warmup])
}

// lintsWith are the lints whose advice leaves room for a warm-up, as the advice of the rows does.
func (r *Judger) lintsWith(warmup time.Duration) []forecast.Lint {
	if r.lints[warmup] == nil {
		r.lints[warmup] = forecast.Lints(r.file, time.Duration(forecast.Unscaled(int64(warmup), cmp.Or(r.exp.Scaled, 1))))
	}
	return r.lints[warmup]
}
