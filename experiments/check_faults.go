package experiments

import (
	"reflect"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
)

func (c *checker) faults() {
	ids := map[string]int{}
	for i := range c.e.Faults {
		f, path := &c.e.Faults[i], at("faults", i)
		if first, ok := ids[f.ID]; ok && f.ID != "" {
			c.check(path+".id", "a second fault called %q: the first is faults[%d]", f.ID, first)
		}
		ids[f.ID] = i
		switch kinds := c.kindsIn(path); len(kinds) {
		case 0:
			c.check(path, "does nothing: a fault has one of %s", strings.Join(fault.Kinds(), ", "))
			continue
		case 1:
		default:
			c.check(path, "has %s: a fault has exactly one kind", strings.Join(kinds, " and "))
			continue
		}
		c.fault(path, f)
		if r := f.Repeat; r.Every > 0 && r.Every < f.For {
			c.check(path+".repeat.every", "%s is under for %s: the fault would overlap itself", figures.Spell(r.Every), figures.Spell(f.For))
		}
	}
}

// kindsIn are the kinds that the fault at path has, in the order of the table.
func (c *checker) kindsIn(path string) []string {
	return slices.DeleteFunc(fault.Kinds(), func(word string) bool {
		n := c.places[path+"."+word]
		return n == nil || isNull(n)
	})
}

// fault checks one fault of one kind: whether it can be done at all, how long it lasts, and what is particular to the kind.
func (c *checker) fault(path string, f *Fault) {
	section := section{c, path + "." + f.Kind(), f}
	if why := f.Spec.Barred(section.Around()); why != "" {
		c.check(section.path, "%s", why)
		return
	}
	c.lasts(path, f)
	c.commands(section.path, f)
	f.Spec.Check(section)
}

// commands checks the words of commands that a fault runs: they stand in the journal and in the history.
func (c *checker) commands(path string, f *Fault) {
	runs, ok := f.Spec.(fault.Commanding)
	if !ok {
		return
	}
	for _, word := range []string{"do", "undo", "confirm"} {
		if words := runs.Runs().Lists()[word]; slices.ContainsFunc(words, func(w string) bool { return Redact(w) != w }) {
			c.check(path+"."+word, "has what looks like a secret, and is written down with the run: let the command take it from its environment")
		}
	}
}

// lasts checks the duration of a fault: whatever would go on by itself has one, and an instant has none.
func (c *checker) lasts(path string, f *Fault) {
	t := f.Traits()
	switch {
	case f.For == 0 && t.GoesOn != "" && !c.touched(path+"."+f.Kind()+".count"):
		c.check(path+".for", "missing: %s", t.GoesOn)
	case f.For != 0 && t.Instant != "":
		c.check(path+".for", "%s is an instant: it has no duration", t.Instant)
	}
}

// section is what the file says in and around the section of a fault's kind.
type section struct {
	c    *checker
	path string
	f    *Fault
}

func (s section) at(field string) string {
	if field == "" {
		return s.path
	}
	return s.path + "." + field
}

func (s section) Around() fault.Around {
	e := s.c.e
	a := fault.Around{
		For: s.f.For, TimeScale: e.TimeScale, Faults: len(e.Faults), Redis: string(e.Redis.Mode), Allow: e.Redis.Allow,
		Pods: s.c.inPods(), Observed: e.Observed(), PodsProxy: e.Proxy.Mode == ProxyExternal,
	}
	if !s.c.touched("system.replicas") {
		a.Replicas = e.ReplicaNames()
	}
	return a
}

func (s section) Given(field string) bool { return s.c.places[s.at(field)] != nil }

func (s section) Check(field, format string, args ...any) { s.c.check(s.at(field), format, args...) }

func (s section) CheckLabels(field string, labels map[string]string) { s.c.labels(s.at(field), labels) }

func (s section) Lock(field, name string) *fault.Lock {
	if l := s.c.sound(s.at(field), name); l != nil {
		return s.lock(l)
	}
	return nil
}

func (s section) Locks() []*fault.Lock {
	var all []*fault.Lock
	for i := range s.c.e.System.Locks {
		l := &s.c.e.System.Locks[i]
		if l.Policy.TTL == 0 {
			return nil
		}
		all = append(all, s.lock(l))
	}
	return all
}

func (s section) lock(l *Lock) *fault.Lock {
	return &fault.Lock{Name: l.Name, Policy: &l.Policy, Unrenewed: s.c.neverRenewed(l), Lease: l.Lease != ""}
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
