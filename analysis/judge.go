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

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Facts are what was read of one history, together with who judges it.
type Facts struct {
	*facts.Facts
	judger *Judger
	said   *lint.Linter // nil = nobody asks whether the worker keeps the protocol
}

// Read takes in a history in one pass. e is the experiment as loaded (not scaled). An error is h's: its line that is no event.
func Read(e *experiments.Experiment, h history.Source) (*Facts, error) { return NewJudger(e).Read(h) }

// FactsOf is Read of what is in memory.
func FactsOf(e *experiments.Experiment, h *history.History) *Facts { return NewJudger(e).whole(h) }

// AsLive are the same facts as of a live run.
func (ix *Facts) AsLive() *Facts { return &Facts{ix.Facts.AsLive(), ix.judger, ix.said} }

// Judge holds what was read against the promises of the experiment. It is a pure function: the same experiment and history give the same
// Judgement, byte for byte.
func (ix *Facts) Judge() *verdict.Judgement {
	told, _ := ix.Measure()
	return told
}

// Judge reads and judges h, which is whole.
func (r *Judger) Judge(h *history.History) *verdict.Judgement { return r.whole(h).Judge() }

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
		Bands:         slices.Clone(j.ahead.bands),
		Probes:        ix.Summaries(),
	}
	for i := range j.asked {
		r, sample := j.row(&j.asked[i])
		out.SLOs, j.samples = append(out.SLOs, r), append(j.samples, sample)
	}
	out.Expected = j.expected()
	ix.Rests(out.SLOs)
	ix.Rests(out.Expected)
	for _, s := range ix.Shots {
		out.Faults = append(out.Faults, s.Result(ix))
		for _, t := range s.Trials {
			if !t.Void.IsVoid() {
				out.Takeovers = append(out.Takeovers, t.Takeover())
			}
		}
	}
	for i := range ix.Exp.Faults {
		if id := ix.Exp.Faults[i].ID; !slices.ContainsFunc(ix.Shots, func(s *facts.Shot) bool { return s.ID == id }) {
			out.NeverFired = append(out.NeverFired, verdict.NeverFired{ID: id, Shots: ix.ShotsOf(id)})
		}
	}
	out.Takeovers = append(out.Takeovers, ix.Thefts()...)
	j.fill(out)
	out.Unknown = j.unknown()
	out.Rolling = j.rolledOut()
	var outside []verdict.Finding
	out.Predicted, outside = ix.Predicted(out.Takeovers)
	out.Machine = ix.Machine()
	out.HoldersBy, out.Monitor = ix.HoldersBy, ix.Monitor
	out.Findings = append([]verdict.Finding{}, slices.Concat(ix.Findings, j.impossible(), outside, ix.CompareMetrics())...)
	out.Lints = j.lints(out)
	out.Warnings = j.warnings()
	out.ExitCode = j.exit(out)
	out.Verdict = verdict.ExitName(out.ExitCode)
	return out
}

// judging is one judgement in the making.
type judging struct {
	*Judger
	ix     *facts.Facts
	said   *lint.Linter // nil = nobody asks
	status string
	ahead  *beforehand // with the allowance for the first effect after a grant, by the run's calibration

	samples  []verdict.Sample // beside the rows of promises
	figures  map[figureKey]figure
	serieses map[seriesKey]*facts.Series
	at       map[string]counted // by lock
	lacks    *[]verdict.Missing // of the whole run; nil = not asked yet
}

// counted is what is counted at one lock, whatever is asked of it.
type counted struct {
	fencing facts.Fencing
	giveups facts.GiveUps
	dups    facts.Duplicates
	debts   facts.Debts
	spread  []*facts.Distribution
}

// judging begins a judgement.
func (r *Judger) judging(ix *facts.Facts) *judging {
	j := &judging{Judger: r, ix: ix, figures: map[figureKey]figure{}, serieses: map[seriesKey]*facts.Series{}, at: map[string]counted{}}
	j.status = verdict.StatusCutOff
	if end := j.ix.End; end != nil {
		j.status = end.Note.What
	}
	// A grant is answered, work entered and begin written: a few round trips and one timer.
	j.ahead = r.with(tenths(5*time.Duration(j.ix.Cal.RTT99) + time.Duration(j.ix.Cal.Timer99)))
	for _, name := range j.lockNames() {
		j.at[name] = counted{ix.EffectOverlap(name), ix.GiveUpsOf(name), ix.DuplicatesOf(name), ix.DebtsOf(name), ix.DistributionsOf(name)}
	}
	return j
}

// scale is the time scale that the experiment was run at.
func (j *judging) scale() float64 { return cmp.Or(j.ix.Exp.Scaled, 1) }

