package analysis

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A scheduler of somebody's own: its job locks, its loop, and where it writes what became of jobs and ticks.
const somebodys = `
apiVersion: lockdrill/v1
kind: Experiment
name: somebodys
environment: staging
redis: {mode: external, url: "redis://10.0.0.5:6379"}
system:
  mode: observe
  replicas: 2
  processes: {match: 'scheduler --name (?P<name>\S+)'}
  locks:
    - {name: job, key_prefix: "j:", policy: {ttl: 10s, renew_every: 0s, class: standard, op_timeout: 1s, stop_budget: 1s, release: {mode: single, timeout: 1s}, acquire: {mode: try, timeout: 1s}}}
    - {name: loop, key: poller, policy: {ttl: 10s, renew_every: 0s, class: standard, op_timeout: 1s, stop_budget: 1s, release: {mode: none}, acquire: {mode: try, timeout: 1s}, loop: {poll: 1s, mode: ttl_hold, tick: 50ms}}}
  effects:
    - {name: jobs, lock: job, stream: log, map: {job: job, state: state, terminal: [DONE, FAILED], op: op, token: token, replica: who}}
    - {name: ticks, lock: loop, stream: ticks, map: {token: token}}
faults:
  - {id: kill-job, kill: {holder_of: job}}
slos:
  - {lock: job, takeover: {max: 60s}}
`

// foreign plays a scheduler of somebody's own on a tape. Looks come every 5 ms, reads of effects every 20 ms.
type foreignTape struct{ *tape }

// holds shows a key that its holder has until it lets go, or until its lease of 10 s is over; 0 = it stays.
func (t foreignTape) holds(at, until float64, w want, id, holder string) {
	l := history.Look{Present: true, PTTL: ns(10), Prev: &history.Span{From: ns(at - 5*ms), To: ns(at - 4*ms)}, Holder: holder}
	t.add(at, at+ms, history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Lock: w.lock, Key: w.key, Epoch: id, Look: &l})
	t.epochs[id] = &taped{lock: w.lock, key: w.key, id: id, rep: holder, ttl: 10}
	if until > 0 {
		t.look(until, w, "", 0)
	}
}

// said is an effect of a foreign system: what it does not say is "".
type said struct {
	job, state, op, token, who string
	due                        float64
	streamed                   bool // a line of a log: it is known to be no older than the stream by which it came, and no more
}

func (t foreignTape) effect(at float64, w want, x said) {
	e := &history.Entry{Subject: x.job, State: x.state, Terminal: x.state == "DONE" || x.state == "FAILED", Accepted: true, Writer: x.who, Foreign: true}
	source := "probe:effects:jobs"
	if x.due > 0 {
		e.Due = &history.Span{From: ns(x.due), To: ns(x.due + 0.1)}
	}
	if x.job == "" {
		e.Subject, e.State, e.Loop, source = w.lock, history.StateTick, true, "probe:effects:ticks"
	}
	from := at - 20*ms
	if x.streamed {
		from = 0.2
	}
	t.add(from, at+ms, history.Event{Kind: history.LedgerEntry, Source: source, Lock: w.lock, Key: w.key, Epoch: x.token, Op: x.op, Entry: e})
}

func jobKey(job string) want { return want{"job", "j:" + job, 10} }

var pollerKey = want{"loop", "poller", 10}

// scheduled judges one row of a drill in which r1.1 dies at 10 with the lock of job 1, which it has had since 8.
func scheduled(t *testing.T, slo experiments.SLO, body func(foreignTape)) (verdict.SLOResult, *verdict.Judgement) {
	t.Helper()
	return struckAsWatched(t, somebodys, slo, func(tp foreignTape) {
		tp.holds(8, 18, jobKey("1"), "a1", "r1.1")
		body(tp)
		tp.kill(10, "kill-job#1", "random", "a1")
	})
}

