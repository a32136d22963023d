package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Bursts of failing operations, and the clock, in the core.

// Failures makes operations on the lock fail: in the replica's own store client, or, for any client, on the way to the store. It is
// bounded by Count or by the fault's time. With HolderOf it strikes renewals and releases of the held key, and acquires of that
// replica. Three kinds that differ in the operation, so they share all else.
type Failures struct {
	Aim
	Of    lockcore.Op   `file:"-"`
	Lock  string        `rule:"not=holder_of"`                                       // only this lock's operations
	Mode  Mode          `rule:"words=error|timeout|delay|lost_reply"`                // refused, never sent on, held back, or executed without an answer
	Count int           `rule:"min=1,max=1e6"`                                       // so many operations; left out: all
	Share float64       `rule:"positive,max=1"`                                      // of the operations, by chance; left out: all
	Delay time.Duration `rule:"positive,for=mode:delay,need=mode:delay" scale:"yes"` // for so long
	Via   string        `rule:"words=worker|proxy"`                                  // worker: in the replica's client; proxy: on the way, for any client
}

// Mode is how an operation fails.
type Mode string

const (
	ModeError     Mode = "error"      // refused at once, surely without effect
	ModeTimeout   Mode = "timeout"    // never sent on; no answer
	ModeDelay     Mode = "delay"      // held back, then sent on
	ModeLostReply Mode = "lost_reply" // executed; no answer
)

// Where operations are made to fail.
const (
	ViaWorker = "worker"
	ViaProxy  = "proxy"
)

func (b *Failures) Kind() string { return string(b.Of) + "_failures" }

func (b *Failures) Fill() { b.Mode, b.Via = cmp.Or(b.Mode, ModeError), cmp.Or(b.Via, ViaWorker) }

// Clock moves the wall clock of a replica as its lock core sees it, until its time is up.
type Clock struct {
	Aim
	Offset time.Duration `rule:"required,signed" scale:"yes"` // may be negative
}

func (*Clock) Kind() string { return "clock" }

var bursts = []Kind{
	failing(lockcore.OpRenew, "renewals go wrong, by count, share or time"),
	failing(lockcore.OpAcquire, "acquires go wrong, as renew_failures"),
	failing(lockcore.OpRelease, "releases go wrong, as renew_failures"),
	{Word: "clock", By: Burst, New: made(Clock{}), Aims: anybody, Says: "the wall clock of a replica's lock core is off",
		Form: Form{Traits: Traits{Noun: "fault", GoesOn: "a clock stays wrong until it is set right", InVictim: true}, Size: "{offset|0}", Does: "the wall clock of the replica's lock core is off by {offset|0}",
			Seen: "the replica reports its offset", Undone: "the replica is told to go by its own clock again, and ends that by itself when the time is up", Told: "wall clock of {victim} off by {size|an offset}{for}", Shows: "off by"},
		Unsupported: unsupported(func(_ *Clock, a Around) string {
			if a.Observed {
				return "is done by a worker that is told to, and observed replicas take no commands" + instead
			}
			return ""
		}),
		Constraints: []Constraint{breaks("offset", "0s moves nothing", func(c *Clock, _ Checker) bool { return c.Offset == 0 })}},
}

