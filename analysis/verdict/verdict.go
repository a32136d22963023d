// Package verdict holds what a judgement says, as values: ranges, verdicts, the rows of verdict.json and what they stand on, and the
// exit statuses with their precedence. It concludes nothing: the judge is package analysis.
// Its one invariant: the same Judgement marshals to the same bytes, and old documents stay readable.
package verdict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// VerdictVersion is the schema version of verdict.json.
const VerdictVersion = 1

// Verdict of an SLO or a run. The worst wins: Fail over Inconclusive over Pass.
type Verdict string

const (
	Pass         Verdict = "pass"
	Inconclusive Verdict = "inconclusive"
	Fail         Verdict = "fail"
)

// Worst is the worse of two verdicts.
func Worst(a, b Verdict) Verdict {
	for _, v := range []Verdict{Fail, Inconclusive} {
		if a == v || b == v {
			return v
		}
	}
	return Pass
}

// Range is a measured quantity in seconds (or a count): the truth lies within [Lo, Hi]; Hi nil = open.
type Range struct {
	Lo float64  `json:"lo"`
	Hi *float64 `json:"hi"`
}

// Judgement is verdict.json: everything that was concluded, with evidence as event numbers of history.jsonl.
// Durations are seconds; open ends are null. Slices are never null.
type Judgement struct {
	SchemaVersion int              `json:"schemaVersion"`
	Run           RunInfo          `json:"run"`
	Sources       *Sources         `json:"sources,omitempty"` // absent where nothing was read from files
	Verdict       string           `json:"verdict"`           // pass, slo-failed, inconclusive, aborted, dirty, error (the exit code's name)
	ExitCode      int              `json:"exitCode"`
	Missing       []Missing        `json:"lacks"` // why no question of this run was reached, whatever the row
	SLOs          []SLOResult      `json:"slos"`
	Expected      []SLOResult      `json:"expected,omitempty"` // what the faults had to provoke: passed or inconclusive
	Faults        []FaultResult    `json:"faults"`
	NeverFired    []NeverFired     `json:"neverFired,omitempty"` // declared faults of which no shot was fired
	Takeovers     []Takeover       `json:"takeovers"`
	Counts        Counts           `json:"counts"`
	Unknown       []Unknown        `json:"unknown,omitempty"` // what counts and lists of this document leave open
	Overlap       []Overlap        `json:"overlap"`
	Rolling       []RollingRestart `json:"rollingRestarts,omitempty"`
	Abandonments  []Abandonment    `json:"abandonments"`
	Duplicates    []Duplicate      `json:"duplicates"`
	Debts         []Debt           `json:"debts"`
	NotOwned      []NotOwned       `json:"notOwned"`
	Distributions []Distribution   `json:"distributions"`
	Bands         []Band           `json:"bands"`     // the sums: what takeover can be, lock by lock
	Predicted     []Predicted      `json:"predicted"` // what rehearsals of the same file gave before the drill
	Probes        []ProbeSummary   `json:"probes"`
	HoldersBy     map[string]int   `json:"holdersBy,omitempty"` // epochs of an observed system, by the source that named their holder
	Monitor       *MonitorCost     `json:"monitor,omitempty"`   // windows of MONITOR
	Machine       *LateMachine     `json:"machine,omitempty"`   // where the runner's machine was late
	Findings      []Finding        `json:"findings"`            // contradictions between claims and evidence
	Lints         []Lint           `json:"lints,omitempty"`     // lines of a worker of somebody's own that break the worker protocol
	Warnings      []string         `json:"warnings"`
}

// Sources are the bytes that a judgement was made from: "sha256:" and 64 hex digits each.
type Sources struct {
	Experiment string `json:"experiment"` // experiment.yaml
	History    string `json:"history"`    // history.jsonl
}

// Units of an SLO's figures.
const (
	UnitSeconds = "s"
	UnitCount   = "count"
	UnitRatio   = "ratio" // 0 to 1, written in percent
	UnitValue   = "value" // of a metric, in its own unit
)

// Infinite stands in documents for infinity, which JSON has not, and its negative for that below: a metric may have shown it.
const Infinite = math.MaxFloat64

// Ask says on which side of its limit a figure must stay.
type Ask = experiments.Side

const (
	AtMost  = experiments.SideMost
	AtLeast = experiments.SideLeast
	Exactly = experiments.SideExact
)

// Against is another lock of the run whose figure is the measure of a row's own.
type Against struct {
	Lock  string   `json:"lock"`
	Share float64  `json:"share"` // the row's limit is this share of it
	Lo    float64  `json:"lo"`
	Hi    *float64 `json:"hi"`
}

