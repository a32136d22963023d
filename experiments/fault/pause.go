package fault

// Pause is SIGSTOP of a replica, and SIGCONT when its time is up: a long garbage collection.
type Pause struct{ Aim }

func newPause(string, string) Spec { return &Pause{} }

func (*Pause) Kind() string      { return "pause" }
func (*Pause) Form() string      { return "" }
func (*Pause) Magnitude() string { return "" }

func (*Pause) Traits() Traits {
	return Traits{Class: ClassPause, Noun: "pause", GoesOn: "a pause goes on until it is ended", InVictim: true, Stands: 1}
}

// Whom: of every replica nobody would be left to take over.
func (*Pause) Whom() string { return "holder_of or replica" }

func (*Pause) Barred(a Around) string { return notStopped(a, "the pause") }

// notStopped says why no process in a pod is stopped.
func notStopped(a Around, what string) string {
	const why = "SIGSTOP of a process in a pod takes an agent on its node, which lockdrill has not"
	switch {
	case !a.Pods:
		return ""
	case a.Observed:
		return why + instead
	}
	return why + ": cut the holder off with black_hole, or drill " + what + " with processes (without a kubernetes section)"
}

const instead = "; kill the holder, or drill the same policy with lockdrill's workers (mode embedded)"

func (p *Pause) Check(c Checker) {
	p.check(c, p.Whom(), true)
	if p.All && p.HolderOf == "" && p.Replica == "" {
		c.Check("all", "a pause of every replica leaves nobody to take over: %s", p.Whom())
	}
}

func (*Pause) Describe(bool) Description {
	return Description{"SIGSTOP of the replica, as a long garbage collection", "all its threads stand still, the whole time", "SIGCONT; the process goes on, which is read back"}
}

func (*Pause) Action(s Shot) string       { return "SIGSTOP " + s.Victim + s.held() + s.lasting() }
func (*Pause) Measured(m Measured) string { return m.as("stood still for") }
