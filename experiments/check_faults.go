package experiments

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

func (c *checker) faults() {
	ids := map[string]int{}
	for i := range c.e.Faults {
		f, path := &c.e.Faults[i], at("faults", i)
		if first, ok := ids[f.ID]; ok && f.ID != "" {
			c.check(path+".id", "a second fault called %q: the first is faults[%d]", f.ID, first)
		}
		ids[f.ID] = i
		if kinds := setPointers(f); len(kinds) == 0 {
			c.check(path, "does nothing: a fault has one of %s", strings.Join(faultKinds(), ", "))
			continue
		} else if len(kinds) > 1 {
			c.check(path, "has %s: a fault has exactly one kind", strings.Join(kinds, " and "))
			continue
		}
		c.fault(path, f)
		if r := f.Repeat; r.Every > 0 && r.Every < f.For {
			c.check(path+".repeat.every", "%s is under for %s: the fault would overlap itself", formatDuration(r.Every), formatDuration(f.For))
		}
	}
}

// fault checks one fault of one kind: whom it strikes, how long it lasts, and what is particular to the kind.
func (c *checker) fault(path string, f *Fault) {
	kind := path + "." + f.Kind()
	if why := c.notInPods(f); why != "" {
		c.check(kind, "%s", why)
		return
	}
	c.lasts(path, f)
	c.tooFine(kind, f)
	if f.aim() != nil {
		c.aims(kind, f)
	}
	switch {
	case f.Kill != nil:
		c.kill(path, f)
	case f.Failures() != nil:
		c.failures(kind, f)
	case f.Latency != nil && f.Latency.Add == 0 && f.Latency.Jitter == 0:
		c.check(kind, "delays nothing: needs add, jitter, or both")
	case f.Store != nil:
		c.store(kind, f.Store)
	case f.DeleteKey != nil:
		c.lock(kind+".holder_of", f.DeleteKey.HolderOf)
		c.allowedOutside(kind, KindDeleteKey)
	case f.Clock != nil && f.Clock.Offset == 0:
		c.check(kind+".offset", "0s moves nothing")
	}
}

// tooFine refuses what a Toxiproxy cannot do: it would do a whole millisecond, which nobody declared.
func (c *checker) tooFine(path string, f *Fault) {
	delays := map[string]time.Duration{}
	switch {
	case f.Latency != nil:
		delays["add"], delays["jitter"] = f.Latency.Add, f.Latency.Jitter
	case f.Jitter != nil:
		delays["by"] = f.Jitter.By
	case f.SlowClose != nil:
		delays["delay"] = f.SlowClose.Delay
	}
	for field, d := range delays {
		if d > 0 && c.scaled(d) < time.Millisecond {
			c.check(path+"."+field, "%s, after time_scale, is under 1ms, the least that a Toxiproxy can do", formatDuration(c.scaled(d)))
		}
	}
}

// scaled is how long a duration of the file takes.
func (c *checker) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.e.TimeScale)
}

// faultKinds are the words of Fault.Kind.
func faultKinds() []string {
	var kinds []string
	for _, f := range fieldsOf(reflect.TypeFor[Fault](), nil) {
		if f.typ.Kind() == reflect.Pointer {
			kinds = append(kinds, f.name)
		}
	}
	return kinds
}

// lasts checks the duration of a fault: whatever would go on by itself has one, and an instant has none.
func (c *checker) lasts(path string, f *Fault) {
	if f.For == 0 {
		if why := f.goesOn(); why != "" && !c.touched(path+"."+f.Kind()+".count") {
			c.check(path+".for", "missing: %s", why)
		}
		return
	}
	if why := f.instant(); why != "" {
		c.check(path+".for", "%s is an instant: it has no duration", why)
	}
}

// goesOn says why a fault would not end by itself, or "".
func (f *Fault) goesOn() string {
	switch {
	case f.Pause != nil:
		return "a pause goes on until it is ended"
	case f.Clock != nil:
		return "a clock stays wrong until it is set right"
	case f.Net():
		return "a fault of the network goes on until it is ended"
	case f.Failures() != nil && f.Failures().Count == 0:
		return "without a count the operations would fail without end"
	case f.DeleteKey != nil && f.DeleteKey.To != "":
		return "the stranger would keep the key"
	case f.Store != nil && f.Store.Do.lasts():
		return fmt.Sprintf("a %s of the store goes on until it is ended", f.Store.Do)
	}
	return ""
}

// instant names a fault that is over at once, or "".
func (f *Fault) instant() string {
	switch {
	case f.Kill != nil:
		return "a kill"
	case f.DeleteKey != nil && f.DeleteKey.To == "":
		return "a key that vanishes"
	case f.Store != nil && f.Store.Do != "" && !f.Store.Do.lasts():
		return fmt.Sprintf("a %s of the store", f.Store.Do)
	}
	return ""
}

// lasts reports whether what is done to the store has to be ended.
func (d StoreDo) lasts() bool { return d == StorePause || d == StoreFreeze || d == StoreStop }

// aims checks whom a fault strikes.
func (c *checker) aims(path string, f *Fault) {
	a, given := f.aim(), []string{}
	for _, w := range []struct {
		word string
		set  bool
	}{{"holder_of", a.HolderOf != ""}, {"replica", a.Replica != ""}, {"all", a.All}} {
		if w.set {
			given = append(given, w.word)
		}
	}
	words := "holder_of, replica or all: true"
	if f.Pause != nil {
		words = "holder_of or replica"
	}
	switch {
	case len(given) > 1:
		c.check(path, "has %s: a fault strikes one of %s", strings.Join(given, " and "), words)
	case len(given) == 0 && !f.Net():
		c.check(path, "does not say whom it strikes: %s", words)
	case f.Pause != nil && a.All:
		c.check(path+".all", "a pause of every replica leaves nobody to take over: %s", words)
	}
	if a.HolderOf != "" {
		c.lock(path+".holder_of", a.HolderOf)
	}
	if a.Replica != "" && !c.touched("system.replicas") && !slices.Contains(c.replicas(), a.Replica) {
		c.check(path+".replica", "no replica is called %q: there are r1 to r%d", a.Replica, c.e.System.Replicas)
	}
}

// replicas are the names of the replicas.
func (c *checker) replicas() []string {
	names := make([]string, c.e.System.Replicas)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i+1)
	}
	return names
}

// setPointers names the pointer fields of a union that are set, as a file spells them.
func setPointers(union any) []string {
	v := reflect.ValueOf(union).Elem()
	var names []string
	for _, f := range fieldsOf(v.Type(), nil) {
		if f.typ.Kind() == reflect.Pointer && !v.FieldByIndex(f.index).IsNil() {
			names = append(names, f.name)
		}
	}
	return names
}
