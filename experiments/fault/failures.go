package fault

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Failures makes operations on the lock fail: in the replica's own store client, or, for any client, on the way to the store. It is
// bounded by Count or by the fault's time. With HolderOf it strikes renewals and releases of the held key, and acquires of that
// replica. Three kinds that differ in the operation, so they share all else.
type Failures struct {
	Aim
	Of    lockcore.Op   `file:"-"`
	Lock  string        // with replica and all: only operations on this lock
	Mode  Mode          `rule:"words=error|timeout|delay|lost_reply"` // how an operation fails: refused, never sent on, held back, or executed without an answer
	Count int           `rule:"min=1,max=1e6"`                        // so many operations; left out: all while it lasts
	Share float64       `rule:"positive,max=1"`                       // of the operations, each by chance; left out: all of them
	Delay time.Duration `rule:"positive" scale:"yes"`                 // mode delay: for so long
	Via   string        `rule:"words=worker|proxy"`                   // worker: in the replica's own client; proxy: on the way, which works for any client
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

// operations are what fails, in a person's words.
func (b *Failures) operations() string {
	if b.Of == lockcore.OpRenew {
		return "renewals"
	}
	return string(b.Of) + "s"
}

// failing makes bursts of one of the three kinds.
func failing(of lockcore.Op) func(string, string) Spec {
	return func(form, via string) Spec {
		return &Failures{Of: of, Mode: Mode(form), Via: via}
	}
}

func (b *Failures) Fill() { b.Mode, b.Via = cmp.Or(b.Mode, ModeError), cmp.Or(b.Via, ViaWorker) }

func (b *Failures) Kind() string { return string(b.Of) + "_failures" }
func (b *Failures) Form() string { return string(b.Mode) }

// Magnitude is "+200ms 50% of lock job", or as much of it as is declared.
func (b *Failures) Magnitude() string {
	var parts []string
	if b.Mode == ModeDelay {
		parts = append(parts, "+"+figures.Spell(b.Delay))
	}
	if b.partly() {
		parts = append(parts, fmt.Sprintf("%.3g%%", 100*b.Share))
	}
	if b.Lock != "" {
		parts = append(parts, "of lock "+b.Lock)
	}
	return strings.Join(parts, " ")
}

func (b *Failures) partly() bool { return b.Share > 0 && b.Share < 1 }

func (b *Failures) Traits() Traits {
	t := Traits{Noun: "fault", Fails: b.Of, Count: b.Count, Share: b.Share, Delay: b.Delay, Lock: b.Lock, Via: b.Via, Holds: b.Delay,
		Applied: b.Mode == ModeLostReply}
	if b.Of == lockcore.OpRenew {
		t.Class, t.Noun, t.Called = ClassPause, "burst", "failed renewals"
	}
	t.OnTheWay = b.Via == ViaProxy
	t.InVictim = !t.OnTheWay
	if b.Count == 0 {
		t.GoesOn = "without a count the operations would fail without end"
	}
	return t
}

func (b *Failures) Barred(a Around) string {
	switch {
	case a.Observed && (b.Via != ViaProxy || !a.Tapped):
		return "is done by a worker that is told to, and observed replicas take no commands: via: proxy, with proxy: {api: ...}, a lockdrill proxy that the service's traffic passes" + instead
	case a.Observed:
		return ""
	case a.Pods && b.Via == ViaProxy:
		return "pods do not reach the proxy inside the runner that reads commands: via: worker"
	}
	return ""
}

func (b *Failures) Check(c Checker) {
	b.check(c, b.Whom(), true)
	b.checkObserved(c)
	if (b.Mode == ModeDelay) != (b.Delay > 0) {
		if b.Delay > 0 {
			c.Check("delay", "is for mode delay, not %s", b.Mode)
		} else {
			c.Check("delay", "missing: mode delay holds operations back for so long")
		}
	}
	if b.Lock != "" && b.HolderOf != "" {
		c.Check("lock", "is for replica or all: with holder_of only operations on the held key fail")
	}
	if lasts := c.Around().For; b.Delay > 0 && lasts > 0 && b.Delay >= lasts {
		c.Check("delay", "%s is not under for %s: no operation would come back while the fault lasts", figures.Spell(b.Delay), figures.Spell(lasts))
	}
	why := ""
	for _, l := range b.struck(c) {
		if why = b.never(l); why == "" {
			return
		}
	}
	if why != "" {
		c.Check("", "%s", why)
	}
}

// checkObserved refuses what a proxy on the way of all replicas does not know: which of them a connection is of, and which keys are locks.
func (b *Failures) checkObserved(c Checker) {
	switch all := "the lockdrill proxy of proxy.api is on the way of all replicas"; {
	case !c.Around().Observed:
	case b.Replica != "":
		c.Check("replica", "%s, and cannot tell them apart: say holder_of, or all: true", all)
	case b.HolderOf != "" && b.Of == lockcore.OpAcquire:
		c.Check("holder_of", "%s, and cannot tell who asks for a key: say all: true, and lock", all)
	case b.All && b.Lock == "":
		c.Check("lock", "missing: %s, and of other keys too: say which are meant", all)
	}
}

// struck are the locks whose operations fail, as far as they could be read.
func (b *Failures) struck(c Checker) []*Lock {
	name, field := b.HolderOf, "holder_of"
	if b.HolderOf == "" {
		name, field = b.Lock, "lock"
	}
	if name == "" {
		return c.Locks()
	}
	if l := c.Lock(field, name); l != nil {
		return []*Lock{l}
	}
	return nil
}

// never says why no operation of the kind that is to fail ever comes under the lock, or "".
func (b *Failures) never(l *Lock) string {
	switch {
	case b.Of == lockcore.OpRenew && l.Unrenewed != "":
		return "there is no renewal to fail: " + l.Unrenewed
	case b.Of == lockcore.OpRelease && l.Policy.Release.Mode == lockcore.ReleaseNone:
		return fmt.Sprintf("there is no release to fail: lock %s is left to its TTL (release none)", l.Name)
	}
	return ""
}

func (b *Failures) Describe(bool) Description {
	operations := b.operations()
	does := map[Mode]string{
		ModeError: "are refused at once, without effect", ModeTimeout: "are never sent on and get no answer",
		ModeDelay: "are held back for " + figures.Spell(b.Delay), ModeLostReply: "take effect, and their answer is lost",
	}[b.Mode]
	if b.partly() {
		operations = fmt.Sprintf("%.3g%% of the %s", 100*b.Share, operations)
	}
	if b.Lock != "" {
		operations += " of lock " + b.Lock
	}
	if b.Count > 0 {
		does += fmt.Sprintf(", %d in all", b.Count)
	}
	d := Description{operations + " " + does, "each is counted where it is made to fail; fewer than wanted, and the shot is void",
		"the replica disarms itself when the burst is over, and is told to"}
	if b.Via == ViaProxy {
		d.Undone = "the proxy that reads the replicas' commands is told to let everything through"
	}
	return d
}

func (b *Failures) Action(s Shot) string {
	bound := "for " + figures.Short(int64(s.Lasts))
	if s.Want > 0 {
		bound = figures.Plural(s.Want, strings.TrimSuffix(b.operations(), "s"))
	}
	where := " in "
	if b.Via == ViaProxy {
		where = " on the way of "
	}
	return fmt.Sprintf("%s fail (%s, %s)%s%s%s", b.operations(), Words(b.Form(), s.Configured), bound, where, s.Victim, s.held())
}

// Measured is how many operations a burst hit, and where they were counted.
func (b *Failures) Measured(m Measured) string {
	of := ""
	where := map[string]string{ViaWorker: ", counted in the replica", ViaProxy: ", counted on the way to the store"}[b.Via]
	if m.Want > 0 {
		of = " of " + figures.Count(m.Want)
	}
	return fmt.Sprintf("hit %s%s %s%s", figures.Count(m.Hits), of, b.operations(), where)
}