// failing is the row of a burst: three kinds that differ in the operation.
func failing(of lockcore.Op, says string) Kind {
	operations := map[lockcore.Op]string{lockcore.OpRenew: "renewals"}[of]
	operations = cmp.Or(operations, string(of)+"s")
	k := Kind{Word: string(of) + "_failures", Says: says, By: Burst, New: made(Failures{Of: of}), Formed: "mode", Aims: anybody,
		Form: Form{Traits: Traits{Noun: "fault", Fails: of}, Size: "{late} {part} {whose}", Does: "[{part} of the ]" + operations + "[ {whose}] {failing}[, {count} in all]",
			Seen:   "each is counted where it is made to fail; fewer than wanted, and the shot is void",
			Undone: "{disarmed}", Told: operations + " fail ({mode}[ {size}], {bound}){where}{victim}{held}"},
		Values: values(func(b *Failures, t Traits) Traits {
			t.Count, t.Share, t.Delay, t.Lock, t.Via, t.Holds, t.Applied = b.Count, b.Share, b.Delay, b.Lock, b.Via, b.Delay, b.Mode == "lost_reply"
			if t.OnTheWay = b.Via == "proxy"; !t.OnTheWay {
				t.InVictim = true
			}
			if b.Count == 0 {
				t.GoesOn = "without a count the operations would fail without end"
			}
			return t
		}),
		Unsupported: unsupported(func(b *Failures, a Around) string {
			switch {
			case a.Observed && (b.Via != "proxy" || !a.Tapped):
				return "is done by a worker that is told to, and observed replicas take no commands: via: proxy, with proxy: {api: ...}, a lockdrill proxy that the service's traffic passes" + instead
			case !a.Observed && a.Pods && b.Via == "proxy":
				return "pods do not reach the proxy inside the runner that reads commands: via: worker"
			}
			return ""
		}),
		Constraints: slices.Concat(
			first(
				breaks("replica", theirs+", and cannot tell them apart: say holder_of, or all: true", func(b *Failures, c Checker) bool { return c.Around().Observed && b.Replica != "" }),
				breaks("holder_of", theirs+", and cannot tell who asks for a key: say all: true, and lock", func(b *Failures, c Checker) bool {
					return c.Around().Observed && b.HolderOf != "" && b.Of == lockcore.OpAcquire
				}),
				breaks("lock", "missing: "+theirs+", and of other keys too: say which are meant", func(b *Failures, c Checker) bool { return c.Around().Observed && b.All && b.Lock == "" })),
			[]Constraint{
				because("delay", func(b *Failures, c Checker) string {
					if lasts := c.Around().For; b.Mode == "delay" && lasts > 0 && b.Delay >= lasts {
						return "{delay} is not under for " + figures.Spell(lasts) + ": no operation would come back while the fault lasts"
					}
					return ""
				}),
				because("", (*Failures).never)})}
	if of == lockcore.OpRenew {
		k.Traits.Class, k.Traits.Noun, k.Traits.Called = ClassPause, "burst", "failed renewals"
	}
	return k
}

const theirs = "the lockdrill proxy of proxy.api is on the way of all replicas"

// never says why no operation that is to fail ever comes.
func (b *Failures) never(c Checker) (why string) {
	locks := c.Locks()
	if name, field := cmp.Or(b.HolderOf, b.Lock), map[bool]string{true: "holder_of", false: "lock"}[b.HolderOf != ""]; name != "" {
		if locks = nil; true {
			if l := c.Lock(field, name); l != nil {
				locks = append(locks, l)
			}
		}
	}
	for _, l := range locks {
		switch {
		case b.Of == lockcore.OpRenew && l.Unrenewed != "":
			why = "there is no renewal to fail: " + l.Unrenewed
		case b.Of == lockcore.OpRelease && l.Policy.Release.Mode == lockcore.ReleaseNone:
			why = "there is no release to fail: lock " + l.Name + " is left to its TTL (release none)"
		default:
			return ""
		}
	}
	return why
}

func (b *Failures) values() map[string]string {
	v := map[string]string{"late": "", "part": "", "whose": "", "where": " in ", "mode": strings.ReplaceAll(string(b.Mode), "_", " "),
		"failing": map[Mode]string{"error": "are refused at once, without effect", "timeout": "are never sent on and get no answer",
			"delay": "are held back for " + figures.Spell(b.Delay), "lost_reply": "take effect, and their answer is lost"}[b.Mode],
		"disarmed": "the replica disarms itself when the burst is over, and is told to"}
	if b.Mode == "delay" {
		v["late"] = "+" + figures.Spell(b.Delay)
	}
	if b.Share > 0 && b.Share < 1 {
		v["part"] = fmt.Sprintf("%.3g%%", 100*b.Share)
	}
	if b.Lock != "" {
		v["whose"] = "of lock " + b.Lock
	}
	if b.Via == "proxy" {
		v["disarmed"], v["where"] = "the proxy that reads the replicas' commands is told to let everything through", " on the way of "
	}
	return v
}

func (b *Failures) one() string {
	if b.Of == lockcore.OpRenew {
		return "renewal"
	}
	return string(b.Of)
}

func (b *Failures) told(s Shot, told map[string]string) {
	told["bound"] = "for " + figures.Short(int64(s.Lasts))
	if s.Want > 0 {
		told["bound"] = figures.Plural(s.Want, b.one())
	}
}

func (b *Failures) counted(m Measured) string {
	of := ""
	if m.Want > 0 {
		of = " of " + figures.Count(m.Want)
	}
	return fmt.Sprintf("hit %s%s %ss%s", figures.Count(m.Hits), of, b.one(), map[string]string{"worker": ", counted in the replica", "proxy": ", counted on the way to the store"}[b.Via])
}

func (b *Failures) seen(_, via string) { b.Via = via }
