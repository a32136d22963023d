package workercheck

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Headings of docs/worker-protocol.md.
const (
	inLines    = "The worker protocol, version 1"
	inCommands = "Commands"
	inEvents   = "Events"
	inFaults   = "Faults inside the replica"
	inLocks    = "Taking, keeping and giving back a lock"
	inEffects  = "Writing effects"
	inLoops    = "Leader loops"
	inEnds     = "How a replica ends"
)

// mostLate is how long a line may be under way, in the middle of all of them: far beyond what a pipe takes on a busy machine.
const mostLate = 25 * time.Millisecond

// mostStall: a machine that stood still for more than this part of the TTL is no witness against a worker's punctuality.
const mostStall = 20

// talkRows are about lines as such, whatever they say.
var talkRows = []row{
	{"ready", "says replica.ready when it is configured and connected",
		"a line replica.ready on standard output",
		"Read the configure command from standard input, connect to both stores, then write one replica.ready line.", inCommands, checkReady, ""},
	{"unknown-fields", "ignores fields of commands that it does not know",
		"an acquire.invoke, or job.ack, for an offer with unknown fields, as for any",
		"Take what you know from a command, and leave the rest: a later runner may say more.", inLines, func(b *bench) finding {
			s := &b.acts.unknown
			switch {
			case !s.played():
				return notSeen(unplayed)
			case len(b.acks(s))+len(b.within(s, history.AcquireInvoke)) == 0: // how the job ends is another matter
				return b.late(s, "no answer to an offer with unknown fields; %s%s", b.lastOf(s), b.last(s.life))
			}
			return ok("it takes the offer")
		}, Jobs},
	{"lines", "writes nothing to standard output but events, one JSON document a line",
		"every line is an event of a kind that a replica can know, complete, and stamped between its start and now",
		"Write logs to standard error. Give every event the fields that its kind asks for, and stamps of CLOCK_MONOTONIC in ns.", inEvents, checkLines, ""},
	{"prompt", "writes each line at once",
		fmt.Sprintf("half of the lines arrive within %s of their stamp", span(mostLate)),
		"Write each line unbuffered, in one write. What waits in a buffer is lost when the worker is killed.", inLines, checkPrompt, ""},
	{"pairs", "ends every .invoke with a .return of the same op",
		"one .return for each .invoke, with the invoke's stamp as its from; each op is used once",
		"Keep op and stamp of the .invoke and repeat them in the .return, also where the call failed or timed out.", inEvents, checkPairs, ""},
	{"clock", "stamps calls so that they contain what really happened",
		"from before the call reached the store, to after its reply was on the way",
		"Read CLOCK_MONOTONIC just before the call for from, and just after the reply for to. Use the clock itself, without an offset.", inLines, checkClock, ""},
}

func checkReady(b *bench) finding {
	l := b.lives[0]
	exit, dead := b.seen.exits[l.inc]
	said := b.seen.of(l.inc, 0, history.ReplicaReady)
	switch {
	case l.ready && len(said) > 0:
		return ok("%s after its start", span(time.Duration(said[0].Arrived-l.started)))
	case dead && !exit.Signaled:
		return wrong("it ended by itself before it was ready: %s%s", exit.State, b.last(l)).but("Let it run until it is told to stop. Standard error says why it ended, if anything does.")
	case exit.Bad > 0:
		return wrong("no replica.ready within %s, but %s that %s no event: %s", span(b.o.Ready), figures.Plural(exit.Bad, "line"), isAre(exit.Bad), exit.BadLines[0])
	case len(b.seen.of(l.inc, 0)) > 0:
		return wrong("no replica.ready within %s; its first line was %s", span(b.o.Ready), quote(b.seen.of(l.inc, 0)[0]))
	}
	return wrong("it ran for %s and wrote no line%s", span(b.o.Ready), b.last(l)).
		but("Write one replica.ready line when it is connected, and flush it: a buffer that is not full looks like silence.")
}

