package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func asExit(err error, to **exec.ExitError) bool { return errors.As(err, to) }

// span is a range in seconds; Hi is nil where nobody saw the end.
type span struct {
	Lo float64  `json:"lo"`
	Hi *float64 `json:"hi"`
}

// MarshalJSON leaves out what is finer than a tenth of a millisecond.
func (s span) MarshalJSON() ([]byte, error) {
	hi := "null"
	if s.Hi != nil {
		hi = fmt.Sprint(round(*s.Hi))
	}
	return fmt.Appendf(nil, `{"lo":%v,"hi":%s}`, round(s.Lo), hi), nil
}

func round(s float64) float64 { return math.Round(s*1e4) / 1e4 }

// figures are what one run of a cell showed.
type figures struct {
	Error    string   `json:"error,omitempty"`    // why there was no run
	Verdict  string   `json:"verdict,omitempty"`  // of lockdrill, of the limits in drills.go
	Broken   []string `json:"broken,omitempty"`   // the measures that failed
	Open     []string `json:"open,omitempty"`     // the measures that were not answered
	Void     string   `json:"void,omitempty"`     // shots that did not count, and why
	Takeover []span   `json:"takeover,omitempty"` // one a shot
	Belief   *span    `json:"belief,omitempty"`   // holder-seconds beyond one, of the whole run
	Work     *span    `json:"work,omitempty"`     //
	Stale    int      `json:"stale,omitempty"`    // effects of a superseded holder that the ledger took
	Unowned  int      `json:"unowned,omitempty"`  // effects after the loss of the key, that the ledger took
	Refused  int      `json:"refused,omitempty"`  // effects that the fence kept out
	Orphaned *span    `json:"orphaned,omitempty"` // longest time that a key stayed taken with nobody who used it
	Orphans  int      `json:"orphans,omitempty"`  // grants whose answer nobody got
	Notice   []span   `json:"notice,omitempty"`   // from the fault, or from the end of a pause, until the loser knows; Hi nil: never in this run
	Gap      *span    `json:"gap,omitempty"`      // the longest time without a tick of anybody, from the first fault to the end
	Phantoms int      `json:"-"`                  // grants whose ids the store never showed
	Owners   int      `json:"owners,omitempty"`   // changes of the lock in etcd's own log, with which the looks agree
	Ended    int      `json:"ended,omitempty"`    // replicas whose process ended by itself
	Jobs     int      `json:"jobs,omitempty"`     // finished, of a queue
	Twice    int      `json:"twice,omitempty"`    // ends of jobs beyond the first
	Again    []span   `json:"again,omitempty"`    // from the fault until the end of each job that the struck worker had begun
	Left     int      `json:"left,omitempty"`     // such jobs that were not done when the run ended
	Begun    int      `json:"begun,omitempty"`    // begins of jobs beyond the first
	Findings int      `json:"findings,omitempty"` // contradictions between what the worker said and what the store showed
	Late     float64  `json:"late,omitempty"`     // seconds for which the machine stood still, at worst
	Blind    bool     `json:"blind,omitempty"`    // the machine kept a probe from looking for so long that rows are open
}

type event struct {
	Kind, Source, Epoch, Op string
	From, To                int64
	Fault                   struct{ ID, Victim string }
	Phase                   struct{ Name string }
	Call                    struct{ ID, Result string }
	Replica                 struct {
		Wanted bool
		Exit   string
	}
	Entry struct {
		Subject, Writer, State   string
		Loop, Terminal, Accepted bool
	}
}

// lack is what a row was not answered for.
type lack struct{ Code string }

// blind reports that a probe was late for what it had to see: such a run is repeated.
func blind(lacks []lack) bool { return slices.Contains(lacks, lack{"looks"}) }

