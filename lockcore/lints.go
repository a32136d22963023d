package lockcore

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Facts are what the budget lints must know beside the policy. What is 0 is not known, and sums that need it are left out.
type Facts struct {
	WorkP99    time.Duration // p99 of the work under the lock; loops: their tick
	Jitter     time.Duration // tail of network and store; 0 = the acquire timeout stands for it
	Contenders int           // how many may ask for one key at once
}

// Sum is one budget lint worked out, before anything runs.
type Sum struct {
	Rule  string `json:"rule"`  // L1 to L12
	OK    bool   `json:"ok"`    //
	Text  string `json:"sum"`   // in the policy's own numbers
	Means string `json:"means"` // what follows, where it is not OK
}

// HerdLimit is how many requests a second one key may draw before L6 speaks: 1% of what one Redis answers.
const HerdLimit = 400

// Lints works out the sums that a policy and its facts decide: L1, L2, L4 to L7, as far as they apply to it. L3 (takeover), L8
// (evidence) and L9 (keys) need the experiment's faults and promises too.
func Lints(p Policy, f Facts) []Sum {
	var out []Sum
	for _, lint := range []func(Policy, Facts) (Sum, bool){giveUp, attempts, waitBudget, heldTicks, herd, unrenewed} {
		if s, applies := lint(p, f); applies {
			if s.OK {
				s.Means = ""
			}
			out = append(out, s)
		}
	}
	return out
}

// stretch is the longest interval that jitter allows.
func stretch(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (1 + jitter))
}

// GiveUpSum is the left side of L1: how long after the sending of its last success a holder may still work when every call from then
// on fails at its timeout. The ticker starts at the acquire's reply; a call that outlasts the interval delays the next one, also where
// it is the success itself whose reply comes at the last moment.
func GiveUpSum(p Policy) time.Duration {
	every := stretch(p.RenewEvery, p.RenewJitter)
	return firstRenewal(p) + time.Duration(p.MaxFailures-1)*max(every, p.OpTimeout) + p.OpTimeout + p.Drift + p.StopBudget
}

// firstRenewal is how long after the sending of a success the next renewal may be sent.
func firstRenewal(p Policy) time.Duration {
	return max(p.Acquire.Timeout+stretch(p.RenewEvery, p.RenewJitter), p.OpTimeout)
}

// giveUp is L1: the holder must have given up before the store gives the key to another.
func giveUp(p Policy, _ Facts) (Sum, bool) {
	s := Sum{Rule: "L1"}
	every := stretch(p.RenewEvery, p.RenewJitter)
	switch {
	case p.RenewEvery == 0:
		return s, false
	case p.Class == LegacyWarn:
		s.Text = fmt.Sprintf("class %s never gives up, so nothing bounds its work to ttl %s", p.Class, Seconds(p.TTL))
		s.Means = "When renewals fail for longer than the ttl, its work goes on beside that of the next holder."
		return s, true
	case p.Class == Continuity:
		s.OK, s.Text = true, fmt.Sprintf("class %s goes on by choice, without owning the lock from ttl - drift = %s on", p.Class, Seconds(p.TTL-p.Drift))
		return s, true
	case p.Class == Standard, p.MaxFailures == 0:
		s.OK = true
		s.Text = fmt.Sprintf("gives up ttl %s - drift %s - stop budget %s = %s after its last success was sent; a deleted key is noticed within %s",
			Seconds(p.TTL), Seconds(p.Drift), Seconds(p.StopBudget), Seconds(p.TTL-p.Drift-p.StopBudget), Seconds(max(every, p.OpTimeout)+p.OpTimeout))
		return s, true
	}
	sum := GiveUpSum(p)
	s.OK = sum <= p.TTL
	s.Text = fmt.Sprintf("%s%s%s = %s, %s ttl %s; a deleted key is noticed %s", giveUpTerms(p, every),
		plus("drift", p.Drift), plus("stop budget", p.StopBudget), Seconds(sum), compare(sum, p.TTL), Seconds(p.TTL), noticed(p, every))
	s.Means = fmt.Sprintf("Where calls hang instead of failing, the holder gives up to %s too late, and there are two holders. The largest safe count here is %d.",
		Seconds(sum-p.TTL), SafeFailures(p))
	if p.Class == Critical {
		s.Means = "The deadline comes before the count is reached. Raise the ttl, or ask for fewer failures."
	}
	return s, true
}

