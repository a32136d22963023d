package experiments

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// failures checks a burst of failing operations.
func (c *checker) failures(path string, f *Fault) {
	b := f.Failures()
	if (b.Mode == FailDelay) != (b.Delay > 0) {
		if b.Delay > 0 {
			c.check(path+".delay", "is for mode delay, not %s", b.Mode)
		} else {
			c.check(path+".delay", "missing: mode delay holds operations back for so long")
		}
	}
	if b.Lock != "" && b.HolderOf != "" {
		c.check(path+".lock", "is for replica or all: with holder_of only operations on the held key fail")
	}
	if b.Delay > 0 && f.For > 0 && b.Delay >= f.For {
		c.check(path+".delay", "%s is not under for %s: no operation would come back while the fault lasts", formatDuration(b.Delay), formatDuration(f.For))
	}
	locks, at := c.struck(path, b)
	why := ""
	for _, l := range locks {
		if why = c.never(f, l); why == "" {
			return
		}
	}
	if why != "" {
		c.check(at, "%s", why)
	}
}

// struck are the locks whose operations a burst makes fail, as far as they are sound, and the path to complain about.
func (c *checker) struck(path string, b *OpFailures) ([]*Lock, string) {
	name, at := b.HolderOf, path+".holder_of"
	if b.HolderOf == "" && b.Lock != "" {
		name, at = b.Lock, path+".lock"
	}
	if name != "" {
		if l := c.sound(at, name); l != nil {
			return []*Lock{l}, path
		}
		return nil, path
	}
	var all []*Lock
	for i := range c.e.System.Locks {
		if l := &c.e.System.Locks[i]; l.Policy.TTL > 0 {
			all = append(all, l)
		}
	}
	if len(all) != len(c.e.System.Locks) {
		return nil, path
	}
	return all, path
}

// never says why no operation of the kind that is to fail ever comes under the lock, or "".
func (c *checker) never(f *Fault, l *Lock) string {
	switch {
	case f.RenewFailures != nil:
		if why := c.neverRenewed(l); why != "" {
			return "there is no renewal to fail: " + why
		}
	case f.ReleaseFailures != nil:
		if l.Policy.Release.Mode == lockcore.ReleaseNone {
			return fmt.Sprintf("there is no release to fail: lock %s is left to its TTL (release none)", l.Name)
		}
	}
	return ""
}

// neverRenewed says why no holder of the lock ever renews it, or "".
func (c *checker) neverRenewed(l *Lock) string {
	p := &l.Policy
	first := time.Duration(float64(p.RenewEvery) * (1 - p.RenewJitter))
	if p.RenewEvery == 0 {
		return fmt.Sprintf("lock %s is not renewed (renew_every 0s)", l.Name)
	}
	if l.Loop() {
		if p.Loop.Mode != lockcore.LoopRenewed && p.Loop.Tick <= first {
			return fmt.Sprintf("lock %s is renewed only during a tick, and a tick of %s ends before the first renewal after %s",
				l.Name, formatDuration(p.Loop.Tick), formatDuration(first))
		}
		return ""
	}
	for _, w := range c.e.System.Work {
		if w.Lock == l.Name && w.Hold.P50 == w.Hold.P99 && w.Hold.P99 > 0 && w.Hold.P99 <= first {
			return fmt.Sprintf("work of %s under lock %s ends before the first renewal after %s",
				formatDuration(w.Hold.P99), l.Name, formatDuration(first))
		}
	}
	return ""
}