// measure reads a run's folder. missed says that a shot at a named replica struck one that held no key, or that held one where it was to wait;
// where it strikes a call to come, that is all one.
func measure(dir string, d drill) (f figures, missed bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		return f, false, fmt.Errorf("no verdict")
	}
	var v struct {
		Verdict string
		SLOs    []struct {
			Measure, Verdict string
			Lo               float64
			Hi               *float64
			N                int
			Why              string
			Lacks            []lack
		}
		Faults []struct {
			ID        string
			Confirmed bool
			Why       string
			Void      bool
		}
		Takeovers []struct {
			span
			Fault, Class string
			Censored     bool
		}
		Counts struct {
			StaleApplied, StaleRefused, UnownedEffects, OrphanAcquires, Finished, Duplicates int
		}
		Findings []struct{}
		Machine  struct{ Worst float64 }
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return f, false, err
	}
	f.Verdict = v.Verdict
	for _, s := range v.SLOs {
		name := strings.TrimSuffix(s.Measure, ".max")
		switch s.Verdict {
		case "fail":
			f.Broken = append(f.Broken, name)
		case "inconclusive":
			f.Open = append(f.Open, name)
			f.Blind = f.Blind || blind(s.Lacks)
		}
		part := &span{Lo: s.Lo, Hi: s.Hi}
		switch {
		case name == "overlap.belief":
			f.Belief = part
		case name == "overlap.work":
			f.Work = part
		case name == "lock_debt":
			f.Orphaned = part
		}
	}
	for _, t := range v.Takeovers {
		if t.Fault == "" { // it has no beginning
			continue
		}
		if !t.Censored {
			f.Takeover = append(f.Takeover, t.span)
		} else {
			f.Takeover = append(f.Takeover, span{Lo: t.Lo})
		}
	}
	void := map[string]int{}
	for _, s := range v.Faults {
		if s.Void || !s.Confirmed {
			void[s.Why]++
		}
	}
	for why, n := range void {
		f.Void = strings.TrimPrefix(f.Void+"; "+fmt.Sprintf("%d x %s", n, why), "; ")
	}
	f.Stale, f.Refused, f.Unowned, f.Orphans = v.Counts.StaleApplied, v.Counts.StaleRefused, v.Counts.UnownedEffects, v.Counts.OrphanAcquires
	f.Findings, f.Late = len(v.Findings), round(v.Machine.Worst)
	f.Jobs, f.Twice = v.Counts.Finished, v.Counts.Duplicates
	missed, err = f.walk(filepath.Join(dir, "history.jsonl"), d)
	return f, missed, err
}

