package fault

// Node takes the node on which the holder of a lock runs out of service: cordon lets no new pod onto it, drain evicts the drill's pods
// from it as well. No other pod is touched.
type Node struct {
	HolderOf string `rule:"required"`                    // a lock: the node on which its holder runs when the fault is fired
	Do       NodeDo `rule:"required,words=drain|cordon"` // drain: cordon, and evict the drill's own pods from it
}

// NodeDo is what is done to the node.
type NodeDo string

const (
	Drain  NodeDo = "drain"
	Cordon NodeDo = "cordon"
)

func newNode(form, _ string) Spec { return &Node{Do: NodeDo(form)} }

func (*Node) Kind() string      { return "node" }
func (n *Node) Form() string    { return string(n.Do) }
func (*Node) Magnitude() string { return "" }
func (n *Node) Target() Aim     { return Aim{HolderOf: n.HolderOf} }

// Moment: as a kill, a drain strikes at an instant of the lease.
func (n *Node) Moment() Phase {
	if n.Do == Drain {
		return RandomPhase
	}
	return ""
}

// Traits: a cordon keeps nobody from a lease; of a drain all the drill's pods of the node are victims, and each has its own grace.
func (n *Node) Traits() Traits {
	t := Traits{Noun: "cordon", Called: "cordoned node", GoesOn: "a node stays cordoned until it is uncordoned", CordonsNode: true}
	if n.Do == Drain {
		t.Class, t.Noun, t.Called = ClassHandOver, "drain", "drained node"
		t.Kills, t.Evicts, t.WholeNode = true, true, true
	}
	return t
}

func (*Node) Barred(a Around) string {
	if !a.Pods {
		return "is for replicas in pods, and there is no kubernetes section: a hook can run a command of yours"
	}
	return ""
}

func (n *Node) Check(c Checker) {
	c.Lock("holder_of", n.HolderOf)
	if around := c.Around(); n.Do == Drain && around.TimeScale != 1 && !around.Observed && around.Pods {
		c.Check("do", "drain needs time_scale 1: the grace of a pod does not scale")
	}
}

func (n *Node) Describe(bool) Description {
	const undone = "the node is uncordoned if it still bears the run's mark, which is read back"
	if n.Do == Drain {
		return Description{"cordons the node of the holder and evicts the drill's pods from it, within their disruption budgets; pods of others stay",
			"the node takes no pods, the pods are gone, and the holder's process is seen to end; an eviction that a budget blocks is void", undone}
	}
	return Description{"cordons the node of the holder: no new pod comes onto it", "the node says that it takes no pods", undone}
}

func (n *Node) Action(s Shot) string {
	if n.Do == Drain {
		return "drained the node of " + s.Victim + s.held() + s.lasting()
	}
	return "cordoned the node of " + s.Victim + s.held() + s.lasting()
}

func (*Node) Measured(Measured) string { return "" }