func (j *judging) run() verdict.RunInfo {
	last := j.ix.Last
	r := verdict.RunInfo{
		ID: j.ix.Header().Run, Experiment: j.ix.Header().Experiment, Status: j.status, Started: j.ix.Header().Started,
		Seconds: facts.Seconds(last), Seed: j.ix.Header().Seed, TimeScale: j.ix.Header().TimeScale, Live: j.ix.Header().Mode == history.Live,
		Labels: j.ix.Header().Labels, Steady: j.steady(), CleanedUp: j.ix.Clean() && j.ix.End != nil && j.ix.End.Note.OK,
	}
	if t, err := time.Parse(time.RFC3339Nano, j.ix.Header().Started); err == nil {
		r.Ended = t.Add(time.Duration(last)).UTC().Format(time.RFC3339Nano)
	}
	return r
}

// fill adds the lists and counts that are reported whether an SLO asks for them or not.
func (j *judging) fill(out *verdict.Judgement) {
	ix := j.ix
	c := &out.Counts
	for _, name := range j.lockNames() {
		f, g, d := j.at[name].fencing, j.at[name].giveups, j.at[name].dups
		for _, level := range []string{verdict.LevelBelief, verdict.LevelWork} {
			if o := ix.TimeOverlap(name, level); o.N > 0 {
				v := o.Range()
				out.Overlap = append(out.Overlap, verdict.Overlap{Lock: name, Level: level, Lo: v.Lo, Hi: v.Hi, Evidence: facts.Cite(o.Evidence...)})
			}
		}
		if why, _ := ix.Exp.Untold(name, "overlap."+verdict.LevelEffect); ix.Ledgered[name] && why == "" {
			hi, seen := float64(f.Hi), f.Sure
			if len(seen) == 0 {
				seen = f.Evidence
			}
			out.Overlap = append(out.Overlap, verdict.Overlap{Lock: name, Level: verdict.LevelEffect, Lo: float64(f.Lo), Hi: &hi, Stale: f.Stale, Unowned: f.Unowned, Evidence: facts.Cite(seen...)})
		}
		out.Abandonments = append(out.Abandonments, g.List...)
		out.Duplicates = append(out.Duplicates, d.List...)
		j.fillUpkeep(out, name)
		again, _ := ix.ReExecuted(name)
		stranded, _, _ := ix.StrandedOf(name)
		vanished, _ := ix.VanishedOf(name)
		c.Vanished += vanished.Lo
		c.VanishedAtMost += vanished.Hi
		c.Jobs += d.Jobs
		c.Finished += d.Finished
		c.TerminalAccepted += d.Accepted
		c.Duplicates += d.Extra
		c.Abandonments += g.Raw
		if l := (&experiments.Limit{Lock: name, Measure: "abandonments"}); j.teller(l) != nil {
			c.Abandonments += int(toldCount(j, l).Lo)
		}
		c.StaleApplied += f.Stale
		c.StaleRefused += f.Refused
		c.UnownedEffects += f.Unowned
		c.OwnerRejected += len(f.OwnerRejected)
		c.ReExecuted += again.Lo
		c.ReExecutedAtMost += again.Hi
		c.Stranded += stranded.Lo
		c.StrandedAtMost += stranded.Hi
	}
	for _, k := range ix.KeyOrder {
		c.FenceRegressions += len(k.Regressions)
	}
	for _, s := range ix.Shots {
		c.NothingOwed += s.NothingOwed
		for _, t := range s.Trials {
			if t.Class == verdict.ClassFalse {
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
	if ix.Torn != "" {
		add("The history is damaged at its end: %s", ix.Torn)
	}
	if ix.Header().Mode == history.Rehearsal {
		add("This is a rehearsal in virtual time. It says nothing about a live system.")
	}
	if s := ix.Header().TimeScale; s != 1 {
		add("Time scale %g: figures are real seconds, held against scaled limits.", s)
	}
	for _, ev := range ix.Exits {
		if r := ev.Replica; !r.Wanted && !ix.HitBy(r.Incarnation) {
			add("%s ended by itself at %s: %s", r.Incarnation, figures.Clock(ev.To), r.Exit)
		}
	}
	for _, ev := range ix.Incarnations {
		lost := "lost its data"
		if ev.Incarnation.Why == "run_id_changed" {
			lost = "was restarted or replaced, and may have lost data,"
		}
		add("The locks' store %s between %s and %s. From then on grants are ordered by time, and fences prove nothing.", lost, figures.Clock(ev.From), figures.Clock(ev.To))
	}
	if ix.FailsOver() {
		add("Redis with asynchronous replication can grant a lock twice after a failover, because it forgets what was not yet replicated.")
	}
	for _, why := range ix.LostLedger {
		add("Entries were lost, so no row can pass: %s", why)
	}
	for _, name := range j.lockNames() {
		if n := len(j.at[name].fencing.OwnerRejected); n > 0 {
			add("Lock %s: the ledger refused %s of the rightful owner, because fences went back.", name, figures.Plural(n, "write"))
		}
	}
	for i := range ix.Exp.System.Locks {
		if l := &ix.Exp.System.Locks[i]; l.Loop() && l.Policy.Loop.Mode != lockcore.LoopExplicit { // others give their keys back before the end, each time
			for _, text := range ix.EarlyEnds(l.Name) {
				add("%s The promise vanished, with belief of the lock, tells these apart.", text)
			}
		}
	}
	for _, l := range j.ahead.lints {
		if !l.OK && !l.Ahead() {
			add("%s %s: %s. %s", l.Rule, l.Of(), l.Text, l.Means)
		}
	}
	for _, a := range ix.Aborts {
		add("The run was aborted at %s: %s", figures.Clock(a.From), abortText(a.Note))
	}
	return ws
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
	add(!ix.Clean() || ix.End != nil && !ix.End.Note.OK, verdict.ExitDirty)
	add(j.status == verdict.StatusError || slices.ContainsFunc(ix.Aborts, broke), verdict.ExitError)
	add(word == verdict.Fail || ix.Exp.System.CheckWorker && refuted(out), verdict.ExitSLOFailed)
	add(j.status == verdict.StatusAborted || ix.End != nil && len(ix.Aborts) > 0, verdict.ExitAborted)
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
	ds := j.at[lock].debts
	out.Counts.OrphanAcquires += ds.Orphans.Lo
	for _, d := range ds.List {
		out.Debts = append(out.Debts, verdict.Debt{
			Lock: lock, Key: d.E.Key, Epoch: d.E.ID, Replica: d.E.Replica, Cause: d.Cause, From: facts.Seconds(d.Start.From), Debt: d.Time.Range(),
			Lateness:  facts.Seconds(d.Late.Time),
			Effective: d.Effective.Range(), WaiterSeconds: d.Waiting.Range(), Evidence: facts.Cite(d.Evidence()...),
		})
	}
	for _, op := range []string{facts.OpRenew, facts.OpRelease} {
		if o := j.ix.NotOwnedOf(lock, op); o.Answered+o.Own > 0 {
			out.NotOwned = append(out.NotOwned, o)
		}
	}
	for _, d := range j.at[lock].spread {
		if len(d.Values) == 0 {
			continue
		}
		at := func(p float64) verdict.Range { return quantile(d.Values, p).Range() }
		out.Distributions = append(out.Distributions, verdict.Distribution{
			Lock: lock, Class: d.Class, Measure: d.Measure, N: len(d.Values), Cut: d.Cut, P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(0),
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
	beforehand          map[time.Duration]*beforehand // by warm-up
}

// beforehand is what the file alone says, with so long a warm-up.
type beforehand struct {
	warmup time.Duration
	bands  []verdict.Band
	lints  []forecast.Lint // in the numbers of the file; their advice leaves room for the warm-up, as the advice of the rows does
	sums   map[sumOf]forecast.PromiseBand
}

// NewJudger prepares for histories of e, which is the experiment as loaded (not scaled).
func NewJudger(e *experiments.Experiment) *Judger {
	scaled, table := experiments.Scale(e), measures()
	if e.Observed() {
		table = seenOnly(table)
	}
	return &Judger{exp: scaled, file: e, asked: scaled.Rows(), expectations: scaled.Expectations(), measures: table, conditions: conditions(),
		beforehand: map[time.Duration]*beforehand{}}
}

// Read takes in h, in one pass. An error is h's.
func (r *Judger) Read(h history.Source) (*Facts, error) {
	said := r.linter(h.Header())
	if said != nil {
		h = history.Tee(h, said.See)
	}
	read, err := facts.Read(r.file, r.exp, h)
	if err != nil {
		return nil, err
	}
	return &Facts{read, r, said}, nil
}

// whole is Read of what is in memory: nothing can go wrong.
func (r *Judger) whole(h *history.History) *Facts {
	read, err := r.Read(h.Source())
	if err != nil {
		panic(err)
	}
	return read
}

// with is what the file says with a warm-up.
func (r *Judger) with(warmup time.Duration) *beforehand {
	b := r.beforehand[warmup]
	if b == nil {
		unscaled := time.Duration(forecast.Unscaled(int64(warmup), cmp.Or(r.exp.Scaled, 1)))
		b = &beforehand{warmup, forecast.Bands(r.exp, warmup), forecast.Lints(r.file, unscaled), map[sumOf]forecast.PromiseBand{}}
		r.beforehand[warmup] = b
	}
	return b
}

// sumOf says what a sum of L3 depends on, beside the experiment and the warm-up.
type sumOf struct {
	lock, measure, class string
	limit                int64
	quantile             float64
}

// told is the band of a measure of a lock after faults of a class, held against a limit.
func (j *judging) told(lock *experiments.Lock, l *experiments.Limit, class string) forecast.PromiseBand {
	of := sumOf{lock.Name, l.Measure, class, l.At, l.Quantile}
	s, known := j.ahead.sums[of]
	if !known {
		s = forecast.PromiseOf(j.exp, lock, l, class, j.ahead.warmup)
		j.ahead.sums[of] = s
	}
	return s
}