// struckAsWatched judges one row of a drill of the scheduler, of which body tells what happens between 5 and 11.
func struckAsWatched(t *testing.T, file string, slo experiments.SLO, body func(foreignTape)) (verdict.SLOResult, *verdict.Judgement) {
	t.Helper()
	e, err := experiments.Parse("somebodys.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	tp := foreignTape{newTape("a scheduler of somebody's own")}
	tp.events[0].Environment.Fleet = history.FleetObservedProcesses
	tp.start(0.1, "r1.1", "r2.1")
	tp.phase(0.3, history.PhaseSteady)
	tp.phase(5, history.PhaseFaults)
	body(tp)
	tp.phase(11, history.PhaseRevert)
	tp.phase(11, history.PhaseSettle)
	tp.phase(120, history.PhaseFinal)
	for _, p := range []string{experiments.ProbeKeys, "effects:jobs", "effects:ticks"} {
		if keyless := !slices.ContainsFunc(e.System.Locks, func(l experiments.Lock) bool { return !l.Keyless() }); p != experiments.ProbeKeys || !keyless { // no run looks at keys that the file has not
			tp.cover(p, 120)
		}
	}
	tp.add(120.4, 120.4, history.Event{Kind: history.RunEnd, Note: &history.Note{What: "completed", OK: true}})
	h := tp.history(t)
	last := map[string]int64{} // each source counts for itself
	for i := range h.Events {
		if x := h.Events[i].Entry; x != nil {
			last[h.Events[i].Source]++
			x.Pos = last[h.Events[i].Source]
		}
	}
	slo.Lock = cmp.Or(slo.Lock, map[bool]string{true: "loop", false: "job"}[slo.TickGap != nil])
	e.SLOs = []experiments.SLO{slo}
	j := Judge(e, h)
	if len(j.SLOs) == 0 {
		t.Fatalf("no row: %+v", j)
	}
	return j.SLOs[0], j
}

func atMostSeconds(s float64) *experiments.DurationLimits {
	limit := time.Duration(s * float64(time.Second))
	return &experiments.DurationLimits{Bound: experiments.Bound[time.Duration]{Max: &limit}}
}

// taken is a takeover of job 1 by r2.1 at 20, whose first effect is at x.
func taken(x float64, begin, end said) func(foreignTape) {
	return func(t foreignTape) {
		first := begin
		first.token = map[bool]string{true: "a1"}[begin.token != ""]
		if first.who != "" {
			first.who = "r1.1"
		}
		if first.state != "" {
			t.effect(8.05, jobKey("1"), first)
		}
		t.holds(20, x+5, jobKey("1"), "a2", "r2.1")
		if begin.state != "" {
			t.effect(x, jobKey("1"), begin)
		}
		t.effect(x+4, jobKey("1"), end)
	}
}

func TestATakeoverEndsWithTheFirstEffectOfTheNextEpoch(t *testing.T) {
	begin, end := said{job: "1", state: "RUNNING"}, said{job: "1", state: "DONE"}
	token := func(s said) said { s.token = "a2"; return s }
	who := func(s said) said { s.who = "r2.1"; return s }
	for _, c := range []struct {
		name       string
		begin, end said
		want       string // what ended it, by what it is known, on what it rests
		x          float64
	}{
		{"tokens", token(begin), token(end), "effect token keys + effects", 21},
		{"writers", who(begin), who(end), "effect replica keys + effects", 21},
		{"neither", begin, end, "effect holder keys + effects", 21},
		{"ends alone", said{}, token(end), "grant  keys", 20},
	} {
		for _, limit := range []float64{c.x - 10 + 0.5, c.x - 10 - 0.5} {
			row, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(limit)}, taken(21, c.begin, c.end))
			if len(j.Takeovers) != 1 {
				t.Fatalf("%s: %+v\n%s", c.name, j.Takeovers, row.Why)
			}
			v := j.Takeovers[0]
			if got := v.End + " " + string(v.By) + " " + row.Rests; got != c.want || v.Lo > c.x-10 || *v.Hi < c.x-10 || *v.Hi-v.Lo > 0.1 {
				t.Errorf("%s: [%g, %g] %s", c.name, v.Lo, *v.Hi, got)
			}
			red := limit < c.x-10
			if red != (row.Verdict == verdict.Fail) {
				t.Errorf("%s, limit %g: %s: %s", c.name, limit, row.Verdict, row.Why)
			}
		}
	}
}

