package e2e

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// stress is one drill of the stress test: everything about it follows from its seed.
type stress struct {
	seed       uint64
	e          *experiments.Experiment
	rows       []int // of stressRows
	theirRedis bool  // the locks live in a Redis that the test starts
	theirProxy bool  // the ways go by a Toxiproxy that the test starts

	end   ending
	after time.Duration // from the start to what ends it, at the latest
	lines int           // or, if not 0, until the journal has so many lines
	again time.Duration // from the first interrupt to the second; from the runner's death to its watchdog's
}

// ending is how a run of the stress test comes to its end.
type ending string

const (
	endsAlone       ending = "alone"
	endsByInterrupt ending = "interrupt"
	endsByTwo       ending = "two interrupts"
	endsByKill      ending = "kill -9, the watchdog undoes"
	endsByRace      ending = "kill -9, watchdog and recover undo at once"
	endsByBoth      ending = "kill -9 of watchdog and runner, recover undoes"
	endsByUndoing   ending = "kill -9 of runner, and of the watchdog while it undoes, recover undoes"
)

// stressBed is what the faults of a timeline strike: a loop that is held throughout, and jobs.
const stressBed = `apiVersion: lockdrill/v1
kind: Experiment
name: stress
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 3
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 800ms
        renew_every: 200ms
        class: standard
        op_timeout: 100ms
        stop_budget: 20ms
        release: {mode: single, timeout: 100ms}
        acquire: {mode: try, timeout: 100ms}
        loop: {poll: 50ms, mode: renewed, tick: 10ms}
` + jobLock + jobWork + `steady_state: {for: 200ms, timeout: 5s}
faults:
  - {id: placeholder, at: 0s, kill: {holder_of: loop}}
probes:
  lock_keys: {every: 20ms, max_gap: 1s}
  ledger: {every: 20ms, max_gap: 1s}
limits: {max_kills: 100, max_run: 30s}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
  - {lock: job, duplicate_terminal_states: {max: 0}}
`

// stressRow is a fault of a timeline. AIM is the holder of a lock, a replica or all of them, LOCK a lock, MS some time, and what stands
// between | is one of those.
type stressRow struct {
	fault           string
	instant, theirs bool // it has no duration; somebody's Redis bears it
}

var stressRows = []stressRow{
	{"kill: {holder_of: loop, phase: after_renew|before_renew|random}", true, true},
	{"kill: {holder_of: job, on: acquired}", true, true},
	{"pause: {holder_of: loop|holder_of: job|replica: r1|replica: r2}", false, true},
	{"clock: {AIM, offset: MS|-MS|7s|-7s}", false, true},
	{"delete_key: {holder_of: LOCK}", true, true},
	{"delete_key: {holder_of: LOCK, to: stranger}", false, true},
	{"renew_failures: {AIM, mode: error|timeout|lost_reply, via: worker|proxy}", false, true},
	{"renew_failures: {all: true, lock: LOCK, mode: delay, delay: MS, via: worker|proxy, count: 1|2|3}", false, true},
	{"acquire_failures: {AIM, mode: error|timeout|lost_reply, via: worker|proxy, count: 1|2|3}", false, true},
	{"acquire_failures: {AIM, mode: delay, delay: MS, via: worker|proxy, share: 0.5}", false, true},
	{"release_failures: {AIM, mode: error|timeout|lost_reply, via: worker|proxy, share: 0.5}", false, true},
	{"release_failures: {AIM, mode: delay, delay: MS, via: worker|proxy}", false, true},
	{"latency: {AIM, add: MS, stream: upstream|downstream|both}", false, true},
	{"latency: {AIM, add: 100ms, jitter: 50ms, stream: upstream|downstream|both}", false, true},
	{"jitter: {AIM, by: MS, stream: upstream|downstream|both}", false, true},
	{"bandwidth: {AIM, rate: 1|7|20, stream: upstream|downstream|both}", false, true},
	{"slow_close: {AIM, delay: MS, stream: upstream|downstream|both}", false, true},
	{"black_hole: {AIM}", false, true},
	{"reset: {AIM}", false, true},
	{"down: {AIM}", false, true},
	{"store: {do: pause}", false, true},
	{"store: {do: flush}", true, true},
	{"store: {do: freeze}", false, false},
	{"store: {do: stop, keep: true|false}", false, false},
	{"store: {do: restart, keep: true|false}", true, false},
	{"store: {do: failover, lag: MS}", true, false},
}

// dice make a timeline.
type dice struct {
	*rand.Rand
	longest time.Duration // a fault lasts at most so long
	theirs  bool          // the Redis is not the run's own
	ways    bool          // one fault at least is of the network
}