// giveUpTerms writes GiveUpSum's calls and intervals: as many intervals as count where they are the longer part, else the calls.
func giveUpTerms(p Policy, every time.Duration) string {
	acquire, op := Seconds(p.Acquire.Timeout), Seconds(p.OpTimeout)
	switch {
	case p.OpTimeout > p.Acquire.Timeout+every:
		return fmt.Sprintf("slow renewal %s + %d failures * op timeout %s", op, p.MaxFailures, op)
	case p.OpTimeout > every:
		return fmt.Sprintf("acquire %s + interval %s + %d failures * op timeout %s", acquire, Seconds(every), p.MaxFailures, op)
	}
	return fmt.Sprintf("acquire %s + %d failures * %s + op timeout %s", acquire, p.MaxFailures, Seconds(every), op)
}

// noticed says how long a deleted key stays unnoticed by who believes to hold it: a class that counts takes it for one more failure.
func noticed(p Policy, every time.Duration) string {
	longest := max(every, p.OpTimeout)
	if p.Class != LegacyCount {
		return "within " + Seconds(longest+p.OpTimeout)
	}
	shortest := stretch(p.RenewEvery, -p.RenewJitter)
	return fmt.Sprintf("after %s to %s", Seconds(time.Duration(p.MaxFailures-1)*shortest), Seconds(time.Duration(p.MaxFailures)*longest+p.OpTimeout))
}

// SafeFailures is how many renewals in a row may fail, each at its timeout, and the holder still has given up before the store gives the
// key to another: the largest count for which L1 holds. 0 = not even one, or never renewed.
func SafeFailures(p Policy) int {
	if p.RenewEvery <= 0 {
		return 0
	}
	p.MaxFailures = 1
	room := p.TTL - GiveUpSum(p)
	if room < 0 {
		return 0
	}
	return 1 + int(room/max(stretch(p.RenewEvery, p.RenewJitter), p.OpTimeout))
}

// attempts is L2: one lost renewal must not be the last one. A second must have been sent before the holder gives up.
func attempts(p Policy, _ Facts) (Sum, bool) {
	if p.RenewEvery == 0 {
		return Sum{}, false
	}
	every := stretch(p.RenewEvery, p.RenewJitter)
	terms := fmt.Sprintf("acquire %s + 2 renewals * %s", Seconds(p.Acquire.Timeout), Seconds(every))
	if p.OpTimeout > every {
		terms = fmt.Sprintf("until a renewal is sent %s + op timeout %s", Seconds(firstRenewal(p)), Seconds(p.OpTimeout))
	}
	sum := firstRenewal(p) + max(every, p.OpTimeout) + p.Drift + p.StopBudget
	return Sum{
		Rule: "L2", OK: sum < p.TTL,
		Text: fmt.Sprintf("%s%s%s = %s, %s ttl %s", terms,
			plus("drift", p.Drift), plus("stop budget", p.StopBudget), Seconds(sum), compare(sum, p.TTL), Seconds(p.TTL)),
		Means: "Fewer than two renewals fit into a lease, so a single lost one costs the lock.",
	}, true
}

// waitBudget is L4: whoever waits for less than a lease is told "busy" after a crash, again and again.
func waitBudget(p Policy, _ Facts) (Sum, bool) {
	if p.Acquire.Mode != AcquireWait {
		return Sum{}, false
	}
	return Sum{
		Rule: "L4", OK: p.Acquire.Budget >= p.TTL,
		Text:  fmt.Sprintf("wait %s, %s ttl %s", Seconds(p.Acquire.Budget), compare(p.Acquire.Budget, p.TTL), Seconds(p.TTL)),
		Means: fmt.Sprintf("After a crash, callers give up waiting for up to %s (busy).", Seconds(p.TTL-p.Acquire.Budget)),
	}, true
}

