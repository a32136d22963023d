package fault

import "fmt"

// Terminate ends the session that holds a lock of a PostgreSQL, which the lock goes with; its owner lives on, and is not asked.
type Terminate struct {
	HolderOf string `rule:"required"` // a lock: the session that holds it when the fault is fired
}

func newTerminate(string, string) Spec { return &Terminate{} }

func (*Terminate) Kind() string             { return "terminate" }
func (*Terminate) Form() string             { return "" }
func (*Terminate) Magnitude() string        { return "" }
func (t *Terminate) Target() Aim            { return Aim{HolderOf: t.HolderOf} }
func (*Terminate) Barred(Around) string     { return "" }
func (*Terminate) Measured(Measured) string { return "" }

func (*Terminate) Traits() Traits {
	return Traits{Class: ClassTheft, Noun: "termination", Instant: "the end of a session", AtKey: true, Session: true, AtOnce: true}
}

func (t *Terminate) Check(c Checker) {
	c.Lock("holder_of", t.HolderOf)
	if c.Around().Store != "postgres" {
		c.Check("", "ends the session that holds an advisory lock: it is for store: {kind: postgres}")
	}
}

func (*Terminate) Describe(bool) Description {
	return Description{"pg_terminate_backend of the session that holds the lock: the lock is free, and its holder is not asked",
		"pg_stat_activity no longer has that session", "nothing is put back: the holder's next statement fails"}
}

func (*Terminate) Action(s Shot) string {
	return fmt.Sprintf("ended the session of %s, which held %s", s.Victim, s.Key)
}
