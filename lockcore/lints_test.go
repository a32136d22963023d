package lockcore_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// policyOf is a shipped profile's.
func policyOf(t *testing.T, name string) lockcore.Policy {
	t.Helper()
	l, err := experiments.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Policy
}

// What the lints say of the published policies: which sums do not hold, and in which numbers.
func TestLintsOfTheProfiles(t *testing.T) {
	for name, want := range map[string]map[string]string{ // by rule: how the sum begins
		"cordum/scheduler-job":        {"L1": "acquire 2s + 3 failures * 20s + op timeout 2s = 64s, over ttl 60s; a deleted key is noticed after 40s to 62s"},
		"cordum/workflow-run":         {"L1": "class legacy_warn never gives up"},
		"cordum/approval":             {"L4": "wait 2s, under ttl 10s"},
		"cordum/scheduler-reconciler": {"L1": "class legacy_warn never gives up", "L5": "ttl_hold: one replica runs every 60s (poll 30s * 2)"},
		"cordum/pending-replayer":     {"L5": "ttl_hold: one replica runs every 60s (poll 30s * 2)"},
		"cordum/workflow-reconciler":  {"L5": "ttl_hold: one replica runs every 10s (poll 5s * 2)"},
		"cordum/delay-poller":         {"L5": "ttl_hold: one replica runs every 10s (poll 5s * 2)"},
		"cordum/snapshot-writer":      {},
		"kubernetes/leader-election":  {"L2": "until a renewal is sent 7s + op timeout 5s + stop budget 3s = 15s, exactly ttl 15s"},
		"lockdrill/critical":          {"L4": "wait 10s, under ttl 30s"},
		"lockdrill/standard":          {"L4": "wait 10s, under ttl 30s"},
		"lockdrill/continuity":        {"L4": "wait 10s, under ttl 30s"},
	} {
		got := map[string]string{}
		for _, s := range lockcore.Lints(policyOf(t, name), lockcore.Facts{Contenders: 3, WorkP99: 4 * time.Second}) {
			if s.OK != (s.Means == "") {
				t.Errorf("%s %s: OK %t, and it means %q", name, s.Rule, s.OK, s.Means)
			}
			if !s.OK {
				got[s.Rule] = s.Text
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for rule, text := range want {
			if !strings.HasPrefix(got[rule], text) {
				t.Errorf("%s %s: %q, want %q", name, rule, got[rule], text)
			}
		}
	}
}

func TestLintsOneByOne(t *testing.T) {
	const s = time.Second
	base := policyOf(t, "lockdrill/critical")
	for _, c := range []struct {
		name, rule string
		change     func(*lockcore.Policy)
		facts      lockcore.Facts
		ok         bool
	}{
		{"two failures of the published policy are safe", "L1", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/scheduler-job"); p.MaxFailures = 2 }, lockcore.Facts{}, true},
		{"exactly the ttl", "L1", func(p *lockcore.Policy) { p.TTL = 27300 * time.Millisecond }, lockcore.Facts{}, true},
		{"a millisecond less", "L1", func(p *lockcore.Policy) { p.TTL = 27299 * time.Millisecond }, lockcore.Facts{}, false},
		{"jitter counts", "L1", func(p *lockcore.Policy) { p.RenewJitter = 0.5 }, lockcore.Facts{}, false},
		{"a renewal may be answered later than the first one is sent", "L1", func(p *lockcore.Policy) { p.OpTimeout, p.RenewEvery, p.TTL = 5*s, s, 16*s }, lockcore.Facts{}, false},
		{"and the ttl has room for it", "L1", func(p *lockcore.Policy) { p.OpTimeout, p.RenewEvery, p.TTL = 5*s, s, 16300*time.Millisecond }, lockcore.Facts{}, true},
		{"a lost renewal hangs for longer than the interval", "L2", func(p *lockcore.Policy) { p.OpTimeout, p.RenewEvery, p.TTL = 5*s, s, 11300*time.Millisecond }, lockcore.Facts{}, false},
		{"one renewal a lease", "L2", func(p *lockcore.Policy) { p.RenewEvery = 15 * s }, lockcore.Facts{}, false},
		{"the second renewal comes just in time", "L2", func(p *lockcore.Policy) { p.TTL = 25301 * time.Millisecond }, lockcore.Facts{}, true},
		{"a millisecond late", "L2", func(p *lockcore.Policy) { p.TTL = 25300 * time.Millisecond }, lockcore.Facts{}, false},
		{"a wait as long as the lease", "L4", func(p *lockcore.Policy) { p.Acquire.Budget = p.TTL }, lockcore.Facts{}, true},
		{"no multiple", "L5", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/delay-poller"); p.TTL = 11 * s }, lockcore.Facts{}, true},
		{"a jittered poll", "L5", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/delay-poller"); p.Loop.Jitter = 0.1 }, lockcore.Facts{}, true},
		{"sixteen who wait for an approval", "L6", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/approval") }, lockcore.Facts{Contenders: 16}, false},
		{"sixteen in line for an approval", "L6", func(p *lockcore.Policy) {
			*p = policyOf(t, "cordum/approval")
			p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffWake, Every: 25 * time.Millisecond, Cap: 2 * s}
		}, lockcore.Facts{Contenders: 16}, true},
		{"a thousand in line, who ask in between", "L6", func(p *lockcore.Policy) {
			p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffWake, Every: 25 * time.Millisecond, Cap: 2 * s}
		}, lockcore.Facts{Contenders: 1000}, false},
		{"work of 9s in a lease of 10s", "L7", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/approval") }, lockcore.Facts{WorkP99: 9 * s}, false},
		{"a tick of 9s in a lease of 10s", "L7", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/delay-poller"); p.Loop.Tick = 9 * s }, lockcore.Facts{}, false},
		{"401 replicas at a poll of 1s", "L6", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/delay-poller"); p.Loop.Poll = s }, lockcore.Facts{Contenders: 401}, false},
		{"with a measured jitter of 1s", "L7", func(p *lockcore.Policy) { *p = policyOf(t, "cordum/approval") }, lockcore.Facts{WorkP99: 9 * s, Jitter: s}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := base
			c.change(&p)
			for _, sum := range lockcore.Lints(p, c.facts) {
				if sum.Rule == c.rule {
					if sum.OK != c.ok {
						t.Errorf("OK %t, want %t: %s", sum.OK, c.ok, sum.Text)
					}
					return
				}
			}
			t.Errorf("%s does not apply", c.rule)
		})
	}
}

// The count that L1 calls the largest safe one is: it holds, and one more does not.
func TestLargestSafeCount(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		p := policyOf(t, "cordum/scheduler-job")
		p.RenewEvery = time.Duration(1 + rng.Int64N(int64(p.TTL)))
		p.OpTimeout = time.Duration(rng.Int64N(int64(10 * time.Second)))
		for p.MaxFailures = 1; lockcore.GiveUpSum(p) <= p.TTL; p.MaxFailures++ {
		}
		sum := lockcore.Lints(p, lockcore.Facts{})[0]
		if want := "The largest safe count here is " + string(rune('0'+p.MaxFailures-1)); p.MaxFailures < 10 && !strings.HasSuffix(sum.Means, want+".") {
			t.Fatalf("renewed every %s: %s, want %s", p.RenewEvery, sum.Means, want)
		}
	}
}

// What the sums say is what the machine does, in whichever way its calls are answered: when a count has given up (L1), whether a lost renewal costs the
// lock (L2), and how long a deleted key goes unnoticed (L1). What such an end costs is shown in every order of events by lockcore/explore.
func TestSumsAreWhatTheMachineDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	said := func(p lockcore.Policy, rule string) (all []lockcore.Sum) {
		for _, s := range lockcore.Lints(p, lockcore.Facts{}) {
			if s.Rule == rule {
				all = append(all, s)
			}
		}
		return all
	}
	sides := map[string]int{}
	for range 2000 {
		p := policyOf(t, "cordum/scheduler-job")
		p.RenewEvery, p.RenewJitter = between(time.Second, 30*time.Second), rng.Float64()/2
		p.OpTimeout, p.Acquire.Timeout = between(time.Millisecond, 40*time.Second), between(time.Millisecond, 5*time.Second)
		p.MaxFailures = 1 + rng.IntN(5)
		var got time.Duration
		for answered := range 2 { // it hangs from the first renewal on, or from the second
			at, sent, _ := ends(t, p, func(c *lockcore.Call, n int, _ time.Duration) (lockcore.Result, bool) {
				return map[bool]lockcore.Result{true: lockcore.OK, false: lockcore.Unknown}[c.Op == lockcore.OpAcquire || n < answered], true
			})
			got = max(got, at-sent)
		}
		want := lockcore.GiveUpSum(p)
		if got > want || want-got > time.Millisecond {
			t.Fatalf("%+v gives up at %s, the sum says %s", p, got, want)
		}
		if safe := said(p, "L1")[0].OK; safe != (want <= p.TTL) {
			t.Fatalf("L1 says %t of %s in %s", safe, want, p.TTL)
		}

		p = policyOf(t, "lockdrill/standard")
		p.RenewEvery, p.OpTimeout, p.RenewJitter = between(p.TTL/20, p.TTL*2/3), between(time.Millisecond, p.TTL/4), 0
		p.Drift, p.StopBudget, p.Acquire.Timeout = between(1, p.TTL/10), between(1, p.TTL/5), between(time.Millisecond, p.TTL/5)
		safe, survives := true, true
		for _, s := range said(p, "L2") {
			safe = safe && s.OK
		}
		for answered := range 2 {
			_, _, why := ends(t, p, func(c *lockcore.Call, n int, _ time.Duration) (lockcore.Result, bool) {
				return map[bool]lockcore.Result{true: lockcore.Unknown, false: lockcore.OK}[c.Op == lockcore.OpRenew && n == answered], n <= answered && (c.Op == lockcore.OpRenew || answered == 0)
			})
			survives = survives && why == ""
		}
		if sides[fmt.Sprint("L2 ", safe)]++; safe != survives {
			t.Fatalf("L2 says %t, the lock survives a lost renewal: %t: %+v", safe, survives, p)
		}

		p.Class = []lockcore.Class{lockcore.LegacyCount, lockcore.Critical, lockcore.Standard}[rng.IntN(3)]
		p.RenewEvery, p.RenewJitter, p.MaxFailures = between(p.TTL/20, p.TTL*2/5), 0, 1+rng.IntN(4)
		if p.Class == lockcore.Standard {
			p.MaxFailures = 0
		}
		slow, deleted, granted := rng.IntN(2) == 0, between(1, 2*p.TTL), time.Duration(0)
		at, _, why := ends(t, p, func(c *lockcore.Call, _ int, now time.Duration) (lockcore.Result, bool) {
			if c.Op == lockcore.OpAcquire && slow {
				granted = c.Deadline
			}
			return map[bool]lockcore.Result{true: lockcore.Absent, false: lockcore.OK}[c.Op == lockcore.OpRenew && now >= deleted], slow
		})
		least, most := noticed(t, said(p, "L1"))
		if lag := at - max(deleted, granted); why == lockcore.ReasonDeadline {
			sides["noticed by the clock"]++
		} else if sides["noticed by a call"]++; lag < least-most/100 || lag > most+most/100 { // the figures of a sentence are rounded
			t.Fatalf("noticed after %s by %s, L1 says %s to %s: %+v", lag, why, least, most, p)
		}
	}
	if t.Logf("%v", sides); sides["L2 true"] == 0 || sides["L2 false"] == 0 || sides["noticed by a call"] < 100 {
		t.Error("one side was never asked")
	}
}

// noticed reads L1's sentence on how long a deleted key goes unnoticed.
func noticed(t *testing.T, sums []lockcore.Sum) (least, most time.Duration) {
	t.Helper()
	m := regexp.MustCompile(`a deleted key is noticed (?:after (\S+) to|within) (\S+)$`).FindStringSubmatch(sums[0].Text)
	if m == nil {
		t.Fatalf("L1 does not say when a deleted key is noticed: %+v", sums)
	}
	least, err := time.ParseDuration(cmp.Or(m[1], "0s"))
	most, err2 := time.ParseDuration(m[2])
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return least, most
}

// ends plays a machine: each call is answered as told, at once or at its deadline; n counts renewals. It returns when the lock was given up, when its last success
// was sent, and why; "" = not within some leases.
func ends(t *testing.T, p lockcore.Policy, answer func(c *lockcore.Call, n int, now time.Duration) (result lockcore.Result, late bool)) (at, sent time.Duration, why lockcore.Reason) {
	t.Helper()
	m, now, n := lockcore.NewMachine(p), time.Duration(0), 0
	in, replied := lockcore.Input{Kind: lockcore.Start}, time.Duration(0)
	var reply *lockcore.Input
	for now < 20*p.TTL {
		in.Rand = 1 - 1e-9
		for _, a := range m.Step(lockcore.Instant{Mono: now, Wall: now, Boot: now}, in, nil) {
			switch a.Kind {
			case lockcore.ActFence:
				return now, sent, a.Reason
			case lockcore.ActDo:
				result, late := answer(&a.Call, n, now)
				if a.Call.Op == lockcore.OpRenew {
					n++
				}
				if result == lockcore.OK {
					sent = now
				}
				reply, replied = &lockcore.Input{Kind: lockcore.Reply, Call: a.Call.ID, Result: result, Fence: 1}, now
				if late {
					replied = a.Call.Deadline
				}
			}
		}
		due, ok := m.Next()
		switch {
		case reply != nil && (!ok || replied <= due):
			in, now, reply = *reply, max(now, replied), nil
		case ok:
			in, now = lockcore.Input{Kind: lockcore.Tick}, max(now, due)
		default:
			t.Fatalf("%+v waits for nothing", p)
		}
	}
	return now, sent, ""
}

// In words: every number of the policy is there.
func TestDescribe(t *testing.T) {
	inLine := policyOf(t, "lockdrill/standard")
	inLine.Acquire.Backoff.Mode = lockcore.BackoffWake
	if text := strings.Join(inLine.Describe(), "\n"); !strings.Contains(text, "in line, first come first served") || !strings.Contains(text, "every 2s") {
		t.Errorf("back-off wake lacks the line, or the cap:\n%s", text)
	}
	for name, want := range map[string][]string{
		"cordum/scheduler-job":    {"lease is 60s", "asked for once", "renewed every 20s", "3 failed renewals", "at most 2 calls of at most 2s", "left to its lease"},
		"cordum/workflow-run":     {"lease is 30s", "renewed every 10s", "never given up", "one call of at most 2s"},
		"cordum/approval":         {"lease is 10s", "every 25ms", "after 2s the answer is busy", "never renewed"},
		"cordum/pending-replayer": {"never released", "every 30s whoever gets the key", "left to its lease"},
		"cordum/snapshot-writer":  {"every 5s whoever gets the key", "the key is released"},
		"lockdrill/critical":      {"2 failed renewals in a row, or 1s before its validity ends", "300ms of clock drift", "released once the work has stopped", "random pauses from 100ms to 2s"},
		"lockdrill/continuity":    {"says that it is unowned"},
	} {
		text := strings.Join(policyOf(t, name).Describe(), "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", name, w, text)
			}
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 25 * time.Millisecond: "25ms", time.Minute: "60s", 27300 * time.Millisecond: "27.3s", -4 * time.Second: "-4s"} {
		if got := lockcore.Seconds(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}