// walk finds in the history, for each shot that was applied to a holder, how long it took until that holder said that it relies on the key
// no more, and the longest time between two ticks.
func (f *figures) walk(file string, d drill) (missed bool, err error) {
	in, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = in.Close() }()
	type shot struct {
		epoch            string
		from             event
		known, confirmed bool
		notice           span
	}
	var open []*shot
	var tick *event
	running := false
	jobs := map[string]*jobOf{}
	granted, shown := map[string]bool{}, map[string]bool{}
	holds := map[string]string{} // the epoch that an incarnation says it holds
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Kind {
		case "replica.exit":
			if running && !e.Replica.Wanted && e.Replica.Exit != "signal: killed" { // as by a hook
				f.Ended++
			}
		case "acquire.return":
			granted[e.Call.ID] = granted[e.Call.ID] || e.Call.Result == "granted"
			if e.Call.Result == "granted" {
				holds[e.Source] = e.Epoch
			}
		case "look":
			shown[e.Epoch] = true
		case "run.phase":
			running = e.Phase.Name != "final" && (running || e.Phase.Name == "faults")
		case "ledger.entry":
			if e.Entry.Accepted && !e.Entry.Loop {
				f.job(jobs, e)
			}
			if e.Entry.State != "tick" || !e.Entry.Accepted {
				continue
			}
			if tick != nil && running {
				if hi := float64(e.To-tick.From) / 1e9; f.Gap == nil || hi > *f.Gap.Hi {
					f.Gap = &span{Lo: max(0, float64(e.From-tick.To)/1e9), Hi: &hi}
				}
			}
			tick = &e
		case "fault.applied":
			for _, j := range jobs {
				if e.Fault.ID == "f" && !j.done && (j.by == e.Fault.Victim || e.Fault.Victim == "store") {
					j.struck = &e
				}
			}
			if !strings.HasPrefix(e.Fault.ID, "f") {
				continue
			}
			epoch := cmp.Or(e.Epoch, holds[e.Fault.Victim]) // a shot at a replica names none
			named := e.Epoch == "" && e.Fault.Victim != "" && e.Fault.Victim != "store" && !d.often
			missed = missed || named && (epoch == "") == (d.name != "waiter-paused")
			if epoch != "" && !d.often { // there nobody loses its key by the fault
				open = append(open, &shot{epoch: epoch, from: e})
			}
		case "fault.confirmed":
			for _, s := range open {
				if s.from.Op != e.Op {
					continue
				}
				s.confirmed = true
				if d.resumes {
					s.from = event{From: e.To, To: e.To, Op: e.Op}
				}
			}
		case "fence.observed", "abandon", "release.invoke":
			delete(holds, e.Source)
			for _, s := range open {
				if running && !s.known && s.epoch == e.Epoch {
					s.known = true
					hi := float64(e.To-s.from.From) / 1e9
					s.notice = span{Lo: max(0, float64(e.From-s.from.To)/1e9), Hi: &hi}
				}
			}
		}
	}
	for _, j := range jobs {
		if j.struck != nil && !j.done {
			f.Left++
		}
	}
	for id, yes := range granted {
		if yes && id != "" && !shown[id] {
			f.Phantoms++
		}
	}
	for _, s := range open {
		if s.confirmed && (s.known || d.name != "holder-killed") {
			f.Notice = append(f.Notice, s.notice)
		}
	}
	return missed, nil
}

// String is the line that is printed when a run is over.
func (f figures) String() string {
	if f.Error != "" {
		return "no run: " + f.Error
	}
	parts := []string{f.Verdict}
	add := func(name, text string) {
		if text != "" {
			parts = append(parts, name+" "+text)
		}
	}
	add("broken:", strings.Join(f.Broken, " "))
	add("open:", strings.Join(f.Open, " "))
	add("void:", f.Void)
	add("takeover", ranges(f.Takeover))
	add("belief", one(f.Belief))
	add("orphaned", one(f.Orphaned))
	add("gap", one(f.Gap))
	add("noticed", ranges(f.Notice))
	add("struck jobs done after", ranges(f.Again))
	if f.Jobs > 0 {
		add("jobs/twice/begun again", fmt.Sprintf("%d/%d/%d", f.Jobs, f.Twice, f.Begun))
	}
	if f.Stale+f.Unowned+f.Refused > 0 {
		add("stale/unowned/refused", fmt.Sprintf("%d/%d/%d", f.Stale, f.Unowned, f.Refused))
	}
	if f.Findings > 0 {
		add("findings", fmt.Sprint(f.Findings))
	}
	return strings.Join(parts, "; ")
}

// ranges is the least and the greatest of all, "" for none.
func ranges(all []span) string {
	if len(all) == 0 {
		return ""
	}
	lo, hi, open := all[0].Lo, 0.0, false
	for _, s := range all {
		lo = min(lo, s.Lo)
		if s.Hi == nil {
			open = true
		} else {
			hi = max(hi, *s.Hi)
		}
	}
	if !open {
		return between(lo, hi)
	}
	known := slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.Hi == nil })
	if len(known) == 0 {
		return "not in the run"
	}
	return ranges(known) + " or not in the run"
}

func one(s *span) string {
	if s == nil || s.Hi != nil && *s.Hi < 0.05 {
		return ""
	}
	return ranges([]span{*s})
}

func between(lo, hi float64) string {
	if a, b := seconds(lo), seconds(hi); a != b {
		return a + " to " + b + " s"
	}
	return seconds(hi) + " s"
}

func seconds(s float64) string {
	if s < 0.095 {
		return fmt.Sprintf("%.2f", s)
	}
	return fmt.Sprintf("%.1f", s)
}
