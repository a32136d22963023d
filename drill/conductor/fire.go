package conductor

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/lockdrill/lockdrill/history"
)

// Event is what all events of the shot have in common, without their source.
func (f *Fire) Event() history.Event {
	e := history.Event{
		Lock: f.Fault.Lock(), Key: f.Key, Op: fmt.Sprintf("%s#%d", f.Fault.ID, f.Shot),
		Fault: &history.Fault{
			ID: f.Fault.ID, Shot: f.Shot, Kind: f.Fault.Kind(), Form: f.Fault.Form(), Timing: f.Timing, Anchor: f.Anchor, Victims: f.Victims,
			Declared: int64(f.For), Configured: f.Fault.Magnitude(),
		},
	}
	t := f.Fault.Traits()
	e.Fault.Want, e.Fault.Via = int64(t.Count), t.Via
	return e
}

// Resolve asks the store whom the key names, and the claims who that is. It fills in the victim, or says why there is none. An error of
// holder may bring its own word for that.
func (c *Conductor) Resolve(f *Fire, shot *history.Event, holder func() (epoch string, held bool, err error)) (why history.VoidReason, detail string) {
	switch {
	case f.Why != "":
		return cmp.Or(f.Word, history.NoTarget), f.Why
	case f.Fault.Traits().Elsewhere:
		return "", ""
	case f.Fault.Lock() == "" && len(f.Victims) == 0:
		shot.Fault.Victim = history.VictimStore
		return "", ""
	case f.Fault.Lock() == "":
		if len(f.Victims) == 1 {
			shot.Fault.Victim = f.Victims[0]
		}
		return "", f.Said
	}
	epoch, held, err := holder()
	var void interface{ Void() history.VoidReason }
	switch {
	case errors.As(err, &void):
		return void.Void(), err.Error()
	case err != nil:
		return history.NoTarget, "the lock key could not be read: " + err.Error()
	case !held:
		return history.Moved, "the lock key was free at the moment of firing"
	}
	victim, alive := c.owner(f.Key, epoch)
	if ep := c.world.epoch(f.Key, epoch); ep != nil { // the store may have an id of its own for it
		epoch = ep.id
	}
	switch {
	case victim == "":
		return history.NoTarget, fmt.Sprintf("the lock key names epoch %s, which no replica has claimed", epoch)
	case !alive:
		return history.NoTarget, fmt.Sprintf("the lock key still names %s, which is dead", victim)
	case f.Epoch != "" && f.Epoch != epoch:
		detail = fmt.Sprintf("the claims named epoch %s, the store names %s", f.Epoch, epoch)
	}
	shot.Epoch, shot.Fault.Victim = epoch, victim
	return "", detail
}
