package fault

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Faults of the ways between replicas and the store, by toxics of a Toxiproxy.

// Latency delays what goes through by Add, give or take Jitter: in each direction that Stream names (default downstream).
type Latency struct {
	Aim
	Add    time.Duration `rule:"positive" scale:"yes"`           // delay
	Jitter time.Duration `rule:"positive" scale:"yes"`           // give or take this
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

// Jitter delays by anything from nothing to twice By.
type Jitter struct {
	Aim
	By     time.Duration `rule:"required,positive" scale:"yes"`  // delays up to twice this
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

// Bandwidth limits what goes through.
type Bandwidth struct {
	Aim
	Rate   int    `rule:"required,min=1,max=2e5"`         // kB/s
	Stream Stream `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

// Slices cuts what goes through into pieces of Size, each Delay after the one before.
type Slices struct {
	Aim
	Size   int           `rule:"required,min=1,max=10000"`       // bytes of a piece
	Delay  time.Duration `rule:"required,positive" scale:"yes"`  // between two pieces
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

// SlowClose keeps connections from closing for Delay.
type SlowClose struct {
	Aim
	Delay  time.Duration `rule:"required,positive" scale:"yes"`  // so much later connections close
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

// Cut is a fault of the network without a magnitude: black_hole, reset or down, of both directions. Three kinds that differ in what
// becomes of connections, so they share all else.
type Cut struct {
	Aim
	How Cutting `file:"-"`
}

// Cutting is what becomes of connections; it is the kind's word as well.
type Cutting string

const (
	Hole  Cutting = "black_hole" // nothing gets through, connections stay open
	Reset Cutting = "reset"      // connections are reset
	Down  Cutting = "down"       // nobody listens
)

// toxic is the row of a fault by a toxic. Fields in fine are at least a millisecond: a Toxiproxy would do a whole one, which nobody
// declared.
func toxic[F any](word, says string, defaults F, fine []string, words Form, all ...Constraint) Kind {
	k := Kind{Word: word, Says: says, By: Toxic, New: made(defaults), Aims: ways, Form: words}
	if f := fieldNamed(reflectOf(&defaults), "stream"); f.IsValid() {
		k.Formed = "stream"
	}
	k.Form.Way, k.Told, k.Undone = true, "{kind}[ {size}] between {victim}{held} and the store{then}", "the toxics of this fault are removed and the proxy is read back; where that hangs, the proxy is disabled and made again, or left to you if it is yours"
	if words.Undone != "" {
		k.Undone = words.Undone
	}
	k.Values = values(func(f *F, _ Traits) Traits {
		w := any(f).(Network).Wire()
		return Traits{Class: ClassPause, Noun: "fault", GoesOn: "a fault of the network goes on until it is ended", OnTheWay: true, Cuts: w.Cut != "", Holds: w.Add + w.Jitter}
	})
	k.Unsupported = unsupported(func(_ *F, a Around) string { return proxyless(a) })
	k.Constraints = append(k.Constraints, breaks("", "strikes one replica, and the proxy of proxy.route is on the way of all of them: say all: true, or name one of each replica's own, as route: \"redis-{name}\"",
		func(f *F, c Checker) bool {
			a := any(f).(Aimed).AimAt()
			return c.Around().Shared && (a.HolderOf != "" || a.Replica != "")
		}))
	for _, name := range fine {
		k.Constraints = append(k.Constraints, because(name, func(f *F, c Checker) string {
			d := time.Duration(fieldNamed(reflectOf(f), name).Int())
			if took := vocab.Scaled(d, c.Around().TimeScale); d > 0 && took < time.Millisecond {
				return figures.Spell(took) + ", after time_scale, is under 1ms, the least that a Toxiproxy can do"
			}
			return ""
		}))
	}
	k.Constraints = append(k.Constraints, all...)
	return k
}

func proxyless(a Around) string {
	switch {
	case a.Observed && a.Pods:
		return "whether the traffic of somebody's pods passes a proxy cannot be seen from here: network_policy cuts a pod off"
	case a.Observed && !a.Routed:
		return "nobody leads observed replicas through a proxy of lockdrill's: name the one of yours that their traffic passes, as proxy: {mode: external, url: \"http://127.0.0.1:8474\", route: NAME}" + instead
	case a.Pods && !a.PodsProxy:
		return "pods do not reach a proxy inside the runner: proxy: {mode: external, url: ...}, a Toxiproxy that runner and pods reach"
	}
	return ""
}

const slower = "a round trip through the proxy is measured before and during it, and the replica's own calls show it"

var toxics = []Kind{
	toxic("latency", "requests, replies or both are delayed, give or take a jitter", Latency{Stream: StreamDown}, []string{"add", "jitter"},
		Form{Size: "+{add|0}[ ± {jitter}] {stream}", Does: "{goes} are delayed by {add|0}[, give or take {jitter}]", Seen: slower},
		breaks("", "delays nothing: needs add, jitter, or both", func(l *Latency, _ Checker) bool { return l.Add == 0 && l.Jitter == 0 })),
	toxic("jitter", "they are delayed by anything up to twice as much as given", Jitter{Stream: StreamDown}, []string{"by"},
		Form{Size: "± {by} {stream}", Does: "{goes} are delayed by anything up to {twice}", Seen: slower, Shows: "the slowest round trip was"}),
	toxic("bandwidth", "no more than so many kB a second get through", Bandwidth{Stream: StreamDown}, nil,
		Form{Size: "{rate} kB/s {stream}", Does: "{goes} pass at no more than {rate} kB/s", Seen: "the time that some data takes through the proxy is measured before and during it, and the replica is connected through it",
			Shows: "an echo of some data took"}),
	toxic("slices", "what goes through comes in small pieces, one after the other", Slices{Stream: StreamDown}, []string{"delay"},
		Form{Size: "{size} bytes every {delay} {stream}", Does: "{goes} come in pieces of at most {size} bytes, {delay} apart", Shows: "an echo of some data took",
			Seen: "the time that some data takes through the proxy is measured before and during it, and the replica is connected through it", Unplayed: "messages are simulated and their bytes are not: rehearse latency"}),
	cutting(Hole, "nothing gets through, and connections stay open: calls hang", Form{Does: "nothing gets through, and connections stay open", Seen: "a call through the proxy gets no answer, and the replica's own get none"}),
	cutting(Reset, "connections are reset", Form{Does: "connections are reset", Seen: "a connection through the proxy is reset, and the replica's own are"}),
	toxic("slow_close", "connections that one side has closed stay open for the other", SlowClose{Stream: StreamDown}, []string{"delay"},
		Form{Size: "{delay} {stream}", Does: "connections stay open for {delay} after one side has closed them", Shows: "closing took",
			Seen:     "the close of a connection through the proxy is measured before and during it, and the replica is connected through it",
			Unplayed: "messages are simulated and connections are not: how long one takes to close changes no message"}),
	cutting(Down, "nobody listens where the replica reaches the store: connections are refused", Form{Does: "nobody listens where the replica reaches the store",
		Seen: "a connection to the proxy is refused, and the replica's own are gone", Undone: "the proxy is enabled again and read back; where that hangs, it is made again, or left to you if it is yours"}),
}

func cutting(how Cutting, says string, words Form) Kind {
	return toxic(string(how), says, Cut{How: how}, nil, words)
}

func (*Latency) Kind() string   { return "latency" }
func (*Jitter) Kind() string    { return "jitter" }
func (*Bandwidth) Kind() string { return "bandwidth" }
func (*Slices) Kind() string    { return "slices" }
func (*SlowClose) Kind() string { return "slow_close" }
func (c *Cut) Kind() string     { return string(c.How) }

func (l *Latency) Wire() Wire   { return Wire{Stream: l.Stream, Add: l.Add, Jitter: l.Jitter} }
func (j *Jitter) Wire() Wire    { return Wire{Stream: j.Stream, Add: j.By, Jitter: j.By} }
func (b *Bandwidth) Wire() Wire { return Wire{Stream: b.Stream, Rate: max(1, b.Rate)} }
func (s *Slices) Wire() Wire    { return Wire{Stream: s.Stream, Piece: max(1, s.Size), Apart: s.Delay} }
func (s *SlowClose) Wire() Wire { return Wire{Stream: s.Stream, Linger: s.Delay} }
func (c *Cut) Wire() Wire       { return Wire{Stream: StreamBoth, Cut: c.How} }

func (l *Latency) values() map[string]string {
	return map[string]string{"goes": l.Stream.words(), "add|0": figures.Spell(l.Add)}
}

func (j *Jitter) values() map[string]string {
	return map[string]string{"goes": j.Stream.words(), "twice": figures.Spell(2 * j.By), "by": figures.Spell(j.By)}
}

func (b *Bandwidth) values() map[string]string {
	return map[string]string{"goes": b.Stream.words(), "rate": fmt.Sprint(b.Rate)}
}

func (s *Slices) values() map[string]string {
	return map[string]string{"goes": s.Stream.words(), "size": fmt.Sprint(s.Size), "delay": figures.Spell(s.Delay)}
}

func (s *SlowClose) values() map[string]string {
	return map[string]string{"delay": figures.Spell(s.Delay)}
}