// timelineOf is the timeline of a seed.
func timelineOf(t *testing.T, seed uint64) stress {
	t.Helper()
	e, err := experiments.Parse("stress.yaml", []byte(stressBed))
	must(t, err)
	d := dice{Rand: rand.New(rand.NewPCG(seed, 4)), longest: 1500 * time.Millisecond}
	l := stress{seed: seed, e: e, end: endsAlone, theirRedis: d.IntN(3) == 0, theirProxy: d.IntN(3) == 0}
	if d.IntN(4) > 0 {
		l.end = one(d, endsByInterrupt, endsByTwo, endsByKill, endsByRace, endsByBoth, endsByUndoing)
		if l.after = d.between(0, 4*time.Second); d.IntN(2) == 0 {
			l.lines, l.after = 1+d.IntN(40), 6*time.Second
		}
		if l.again = d.between(0, 400*time.Millisecond); d.IntN(2) == 0 {
			l.again /= 20
		}
		if d.IntN(2) == 0 { // what is undone too late would not end by itself
			d.longest = 20 * time.Second
		}
	}
	if d.theirs, d.ways = l.theirRedis, l.theirProxy; l.theirRedis {
		e.Redis = experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://127.0.0.1:1", Allow: []string{"pause", "flush", "delete_key"}}
	}
	if l.theirProxy {
		e.Proxy = experiments.Proxy{Mode: experiments.ProxyExternal, URL: "http://127.0.0.1:1"}
	}
	e.System.Replicas = 2 + d.IntN(2)
	e.System.Locks[0].Policy.TTL = d.between(600*time.Millisecond, time.Second)
	e.Seed = 1 + int64(d.IntN(1<<30))
	e.Faults, l.rows = d.faults(t, 2+d.IntN(3))
	for i := range e.Faults {
		for j := range i {
			e.AllowOverlap = append(e.AllowOverlap, [2]string{e.Faults[j].ID, e.Faults[i].ID})
		}
	}
	return l
}

// faults are so many that can be in effect together, and their rows.
func (d dice) faults(t *testing.T, n int) (all []experiments.Fault, rows []int) {
	t.Helper()
	choice := regexp.MustCompile(`[^{,:]*: [^{,}]*\|[^,}]*`)
	for len(all) < n {
		at := d.IntN(len(stressRows))
		row := stressRows[at]
		if d.theirs && !row.theirs {
			continue
		}
		text := strings.ReplaceAll(row.fault, "AIM", "holder_of: loop|holder_of: job|all: true|replica: r1|replica: r2")
		text = strings.NewReplacer("LOCK", "loop|job", "MS", d.between(50*time.Millisecond, 150*time.Millisecond).String()).Replace(text)
		text = choice.ReplaceAllStringFunc(text, func(field string) string {
			key, _, _ := strings.Cut(field, ": ")
			of := strings.Split(strings.TrimPrefix(field, key+": "), "|")
			if picked := of[d.IntN(len(of))]; !strings.Contains(picked, ": ") {
				return key + ": " + picked
			} else {
				return picked
			}
		})
		lasts := ""
		if !row.instant {
			lasts = fmt.Sprintf(", for: %s", d.between(300*time.Millisecond, d.longest))
		}
		line := fmt.Sprintf("{id: f%d, at: %s%s, repeat: {count: 1, every: settled}, %s}", len(all)+1, d.between(0, time.Second), lasts, text)
		e, err := experiments.Parse("stress.yaml", []byte(edit(t, stressBed, "{id: placeholder, at: 0s, kill: {holder_of: loop}}", line)))
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		f := e.Faults[0]
		if d.ways && len(all) == 0 && !f.Net() || slices.ContainsFunc(all, func(o experiments.Fault) bool { return fault.Collide(o.Spec, f.Spec) != "" }) {
			continue
		}
		all, rows = append(all, f), append(rows, at)
	}
	return all, rows
}

// between is a whole number of milliseconds from lo to hi.
func (d dice) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(d.Int64N(int64(hi-lo)))).Round(time.Millisecond)
}

func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// The stress test makes every fault, ends in every way, and writes nothing that a file may not say.
func TestLiveTimelinesAreLegalAndMakeEverything(t *testing.T) {
	t.Parallel()
	rows, ends := map[int]bool{}, map[ending]bool{}
	for seed := range uint64(300) {
		l := timelineOf(t, seed)
		data, err := experiments.Marshal(l.e)
		must(t, err)
		if _, err := experiments.Parse("stress.yaml", data); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, data)
		}
		ends[l.end] = true
		for _, row := range l.rows {
			rows[row] = true
		}
	}
	if len(rows) != len(stressRows) || len(ends) != 7 {
		t.Errorf("300 timelines have faults of %d rows of %d, and %d ends of 7", len(rows), len(stressRows), len(ends))
	}
}
