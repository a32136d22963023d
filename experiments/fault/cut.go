package fault

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

// cutting makes faults of one of the three kinds.
func cutting(how Cutting) func(string, string) Spec {
	return func(string, string) Spec { return &Cut{How: how} }
}

func (c *Cut) Kind() string    { return string(c.How) }
func (*Cut) Form() string      { return "" }
func (*Cut) Magnitude() string { return "" }

func (c *Cut) Wire() Wire     { return Wire{Stream: StreamBoth, Cut: c.How} }
func (c *Cut) Traits() Traits { return onWays(c.Wire()) }

func (*Cut) Barred(a Around) string { return noProxy(a) }
func (c *Cut) Check(to Checker)     { c.checkWay(to) }

func (c *Cut) Describe(bool) Description {
	return map[Cutting]Description{
		Hole:  {"nothing gets through, and connections stay open", "a call through the proxy gets no answer, and the replica's own get none", toxicOff},
		Reset: {"connections are reset", "a connection through the proxy is reset, and the replica's own are", toxicOff},
		Down: {"nobody listens where the replica reaches the store", "a connection to the proxy is refused, and the replica's own are gone",
			"the proxy is enabled again and read back; where that hangs, it is made again, or left to you if it is yours"},
	}[c.How]
}

func (c *Cut) Action(s Shot) string     { return onTheWay(c, s) }
func (*Cut) Measured(m Measured) string { return m.onWay("") }