func (b *bench) last(l *life) string {
	if l.stderr == "" {
		return ""
	}
	return fmt.Sprintf("; the end of its standard error: %q", l.stderr)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func checkLines(b *bench) finding {
	good, bad, first := 0, 0, ""
	for _, l := range b.lives {
		e := b.seen.exits[l.inc]
		good, bad = good+e.Lines, bad+e.Bad
		if first == "" && len(e.BadLines) > 0 {
			first = e.BadLines[0]
		}
	}
	switch {
	case bad > 0:
		return wrong("%s of %d %s no event; the first: %s", figures.Plural(bad, "line"), good+bad, isAre(bad), first)
	case good == 0:
		return notSeen("it wrote no line")
	}
	return ok("%s", figures.Plural(good, "event"))
}

func checkPrompt(b *bench) finding {
	var late []int64
	for _, l := range b.seen.lines {
		if b.seen.stalled(l.To, l.Arrived) == 0 { // else it may have waited for this machine
			late = append(late, l.Arrived-l.To)
		}
	}
	slices.Sort(late)
	half := time.Duration(math.MaxInt64)
	if len(late) > 0 {
		half = time.Duration(late[len(late)/2])
	}
	all := len(b.seen.lines)
	switch {
	case len(late) >= 10 && half > mostLate:
		return wrong("half of %d lines arrived %s or more after their stamp", len(late), span(half))
	case len(late) < 10, len(late) < all*3/4: // lines that are late for another reason too are the likelier to meet a standstill
		return stalled("only %d of %s while the machine did not stand still", len(late), figures.Plural(all, "line"))
	}
	return ok("half of %d lines within %s of their stamp", len(late), span(half))
}

// returns are the kinds that end the others.
var returns = map[history.Kind]history.Kind{
	history.AcquireReturn: history.AcquireInvoke, history.RenewReturn: history.RenewInvoke, history.ReleaseReturn: history.ReleaseInvoke,
	history.UndoReturn: history.UndoInvoke, history.WriteReturn: history.WriteInvoke,
}

func checkPairs(b *bench) finding {
	type name struct {
		life, op string
		kind     history.Kind
	}
	open := map[name]line{}
	n, again := 0, map[name]bool{}
	for _, l := range b.seen.lines {
		invoke, isReturn := returns[l.Kind]
		if !isReturn {
			invoke = l.Kind
		}
		id := name{l.Source, l.Op, invoke}
		begun, known := open[id]
		switch {
		case isReturn && !known:
			return wrong("this .return has no .invoke before it: %s", quote(l))
		case isReturn && l.From != begun.From:
			return wrong("the .return's from is %d, the .invoke's was %d: %s", l.From, begun.From, quote(l))
		case isReturn:
			n++
			delete(open, id)
		case !slices.ContainsFunc(keysOf(returns), func(k history.Kind) bool { return returns[k] == l.Kind }):
		case again[id] && l.Kind != history.WriteInvoke: // a write is asked again under its op
			return wrong("the op %s was used before: %s", l.Op, quote(l))
		default:
			open[id], again[id] = l, true
		}
	}
	for id, l := range open {
		if exit := b.seen.exits[id.life]; !exit.Signaled { // a killed worker may be in the midst of a call
			return wrong("this .invoke has no .return, and the worker ended by itself: %s", quote(l))
		}
	}
	if n == 0 {
		return notSeen("it announced no call")
	}
	return ok("%s", figures.Plural(n, "call"))
}

func keysOf(m map[history.Kind]history.Kind) (keys []history.Kind) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// checkClock holds the stamps of each call that was announced alone against when it passed the gate.
func checkClock(b *bench) finding {
	n, early, late := 0, time.Duration(0), time.Duration(0)
	var worst line
	for _, l := range b.seen.lines {
		if _, isReturn := returns[l.Kind]; !isReturn || l.Kind == history.WriteReturn || l.Outcome == history.Unknown {
			continue
		}
		calls := slices.DeleteFunc(b.seen.made(l, true), func(c *call) bool { return !c.set() && !c.extended() && !c.deleted() })
		if len(calls) != 1 {
			continue
		}
		n++
		if by := time.Duration(calls[0].Replied - l.To); by > early {
			early, worst = by, l
		}
		if by := time.Duration(l.From - calls[0].At); by > late {
			late, worst = by, l
		}
	}
	switch {
	case n == 0:
		return notSeen("no call could be held against its lines")
	case early > 0:
		return wrong("a call was said to be over %s before its reply had left the store: its clock is early by that, or to is read before the reply: %s", span(early), quote(worst))
	case late > 0:
		return wrong("a call reached the store %s before its from: %s", span(late), quote(worst))
	}
	return ok("%s contain what was seen of them", figures.Plural(n, "call"))
}
