package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// mailer takes no lock.
const mailer = `apiVersion: lockdrill/v1
kind: Experiment
name: mailer
environment: staging
system:
  mode: observe
  replicas: 2
  processes: {match: 'mailer'}
  effects:
    - {name: jobs, file: /var/log/mails, map: {job: job, state: state, terminal: [DONE, FAILED], op: op}, stranded_after: 10s}
slos:
  - {lock: jobs, stranded: {max: 0}}
`

// Jobs under no lock are told apart by their operations, and are late by what the file says.
func TestEffectsAloneAreJudged(t *testing.T) {
	if e, err := experiments.Parse("mailer.yaml", []byte(mailer)); err != nil || forecast.Horizon(e, "jobs") != 10*time.Second || forecast.Horizon(e, "") != 10*time.Second {
		t.Fatalf("a run does not wait until a job is late: %v", err)
	}
	none := func() *experiments.CountLimit { return &experiments.CountLimit{Bound: *experiments.AtMost(0)} }
	twice, again, open := experiments.SLO{DuplicateTerminalStates: none()}, experiments.SLO{ReExecuted: none()}, experiments.SLO{Stranded: none()}
	ended := []said{{job: "1", state: "RUN", op: "a"}, {job: "1", state: "DONE", op: "b"}}
	for _, c := range []struct {
		what string
		slo  experiments.SLO
		from float64
		says []said
		want verdict.Verdict
	}{
		{"one end", twice, 1, ended, verdict.Pass},
		{"a second end", twice, 1, append(ended[:2:2], said{job: "1", state: "DONE", op: "c"}), verdict.Fail},
		{"an end that comes again", twice, 1, append(ended[:2:2], said{job: "1", state: "DONE", op: "b"}), verdict.Pass},
		{"two ends of no operation", twice, 1, []said{{job: "1", state: "DONE"}, {job: "1", state: "DONE"}}, verdict.Inconclusive},
		{"one execution", again, 1, ended, verdict.Pass},
		{"a second execution", again, 1, append(ended[:2:2], said{job: "1", state: "RUN", op: "c"}), verdict.Fail},
		{"a beginning that comes again", again, 1, append(ended[:2:2], said{job: "1", state: "RUN", op: "a"}), verdict.Pass},
		{"a second beginning before any end", again, 1, []said{{job: "1", state: "RUN", op: "a"}, {job: "1", state: "RUN", op: "c"}, {job: "1", state: "DONE", op: "d"}}, verdict.Inconclusive},
		{"beginnings of no operation", again, 1, []said{{job: "1", state: "RUN"}, {job: "1", state: "DONE"}, {job: "1", state: "RUN"}}, verdict.Inconclusive},
		{"ended in time", open, 1, ended, verdict.Pass},
		{"left open", open, 1, append(ended[:2:2], said{job: "2", state: "RUN", op: "c"}), verdict.Fail},
		{"begun when the faults could have come", open, 8, append(ended[:2:2], said{job: "2", state: "RUN", op: "c"}), verdict.Pass},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.slo.Lock = "jobs"
			r, j := struckAsWatched(t, mailer, c.slo, func(tp foreignTape) {
				for i, x := range c.says {
					tp.effect(c.from+0.1*float64(i), want{lock: "jobs", key: "jobs/" + x.job}, x)
				}
			})
			if r.Verdict != c.want {
				t.Errorf("%s: %+v, findings %+v", r.Verdict, r, j.Findings)
			}
			if len(j.Debts) > 0 {
				t.Errorf("debts of a lock that is none: %+v", j.Debts)
			}
			if r.Rests != "" {
				t.Errorf("rests on %s", r.Rests)
			}
			unknown := 0
			for _, u := range j.Unknown {
				if unknown++; u.Lock != "" || u.Measure != "lock_debt" && u.Measure != "overlap" && u.Measure != "abandonments" {
					t.Errorf("unknown of a lock that is none: %+v", u)
				}
			}
			if unknown != 3 {
				t.Errorf("%d measures of locks are unknown where there is none: %+v", unknown, j.Unknown)
			}
		})
	}
}