// heldTicks is L5: a key that is left to its TTL lets a tick through every so many polls only.
func heldTicks(p Policy, _ Facts) (Sum, bool) {
	if p.Loop == nil || p.Loop.Mode != LoopTTLHold {
		return Sum{}, false
	}
	every, races := Cadence(p)
	s := Sum{
		Rule: "L5", OK: !races,
		Text: fmt.Sprintf("ttl_hold: one replica runs every %[3]s (poll %[1]s * %[2]d)", Seconds(p.Loop.Poll), every/p.Loop.Poll, Seconds(every)),
		Means: fmt.Sprintf("ttl %s is an exact multiple of poll %s, so a poll races the expiry of the key. The loop runs every %s or every %s by chance.",
			Seconds(p.TTL), Seconds(p.Loop.Poll), Seconds(p.TTL), Seconds(p.TTL+p.Loop.Poll)),
	}
	return s, true
}

// Cadence is how often a single replica runs a loop whose key is left to its TTL. It races where the poll that should find the key free
// comes at the very end of the lease: then a poll more, by chance.
func Cadence(p Policy) (every time.Duration, races bool) {
	return (p.TTL + p.Loop.Poll - 1) / p.Loop.Poll * p.Loop.Poll, p.TTL%p.Loop.Poll == 0 && p.Loop.Jitter == 0
}

// herd is L6: those who wait for one key ask it all at once.
func herd(p Policy, f Facts) (Sum, bool) {
	who, every, more := "contenders", p.Acquire.Backoff.Every, ""
	if p.Acquire.Backoff.Mode == BackoffWake { // in line, nobody asks unasked but at the cap, or when the lease seen last may be over
		who, every, more = "contenders in line", min(p.Acquire.Backoff.Cap, p.TTL-stretch(p.RenewEvery, p.RenewJitter)), ", and three a grant"
	}
	if p.Loop != nil {
		who, every, more = "contenders", p.Loop.Poll, ""
	}
	if f.Contenders == 0 || every <= 0 || p.Loop == nil && p.Acquire.Mode != AcquireWait {
		return Sum{}, false
	}
	rate := float64(f.Contenders) / every.Seconds()
	return Sum{
		Rule: "L6", OK: rate <= HerdLimit,
		Text:  fmt.Sprintf("%d %s / %s = %s requests a second on one key%s", f.Contenders, who, Seconds(every), number(rate), more),
		Means: fmt.Sprintf("Above %d a second the waiting itself is load. Back off further, with jitter.", HerdLimit),
	}, true
}

// unrenewed is L7: what is not renewed must be over before its lease is.
func unrenewed(p Policy, f Facts) (Sum, bool) {
	work := f.WorkP99
	if work == 0 && p.Loop != nil {
		work = p.Loop.Tick
	}
	if p.RenewEvery > 0 || work == 0 {
		return Sum{}, false
	}
	name, jitter := "jitter", f.Jitter
	if jitter == 0 {
		name, jitter = "acquire", p.Acquire.Timeout
	}
	sum := work + jitter
	return Sum{
		Rule: "L7", OK: sum <= p.TTL,
		Text:  fmt.Sprintf("never renewed: work p99 %s + %s %s = %s, %s ttl %s", Seconds(work), name, Seconds(jitter), Seconds(sum), compare(sum, p.TTL), Seconds(p.TTL)),
		Means: "One job in a hundred outlives its lease. Renew the lease, or raise the ttl.",
	}, true
}

// Seconds writes a duration for a sum: in seconds from one second on ("90s", "1.5s"), below that as Go does ("25ms").
func Seconds(d time.Duration) string {
	if -time.Second < d && d < time.Second && d != 0 {
		return d.String()
	}
	return number(d.Seconds()) + "s"
}

func number(f float64) string {
	return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64)
}

func plus(name string, d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " + " + name + " " + Seconds(d)
}

func compare(a, b time.Duration) string {
	switch {
	case a < b:
		return "under"
	case a > b:
		return "over"
	}
	return "exactly"
}