// When somebody's own service tries a job again is in no policy: a late retry is no riddle, and the timings guarantee nothing.
func TestTheRetryOfAForeignJobIsNotInTheSum(t *testing.T) {
	begin, end := said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"}
	row, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(12)}, taken(25, begin, end)) // ttl 10s, and two calls of 1s
	if row.Verdict != verdict.Fail || !strings.Contains(row.Why, "plus the time until the service tries the job again") ||
		strings.Contains(row.Why, "something else") || !strings.Contains(row.Next, "Look at the pickup") {
		t.Errorf("%s: %s %s", row.Verdict, row.Why, row.Next)
	}
	for _, b := range j.Bands {
		if (b.Untold != "") != (b.Lock == "job") { // of the loop its poll is told
			t.Errorf("%+v", b)
		}
	}
}

// Lines of logs come by a stream, and bear no time that could be held against ours: they are younger than the grant of their token.
func TestLinesAreYoungerThanTheGrantOfTheirToken(t *testing.T) {
	begin, end := said{job: "1", state: "RUNNING", token: "a2", streamed: true}, said{job: "1", state: "DONE", token: "a2", streamed: true}
	_, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(60)}, taken(21, begin, end))
	if len(j.Takeovers) != 1 || j.Takeovers[0].Lo < 9.9 || j.Takeovers[0].Lo > 10 || *j.Takeovers[0].Hi < 11 {
		t.Errorf("takeovers %+v, want one from the grant, 10 s after the kill, to the line", j.Takeovers)
	}
	row, _ := scheduled(t, experiments.SLO{Stranded: count(0)}, func(tp foreignTape) {
		taken(21, begin, end)(tp)
		tp.holds(119, 0, jobKey("9"), "z", "r2.1")
		tp.effect(119.1, jobKey("9"), said{job: "9", state: "RUNNING", token: "z", streamed: true})
	})
	if row.Verdict != verdict.Pass {
		t.Errorf("a job that was begun just now: %s: %s", row.Verdict, row.Why)
	}
}

// A stale write of the one that died is no takeover, if it says whose it is.
func TestAnEffectOfTheVictimEndsNothing(t *testing.T) {
	row, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(60)}, func(tp foreignTape) {
		taken(50, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
		tp.effect(21, jobKey("1"), said{job: "1", state: "RUNNING", token: "a1"})
	})
	if v := j.Takeovers[0]; v.Lo < 39 || row.Verdict != verdict.Pass {
		t.Errorf("[%g, %v] %s %s", v.Lo, v.Hi, row.Verdict, row.Why)
	}
}

func count(n int) *experiments.CountLimit {
	return &experiments.CountLimit{Bound: *experiments.AtMost(n)}
}