// SLOResult is one row: an SLO with several limits (max and p95) gives a row for each.
type SLOResult struct {
	Fault    string    `json:"fault,omitempty"` // of an expectation: counted for each of its confirmed shots
	Lock     string    `json:"lock"`
	Measure  string    `json:"measure"` // takeover.max, takeover.p95, duplicate_terminal_states, overlap.belief, abandonment.missed ...
	Unit     string    `json:"unit"`    // one of the Unit constants
	Ask      Ask       `json:"ask,omitempty"`
	Limit    float64   `json:"limit"`    // of a row that compares: what surely keeps it
	Declared float64   `json:"declared"` // the limit as the file has it, before time_scale
	Lo       float64   `json:"lo"`
	Hi       *float64  `json:"hi"`
	N        int       `json:"n"`
	Of       string    `json:"of"`               // what n counts, in the singular: kill, job, epoch, effect ...
	Bound    *float64  `json:"bound,omitempty"`  // "0 of n": upper 95% bound of the rate, where it means something
	BoundN   int       `json:"boundN,omitempty"` // the n of that bound: independent faults that exposed the lock
	Verdict  Verdict   `json:"verdict"`
	Why      string    `json:"why"`
	Next     string    `json:"next"`
	Lateness float64   `json:"lateness,omitempty"` // of lo, the seconds that a late machine may have made, at most
	Missing  []Missing `json:"lacks"`              // what Why and Next were put together from, where the question was not reached
	Evidence []int64   `json:"evidence"`           // event numbers, the most telling first, capped
	Rests    string    `json:"rests,omitempty"`    // of an observed system: one of the Rests words

	Against *Against `json:"against,omitempty"` // a row that compares two locks: the other one

	Question *experiments.Limit `json:"-"` // what the row asks, as values
	Unfit    bool               `json:"-"` // the question cannot be answered in this run, whatever was measured
}

// What a row about a system that is not ours rests on.
const (
	RestsOnKeys    = "keys"
	RestsOnEffects = "keys + effects"
	RestsOnBelief  = "keys + belief"
	RestsOnSignals = "signals"
)

// Attribution is what says which epoch an effect of a foreign system belongs to.
type Attribution string

const (
	ByToken   Attribution = "token"   // it says it
	ByFence   Attribution = "fence"   // it has the fence of one that is known
	ByReplica Attribution = "replica" // its writer held the key, or had held it last
	ByHolder  Attribution = "holder"  // who held the key then is taken for its writer
)

// Name tells the row apart from others on the same measure: takeover.max, abandonments.min, unowned_work.of.OTHER, expect.FAULT.busy.count.min.
func (s *SLOResult) Name() string {
	name := s.Measure
	if word := map[Ask]string{AtLeast: ".min", Exactly: ".exactly"}[s.Ask]; !strings.HasSuffix(name, word) {
		name += word
	}
	if s.Against != nil {
		name += ".of." + s.Against.Lock
	}
	if s.Fault != "" {
		name = "expect." + s.Fault + "." + name
	}
	return name
}

// Rows are the promises, and what the faults had to provoke, in the order of the file.
func (j *Judgement) Rows() []SLOResult { return slices.Concat(j.SLOs, j.Expected) }

// FaultResult is one shot of a fault.
type FaultResult struct {
	ID        string  `json:"id"`
	Shot      int     `json:"shot"`
	Shots     int     `json:"shots"` // how many the file declares of this fault
	Kind      string  `json:"kind"`
	Victim    string  `json:"victim"` // incarnation, or "store"; "" where it struck several
	Lock      string  `json:"lock"`   // whose holder it was aimed at; "" = nobody's
	Key       string  `json:"key"`
	Declared  *Window `json:"declared"`  // when the timeline meant it: null where "settled" decided
	Effective *Window `json:"effective"` // confirmed, null where it was not
	Confirmed bool    `json:"confirmed"`
	Void      bool    `json:"void"`
	Why       string  `json:"why"`
	Hits      int64   `json:"hits"`

	Form       string   `json:"form,omitempty"`    // variant within the kind: error, lost_reply; flush, restart; downstream
	Via        string   `json:"via,omitempty"`     // bursts: worker or proxy
	Victims    []string `json:"victims,omitempty"` // incarnations, where it struck several, or their ways to the store
	Want       int64    `json:"want,omitempty"`    // operations that it was to hit; absent = bounded by time only
	Configured string   `json:"configured,omitempty"`
	// What was measured from outside, in seconds: round trip to the store (network), standstill (pause), offset (clock).
	Baseline *float64 `json:"baseline,omitempty"` // before the fault
	Expected *float64 `json:"expected,omitempty"` // during it, by what is configured; network: at least so long; absent = no answer
	Observed *float64 `json:"observed,omitempty"` // during it; absent = no answer, or not measured

	Death *Death `json:"death,omitempty"` // kills of pods
}