// Nobody holds anything where effects come about under no lock: a fault counts that struck while a job was open, in the hands of who was
// struck or in nobody's. The death of an idle replica says nothing of what becomes of the jobs of one that dies at work.
func TestEffectsAloneUnderAFault(t *testing.T) {
	stranded := experiments.SLO{Stranded: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}
	twice := experiments.SLO{DuplicateTerminalStates: stranded.Stranded}
	kill, stop := "kill: {count: 1}", "for: 2s, pause: {count: 1}"
	for what, c := range map[string]struct {
		fault   string
		slo     experiments.SLO
		at      float64 // the first state
		says    []said
		reached bool
	}{
		"no fault":                              {"", stranded, 6, []said{{state: "RUN", who: "r1.1"}, {state: "DONE", who: "r2.1"}}, false},
		"a job in its hands":                    {kill, stranded, 6, []said{{state: "RUN", who: "r1.1"}, {state: "DONE", who: "r2.1"}}, true},
		"a job of nobody's":                     {kill, twice, 6, []said{{state: "QUEUED"}, {state: "DONE", who: "r2.1"}}, true},
		"a job of another's":                    {kill, stranded, 6, []said{{state: "RUN", who: "r2.1"}, {state: "DONE", who: "r2.1"}}, false},
		"a job that another had taken over":     {kill, twice, 4, []said{{state: "RUN", who: "r1.1"}, {state: "RUN", who: "r2.1"}, {state: "DONE", who: "r2.1"}}, false},
		"a job that had ended":                  {kill, twice, 4, []said{{state: "RUN", who: "r1.1"}, {state: "DONE", who: "r1.1"}}, false},
		"a job that began later":                {kill, stranded, 9, []said{{state: "RUN", who: "r2.1"}, {state: "DONE", who: "r2.1"}}, false},
		"a job that nobody began in the pause":  {stop, stranded, 8, []said{{state: "QUEUED"}, {state: "DONE", who: "r2.1"}}, true},
		"a job that is due after all, and ends": {kill, stranded, 6, []said{{state: "QUEUED", due: 100}, {state: "DONE", who: "r2.1"}}, true},
		"a job that is due after all":           {kill, stranded, 6, []said{{state: "QUEUED", due: 100}}, false},
		"ends alone, asked for second ones":     {kill, twice, 9, []said{{state: "DONE", who: "r2.1"}}, true},
		"ends alone, asked for lost jobs":       {kill, stranded, 9, []said{{state: "DONE", who: "r2.1"}}, false},
	} {
		file := strings.Replace(mailer, "slos:\n", "faults:\n  - {id: stop, "+cmp.Or(c.fault, kill)+"}\nslos:\n", 1)
		c.slo.Lock = "jobs"
		r, _ := struckAsWatched(t, file, c.slo, func(tp foreignTape) {
			tp.epochs["nobody's"] = &taped{rep: "r1.1"}
			switch c.fault {
			case kill:
				tp.kill(7, "stop#1", "", "nobody's")
			case stop:
				tp.strike(7, 9, "stop#1", "nobody's", history.Fault{Kind: "pause", Declared: 2e9, Expected: 2e9, Observed: 2e9})
			}
			for i, x := range c.says {
				x.job, x.op = "1", fmt.Sprint(i)
				tp.effect(c.at+2*float64(i), want{lock: "jobs", key: "jobs/1"}, x)
			}
		})
		word := map[bool]verdict.Verdict{true: verdict.Pass, false: verdict.Inconclusive}[c.reached]
		code := verdict.MissingStrikes
		if strings.HasSuffix(what, "lost jobs") { // which no strike would show
			code = verdict.MissingOpenJobs
		}
		if lacks := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == code }); r.Verdict != word || lacks == c.reached {
			t.Errorf("%s: %s: %+v", what, r.Verdict, r)
		}
	}
}

// A run of effects alone that ended before a job could be late answers nothing, however its jobs ended.
func TestEffectsAloneAreWaitedFor(t *testing.T) {
	for within, word := range map[string]verdict.Verdict{"100s": verdict.Pass, "200s": verdict.Inconclusive} {
		slo := experiments.SLO{Lock: "jobs", Stranded: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}
		r, _ := struckAsWatched(t, strings.Replace(mailer, "stranded_after: 10s", "stranded_after: "+within, 1), slo, func(tp foreignTape) {
			for i, state := range []string{"RUN", "DONE"} {
				tp.effect(9+float64(i), want{lock: "jobs", key: "jobs/1"}, said{job: "1", state: state, op: state})
			}
		})
		if lacks := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingHorizon }); r.Verdict != word || lacks != (word == verdict.Inconclusive) {
			t.Errorf("stranded after %s: %s: %+v", within, r.Verdict, r)
		}
	}
}

// Who asks of the lock of an idle queue is told how to ask of its jobs.
func TestALockThatNobodyHeldTellsOfIdleQueues(t *testing.T) {
	for lock, told := range map[string]bool{"job": true, "loop": false} {
		slo := experiments.SLO{Lock: lock, Takeover: atMostSeconds(30)}
		if told {
			slo.Takeover, slo.Stranded = nil, &experiments.CountLimit{Bound: *experiments.AtMost(0)}
		}
		idle := strings.Replace(somebodys, "{id: kill-job, kill: {holder_of: job}}", "{id: kill-any, kill: {count: 1}}", 1)
		r, _ := struckAsWatched(t, idle, slo, func(tp foreignTape) { tp.holds(6, 8, pollerKey, "l1", "r1.1") })
		hits := slices.IndexFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingHits })
		if r.Verdict != verdict.Inconclusive || hits < 0 || strings.Contains(r.Missing[hits].Next, "leave lock out of the effects") != told {
			t.Errorf("%s: %s: %+v", lock, r.Verdict, r.Missing)
		}
	}
}

// Where the store did not answer any more, jobs that stay open are nobody's fault.
func TestJobsOfAStoreThatWasLostAreNotStranded(t *testing.T) {
	for _, lost := range []bool{false, true} {
		slo := experiments.SLO{Lock: "jobs", Stranded: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}
		r, _ := struckAsWatched(t, mailer, slo, func(tp foreignTape) {
			tp.effect(1, want{lock: "jobs", key: "jobs/1"}, said{job: "1", state: "RUN", op: "a"})
			if lost {
				tp.add(10, 10, history.Event{Kind: history.RunAbort, Source: "runner", Note: &history.Note{What: history.AbortStoreLost}})
			}
		})
		if (r.Lo == 1) == lost || r.Hi == nil || *r.Hi != 1 || (r.Verdict == verdict.Fail) == lost {
			t.Errorf("lost %t: %s: %g to %v", lost, r.Verdict, r.Lo, r.Hi)
		}
	}
}