// Ends, open jobs and work that is done again, as the effects of somebody's own scheduler tell them. What is missing is said in the words of a
// system that is observed: its source, its map, its states.
func TestJobsOfAForeignSystem(t *testing.T) {
	ends, open := experiments.SLO{DuplicateTerminalStates: count(0)}, experiments.SLO{Stranded: count(0)}
	again := func(most int) experiments.SLO { return experiments.SLO{ReExecuted: count(most)} }
	job := func(state, token, op string) said { return said{job: "1", state: state, token: token, op: op} }
	over := taken(21, job("RUNNING", "a2", ""), job("DONE", "a2", "o1"))
	and := func(more func(foreignTape)) func(foreignTape) {
		return func(tp foreignTape) { over(tp); more(tp) }
	}
	wrote := func(at float64, x said) func(foreignTape) {
		return func(tp foreignTape) { tp.effect(at, jobKey(x.job), x) }
	}
	beside := func(tp foreignTape) { // another job, of which all was seen
		tp.holds(12, 14, jobKey("2"), "b1", "r2.1")
		tp.effect(13, jobKey("2"), said{job: "2", state: "DONE", token: "b1"})
	}
	begun := wrote(8.05, job("RUNNING", "a1", ""))
	const longer = "Promise one that is longer than a job takes"
	for _, c := range []struct {
		name string
		slo  experiments.SLO
		body func(foreignTape)
		want verdict.Verdict
		code verdict.MissingCode
		says string
	}{
		{"one end", ends, over, verdict.Pass, "", ""},
		{"the same operation again", ends, and(wrote(25.5, job("DONE", "a2", "o1"))), verdict.Pass, "", ""},
		{"another operation", ends, and(wrote(25.5, job("DONE", "a2", "o2"))), verdict.Fail, "", ""},
		{"another state", ends, and(wrote(25.5, job("FAILED", "a2", ""))), verdict.Fail, "", ""},
		{"by another epoch", ends, and(wrote(25.5, job("DONE", "a3", ""))), verdict.Fail, "", ""},
		{"by the same, without operations", ends, and(wrote(25.5, job("DONE", "a2", ""))), verdict.Inconclusive, verdict.MissingOperations, ""},
		{"by nobody known", ends, and(wrote(25.5, job("DONE", "", ""))), verdict.Inconclusive, verdict.MissingOperations, ""},
		{"entries that the source lost", ends, and(func(tp foreignTape) {
			tp.add(30, 31, history.Event{Kind: history.StoreIncarnation, Source: "probe:effects:jobs", Incarnation: &history.Incarnation{Store: "effects:jobs", Life: 2, Why: history.EntriesLost}})
		}), verdict.Inconclusive, verdict.MissingLedger, "rotate a file by renaming it"},
		{"no entry", open, func(foreignTape) {}, verdict.Inconclusive, verdict.MissingForeignJobs, "`map` fits"},
		{"no entry, ends asked for", ends, func(foreignTape) {}, verdict.Inconclusive, verdict.MissingForeignJobs, "`map` fits"},
		{"no end", ends, begun, verdict.Inconclusive, verdict.MissingForeignEnds, "map.terminal"},

		{"finished", open, over, verdict.Pass, "", ""},
		{"begun and left", open, func(tp foreignTape) { begun(tp); beside(tp) }, verdict.Fail, "", ""},
		{"taken over, and still worked at", open, func(tp foreignTape) {
			begun(tp)
			tp.holds(115, 0, jobKey("1"), "a2", "r2.1")
		}, verdict.Inconclusive, "", longer},
		{"nothing was seen of it but its lock", open, beside, verdict.Inconclusive, "", longer},
		{"one that came later is open", open, and(func(tp foreignTape) {
			tp.holds(119, 0, jobKey("9"), "z", "r2.1")
			tp.effect(119.1, jobKey("9"), said{job: "9", state: "RUNNING", token: "z"})
		}), verdict.Pass, "", ""},

		{"what was cut off is done again", again(1), over, verdict.Pass, "", ""},
		{"it may have been done nearly", again(0), over, verdict.Inconclusive, "", ""},
		{"what was finished is done again", again(0), and(func(tp foreignTape) {
			tp.holds(40, 45, jobKey("1"), "a3", "r2.1")
			tp.effect(41, jobKey("1"), job("RUNNING", "a3", ""))
		}), verdict.Fail, "", ""},
		{"begun again by nobody known", again(1), and(wrote(60, job("RUNNING", "", ""))), verdict.Inconclusive, verdict.MissingWriters, ""},
	} {
		row, _ := scheduled(t, c.slo, c.body)
		if row.Verdict != c.want || c.code != "" && !has(row.Missing, c.code) || !strings.Contains(row.Why+" "+row.Next, c.says) || row.Rests != verdict.RestsOnEffects {
			t.Errorf("%s: %s [%g, %v], rests on %s: %s %s %v", c.name, row.Verdict, row.Lo, row.Hi, row.Rests, row.Why, row.Next, row.Missing)
		}
	}
}