// Death is what was seen of the end of a pod's process, in seconds of the run.
type Death struct {
	Call   Window  `json:"call"`         // the request that was to end it
	Object *Window `json:"object"`       // the API object was gone; null = not seen, or not asked for
	Sign   float64 `json:"sign"`         // the last sign of life: it surely lived then
	End    *Window `json:"end"`          // the process had surely ended at `to`; null = nobody saw it
	By     string  `json:"by,omitempty"` // what showed the end: status, log_stream, successor
	Means  string  `json:"means"`        // api, worker, exec
}

// Window is a stretch of the run, in seconds since its origin.
type Window struct {
	From float64  `json:"from"`
	To   *float64 `json:"to"`
}

// Classes of a takeover.
const (
	ClassCrash    = fault.ClassCrash
	ClassPause    = fault.ClassPause
	ClassHandOver = fault.ClassHandOver
	ClassRecovery = "recovery"
	ClassTheft    = fault.ClassTheft
	ClassStore    = fault.ClassStore
	ClassFalse    = "false"
)

// Takeover is one trial value: one exposed epoch of one confirmed fault. A theft that no fault of the run explains has no fault, and
// its value is what the store still owed the holder.
type Takeover struct {
	Lock      string   `json:"lock"`
	Key       string   `json:"key"`
	Fault     string   `json:"fault"` // "kill-holder#3"
	Victim    string   `json:"victim"`
	Successor string   `json:"successor"` // "" while censored
	Lo        float64  `json:"lo"`
	Hi        *float64 `json:"hi"`
	Residual  *Range   `json:"residual"` // fault until lease end
	Pickup    *Range   `json:"pickup"`   // until the next grant
	Warmup    *Range   `json:"warmup"`   // until the first effect
	Class     string   `json:"class"`
	End       string   `json:"end"` // what ended it: effect, grant, renewal (the victim's own lease went on), censored
	Censored  bool     `json:"censored"`
	// By is what says that the effect of a foreign system that ended it is the successor's.
	By      Attribution `json:"by,omitempty"`
	Trace   string      `json:"trace,omitempty"` // W3C traceparent of that effect, as its writer says
	TickGap *Range      `json:"tickGap"`         // loops: last accepted tick before the fault to anyone's next
	Idle    bool        `json:"idle,omitempty"`  // loops: the victim was between ticks
	// How late the machine was meanwhile, at most: seconds.
	Lateness     float64 `json:"lateness,omitempty"`
	TickLateness float64 `json:"tickLateness,omitempty"`
	Evidence     []int64 `json:"evidence"`
}

// Whole is the takeover itself as a range.
func (t *Takeover) Whole() Range { return Range{Lo: t.Lo, Hi: t.Hi} }

// TakeoverPart is one of those that a takeover is made of.
type TakeoverPart struct {
	Name string
	Long *Range // nil = not seen
}

// Names of the parts, the same in every table, picture and metric.
const (
	PartResidual = "left of the lease"
	PartPickup   = "pickup"
	PartWarmup   = "warm-up"
)

// PartNames are they, in their order.
func PartNames() [3]string { return [3]string{PartResidual, PartPickup, PartWarmup} }

// Parts are those that t is made of, in their order.
func (t *Takeover) Parts() [3]TakeoverPart {
	return [3]TakeoverPart{{PartResidual, t.Residual}, {PartPickup, t.Pickup}, {PartWarmup, t.Warmup}}
}

// Counts of the run.
type Counts struct {
	Jobs             int `json:"jobs"`
	Finished         int `json:"finished"`
	TerminalAccepted int `json:"terminalAccepted"`
	Duplicates       int `json:"duplicates"`
	Abandonments     int `json:"abandonments"`
	StaleApplied     int `json:"staleApplied"`
	StaleRefused     int `json:"staleRefused"`
	UnownedEffects   int `json:"unownedEffects"`
	ReExecuted       int `json:"reExecuted"`       // surely
	ReExecutedAtMost int `json:"reExecutedAtMost"` // with those whose earlier execution was cut off
	Stranded         int `json:"stranded"`         // surely
	StrandedAtMost   int `json:"strandedAtMost"`   // with what the run did not last to see finished
	FenceRegressions int `json:"fenceRegressions"`
	OwnerRejected    int `json:"ownerRejected"`
	FalseTakeovers   int `json:"falseTakeovers"`
	NothingOwed      int `json:"nothingOwed"`
	OrphanAcquires   int `json:"orphanAcquires"`
	// Keys that ended before their leases did, and nobody is known to have released: surely, and with those that may have been released.
	Vanished       int `json:"vanished,omitempty"`
	VanishedAtMost int `json:"vanishedAtMost,omitempty"`
}

