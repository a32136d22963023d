package fault

import (
	"fmt"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// DeleteKey removes the key of a held lock under its holder.
type DeleteKey struct {
	HolderOf string `rule:"required"`       // a lock: the key that is held when the fault is fired
	To       string `rule:"words=stranger"` // stranger: for its time the key carries a token that nobody knows; left out: it vanishes
}

// Stranger is the form in which the key is given to a stranger.
const Stranger = "stranger"

func newDeleteKey(form, _ string) Spec {
	if form == Stranger {
		return &DeleteKey{To: Stranger}
	}
	return &DeleteKey{}
}

func (*DeleteKey) Kind() string { return "delete_key" }

func (d *DeleteKey) Form() string {
	if d.To != "" {
		return d.To
	}
	return "vanish"
}

func (*DeleteKey) Magnitude() string { return "" }
func (d *DeleteKey) Target() Aim     { return Aim{HolderOf: d.HolderOf} }

func (d *DeleteKey) Traits() Traits {
	t := Traits{Class: ClassTheft, Noun: "deletion", AtKey: true}
	if t.Plants = d.To != ""; t.Plants {
		t.GoesOn = "the stranger would keep the key"
		return t
	}
	t.Instant, t.AtOnce = "a key that vanishes", true
	return t
}

func (*DeleteKey) Barred(a Around) string {
	if a.Observed && a.Redis != "external" {
		return notInRedis
	}
	return ""
}

func (d *DeleteKey) Check(c Checker) {
	if l := c.Lock("holder_of", d.HolderOf); l != nil && l.Lease {
		c.Check("holder_of", "lock %s is a Lease object, and no key of a Redis: kill the holder", l.Name)
	}
	checkAllowed(c, d.Kind())
}

func (d *DeleteKey) Describe(bool) Description {
	if d.To != "" {
		return Description{"the key of the held lock gets a token that nobody knows", "the key is read back and carries that token",
			"the key is removed if it still carries that token, which is read back"}
	}
	return Description{"the key of the held lock is deleted under its holder", "the key is read back: it is gone, or another's",
		"nothing is put back: the holder's next renewal is told that the lock is lost"}
}

func (d *DeleteKey) Action(s Shot) string {
	if d.To != "" {
		return fmt.Sprintf("gave %s of %s to a stranger for %s", s.Key, s.Victim, figures.Short(int64(s.Lasts)))
	}
	return fmt.Sprintf("deleted %s of %s", s.Key, s.Victim)
}

func (*DeleteKey) Measured(m Measured) string { return m.as("took") }