// An effect that says no writer, at the moment at which the key changes hands, may be either's: it accuses nobody.
func TestStaleEffectsOfAForeignSystemAreSomebodys(t *testing.T) {
	for _, c := range []struct {
		name, token string
		stale       int
	}{{"the victim's, by its token", "a1", 1}, {"nobody's", "", 0}} {
		_, j := scheduled(t, experiments.SLO{Stranded: count(0)}, func(tp foreignTape) {
			taken(21, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
			tp.holds(26.01, 0, jobKey("1"), "a3", "r2.1")
			tp.effect(26.012, jobKey("1"), said{job: "1", state: "RUNNING", token: c.token})
		})
		if j.Counts.StaleApplied != c.stale {
			t.Errorf("%s: %d stale, want %d", c.name, j.Counts.StaleApplied, c.stale)
		}
	}
}

// Whoever works without the lock is the first suspect where nobody is seen to hold it.
func TestNoSteadyStateButWorkOfAForeignSystem(t *testing.T) {
	for _, c := range []struct {
		token, holder, next string
		lacks               history.Unsteady
	}{{"", "  holder: [{log: {pattern: '(?P<key>\\S+) (?P<token>\\S+)'}}]\n", "Check the lock's key, and system.holder: lockdrill plan shows what each of its sources says", history.NoKnownHolder},
		{"a1", "", "1 effect came from replicas that did not own their lock", history.NoKnownHolder},
		{"a1", "", "1 effect came from replicas that did not own their lock", ""}, // such as a lock that is never renewed
		{"", "", "Check the lock's key, and how the name in it leads to a process. lockdrill plan lists the processes and their names. 1 effect may have come from replicas that did not own the lock", history.NoKnownHolder}} {
		file := strings.Replace(somebodys, "  effects:\n", c.holder+"  effects:\n", 1)
		file = strings.Replace(file, "scheduler --name (?P<name>\\S+)'", "scheduler --name (?P<name>\\S+)', log: '/log/{name}'", 1)
		_, j := struckAsWatched(t, file, experiments.SLO{Stranded: count(0)}, func(tp foreignTape) {
			tp.holds(8, 18, jobKey("1"), "a1", "r1.1")
			tp.kill(10, "kill-job#1", "random", "a1")
			tp.effect(30, jobKey("1"), said{job: "1", state: "RUNNING", token: c.token}) // its lease was over at 18
			for i := range tp.events {
				if ph := tp.events[i].Phase; ph != nil && ph.Name == history.PhaseFaults {
					no := false
					ph.Holds, ph.Lacks = &no, c.lacks
				}
			}
		})
		for _, m := range j.Missing {
			if !strings.HasPrefix(m.Next, c.next) {
				t.Errorf("token %q, %q: %s: %s", c.token, c.lacks, m.Code, m.Next)
			}
		}
		if len(j.Missing) == 0 {
			t.Error("nothing was missing")
		}
	}
}

// The loop's ticks, one a second, stop with its holder, which dies with the job's.
func TestTicksOfAForeignLoop(t *testing.T) {
	for _, c := range []struct {
		resumes, stops, again, limit float64
		straddles                    bool
		want                         verdict.Verdict
	}{
		{20, 120, 0, 14, false, verdict.Pass}, {30, 120, 0, 14, false, verdict.Fail}, {20, 120, 0, 5, false, verdict.Fail}, {20, 120, 0, 5, true, verdict.Fail},
		{20, 40, 0, 14, false, verdict.Fail},          // it hangs, and holds its lock to the end
		{20, 40, 60, 14, false, verdict.Fail},         // or for 20s
		{20, 40, 50, 14, false, verdict.Pass},         // or for 10s, which is no longer than the limit
		{20, 107, 0, 14, false, verdict.Inconclusive}, // 13s so far, longer than any before
		{20, 112, 0, 14, false, verdict.Pass},         // or 9s so far: no longer than one that ended
	} {
		row, j := scheduled(t, experiments.SLO{TickGap: atMostSeconds(c.limit)}, func(tp foreignTape) {
			taken(21, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
			tp.holds(6, 16, pollerKey, "l1", "r1.1")
			for at := 6.5; at < 9.6; at++ {
				tp.effect(at, pollerKey, said{token: "l1"})
			}
			if c.straddles {
				tp.effect(10.01, pollerKey, said{who: "r9.1"}) // nobody that is known
			}
			tp.holds(c.resumes-1, 0, pollerKey, "l2", "r2.1")
			for at := c.resumes; at < 119; at++ {
				if at < c.stops || c.again > 0 && at >= c.again {
					tp.effect(at, pollerKey, said{token: "l2"})
				}
			}
		})
		if row.Verdict != c.want {
			t.Errorf("%+v: %s [%g, %v] %s %+v", c, row.Verdict, row.Lo, row.Hi, row.Why, j.Takeovers)
		}
	}
}

// An entry that says that a job waits is nobody's who holds its lock, where the file says which states show a holder at work.
func TestAnOfferIsNoEffectOfAHolder(t *testing.T) {
	none := experiments.SLO{Overlap: &experiments.OverlapLimit{Level: verdict.LevelEffect, Count: *experiments.AtMost(0)}}
	for name, c := range map[string]struct {
		begin string // of the map
		offer said
		want  verdict.Verdict
		says  string
	}{
		"an offer":                 {", begin: [RUN]", said{state: "QUEUED"}, verdict.Pass, ""},
		"every state is work":      {"", said{state: "QUEUED"}, verdict.Inconclusive, "map.begin"},
		"work that names nobody":   {", begin: [RUN]", said{state: "RUN"}, verdict.Inconclusive, ""},
		"an end that names nobody": {", begin: [RUN]", said{state: "FAILED"}, verdict.Inconclusive, ""},
		"what a replica wrote":     {", begin: [RUN]", said{state: "QUEUED", who: "r2.1"}, verdict.Inconclusive, ""},
	} {
		file := strings.Replace(somebodys, "replica: who", "replica: who"+c.begin, 1)
		r, _ := struckAsWatched(t, file, none, func(tp foreignTape) {
			c.offer.job = "1"
			tp.effect(7, jobKey("1"), c.offer)
			tp.holds(8, 18, jobKey("1"), "a1", "r1.1")
			tp.effect(8.5, jobKey("1"), said{job: "1", state: "RUN", op: "b", token: "a1", who: "r1.1"})
			tp.kill(10, "kill-job#1", "random", "a1")
			tp.holds(20, 21, jobKey("1"), "a2", "r2.1")
			tp.effect(20.5, jobKey("1"), said{job: "1", state: "DONE", op: "c", token: "a2", who: "r2.1"})
		})
		if r.Verdict != c.want || !strings.Contains(r.Next, c.says) {
			t.Errorf("%s: %s: %s %s", name, r.Verdict, r.Why, r.Next)
		}
	}
}

// Where a pause cost nobody the lock, nobody could collide: no overlap is answered, and the advice is a longer pause.
func TestAPauseThatCostsNoLeaseShowsNoOverlap(t *testing.T) {
	file := strings.Replace(somebodys, "{id: kill-job, kill: {holder_of: job}}", "{id: stop, for: 2s, pause: {holder_of: loop}}", 1)
	for _, level := range []experiments.OverlapLimit{{Level: verdict.LevelLease, Time: *experiments.AtMost(time.Duration(0))}, {Level: verdict.LevelEffect, Count: *experiments.AtMost(0)}} {
		for succeeded, want := range map[bool]verdict.Verdict{false: verdict.Inconclusive, true: verdict.Pass} {
			r, _ := struckAsWatched(t, file, experiments.SLO{Lock: "loop", Overlap: &level}, func(tp foreignTape) {
				tp.holds(6, map[bool]float64{true: 16}[succeeded], pollerKey, "l1", "r1.1")
				tp.effect(6.5, pollerKey, said{token: "l1", who: "r1.1"})
				tp.strike(7, 9, "stop#1", "l1", history.Fault{Kind: "pause", Declared: 2e9, Expected: 2e9, Observed: 2e9})
				if succeeded {
					tp.holds(17, 27, pollerKey, "l2", "r2.1")
					tp.effect(17.5, pollerKey, said{token: "l2", who: "r2.1"})
				} else {
					tp.look(10, pollerKey, "l1", 10)
					tp.effect(10.5, pollerKey, said{token: "l1", who: "r1.1"})
				}
			})
			if r.Verdict != want || strings.HasPrefix(r.Next, "Let the fault outlast the lease (`for` above the ttl of 10s)") == succeeded {
				t.Errorf("%s, succeeded %t: %s: %s %s", level.Level, succeeded, r.Verdict, r.Why, r.Next)
			}
		}
	}
}