// Overlap of one lock at one level.
type Overlap struct {
	Lock     string   `json:"lock"`
	Level    string   `json:"level"` // belief, work, lease, effect
	Lo       float64  `json:"lo"`    // excess holder-seconds; effect: a count
	Hi       *float64 `json:"hi"`
	Stale    int      `json:"stale,omitempty"`
	Unowned  int      `json:"unowned,omitempty"`
	Evidence []int64  `json:"evidence"`
}

// Abandonment is one epoch that was given up, or should have been.
type Abandonment struct {
	Lock     string  `json:"lock"`
	Key      string  `json:"key"`
	Epoch    string  `json:"epoch"`
	Replica  string  `json:"replica"`
	Reason   string  `json:"reason"`   // count, deadline, not_owned, context; "" = never given up
	Timing   string  `json:"timing"`   // timely, late, missed, undetermined
	Need     string  `json:"need"`     // needed, needless, undetermined; "" = never given up
	FenceLag *Range  `json:"fenceLag"` // work stop - validity end; Lo may be negative
	Unowned  Range   `json:"unowned"`  // seconds of work past lease end
	Evidence []int64 `json:"evidence"`
}

// Debt is one key that stayed taken after nobody needed it any more. Unseen grants, of which nobody knows whether they were, have
// lo 0.
type Debt struct {
	Lock          string  `json:"lock"`
	Key           string  `json:"key"`
	Epoch         string  `json:"epoch"`
	Replica       string  `json:"replica"`
	Cause         string  `json:"cause"` // release_failed, kept_after_work, release_skipped_after_abandon, orphan_acquire, renew_after_exit
	From          float64 `json:"from"`  // of the run: the work's exit, or the orphaned acquire's return
	Debt          Range   `json:"debt"`
	Effective     Range   `json:"effective"`          // of that, while somebody waited for the key
	WaiterSeconds Range   `json:"waiterSeconds"`      // what all who waited waited then
	Lateness      float64 `json:"lateness,omitempty"` // how late the machine was meanwhile, at most: seconds
	Evidence      []int64 `json:"evidence"`
}

// NotOwned is what one operation of a lock was answered.
type NotOwned struct {
	Lock     string  `json:"lock"`
	Op       string  `json:"op"`       // renew, release
	Answered int     `json:"answered"` // yes, or "not yours"
	Absent   int     `json:"absent"`   // not yours: the key was gone
	Other    int     `json:"other"`    // not yours: it was another's
	Own      int     `json:"own"`      // not yours after a release of one's own: counted nowhere else
	Ratio    float64 `json:"ratio"`    // (absent + other) / answered
	Evidence []int64 `json:"evidence"`
}

// Distribution is how long the holds, or the waits, of the jobs of one class were.
type Distribution struct {
	Lock    string `json:"lock"`
	Class   string `json:"class"`   // "" = no class
	Measure string `json:"measure"` // held, wait
	N       int    `json:"n"`       // holds, or waits (those of none included)
	Cut     int    `json:"cut"`     // holds that ended with their holder's death: not in n
	P50     Range  `json:"p50"`
	P95     Range  `json:"p95"`
	P99     Range  `json:"p99"`
	Max     Range  `json:"max"`
}

// Band is the sum of L3 for one lock: what takeover can be at the kill phase that the file declares.
type Band struct {
	Lock string  `json:"lock"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
	Sum  string  `json:"sum"` // the sum in words and numbers
	// Untold is what hi leaves out.
	Untold string `json:"untold,omitempty"`
}

// Predicted is the band in which rehearsals of the same file, at the same time scale, had the takeovers of one lock and one class.
type Predicted struct {
	Lock    string   `json:"lock"`
	Class   string   `json:"class"`
	Seeds   int64    `json:"seeds"`  // rehearsed drills
	Values  int64    `json:"values"` // takeovers in them
	Lo      float64  `json:"lo"`
	P50     float64  `json:"p50"`
	P95     float64  `json:"p95"`
	Hi      *float64 `json:"hi"`      // null: in some seed the end was not seen
	Margin  float64  `json:"margin"`  // what either end is uncertain by: seconds
	Outside int      `json:"outside"` // of the values of this run: surely not within the band and its margin
}

// Marshal gives verdict.json: deterministic bytes that end in a newline.
func (j *Judgement) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(j); err != nil {
		return nil, fmt.Errorf("marshal verdict: %w", err)
	}
	return b.Bytes(), nil
}
