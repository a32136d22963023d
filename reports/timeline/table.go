package timeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// table collects rows in the order of time.
type table []timed

type timed struct {
	at    float64
	cells []string
}

func (t *table) add(m Moment, what, who, where, detail string) {
	*t = append(*t, timed{m.From, []string{at(m), what, who, where, detail}})
}

// rowsOfRun says in text what the overview shows.
func rowsOfRun(l *Lanes) (out [][]string) {
	t := &table{}
	for _, p := range l.Phases {
		t.add(Moment{From: p.At, To: p.At}, "phase", "", "", p.Name)
	}
	for i := range l.Faults {
		t.fault(&l.Faults[i])
	}
	for i := range l.Trials {
		x := &l.Trials[i]
		t.add(x.Clock, "takeover", x.Victim+" to "+cmp.Or(x.Successor, "nobody yet"), where(x.Lock, x.Key), bracket(x.Whole())+" "+x.Class+" "+x.Fault)
	}
	for i := range l.Replicas {
		t.replica(&l.Replicas[i])
	}
	for _, lock := range l.Locks {
		for _, m := range lock.Again {
			t.add(m.At, m.What, m.Who, where(lock.Lock, m.Key), m.Note)
		}
		for _, b := range lock.Both {
			t.add(b.Start, "two rely on it", b.A+" and "+b.B, where(lock.Lock, b.Key), "until "+at(b.End))
		}
		for _, k := range lock.Keys {
			t.holds(where(lock.Lock, k.Key), k.Holds, len(lock.Keys) <= maxKeys)
		}
	}
	slices.SortStableFunc(*t, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	for _, r := range *t {
		out = append(out, r.cells)
	}
	return out
}

func where(lock, key string) string {
	if key == "" || key == lock {
		return lock
	}
	return lock + " " + key
}

func (t *table) fault(f *FaultLane) {
	what, detail := "void shot", f.Why
	if f.Effective != nil {
		what, detail = "fault", f.Configured
		if !f.Over.Open() && mid(f.Over) > mid(*f.Applied) {
			detail += " until " + at(f.Over)
		}
	}
	if f.Declared != nil {
		detail += " (declared for T+" + fixed(f.Declared.From) + "s)"
	}
	row := timed{0, []string{"never", what, strings.Join(f.victims(), ", "), where(f.Lock, f.Key), f.Op + " " + f.Kind + " " + detail}}
	if m := f.Fired(); m != nil {
		row.at, row.cells[0] = m.From, at(*m)
	}
	*t = append(*t, row)
}

func (t *table) replica(r *ReplicaLane) {
	for i := range r.Lives {
		l := &r.Lives[i]
		t.add(l.Start, "replica starts", OwnName(l.Incarnation, l.Called), "",
			figures.Count(len(l.Work))+" times at work, "+figures.Plural(len(l.Effects), "effect")+", "+figures.Count(len(l.Refused))+" refused")
		if l.Object != nil {
			t.add(*l.Object, "pod's object gone", l.Incarnation, "", "no word on its process")
		}
		if !l.End.Open() {
			t.add(l.End, "replica ends", l.Incarnation, "", cmp.Or(l.Killed, l.Exit))
		} else if l.Killed != "" {
			t.add(Moment{From: l.End.From, To: l.End.From}, "last sign of life", l.Incarnation, "", l.Killed+", its end not seen")
		}
	}
	for _, p := range r.Paused {
		t.add(p.Start, "paused", r.Name, "", "until "+at(p.End))
	}
	for _, m := range r.Marks {
		t.add(m.At, m.What, m.Who, m.Key, m.Note)
	}
}

// holds lists every grant of a key, or how many there were.
func (t *table) holds(where string, hs []Hold, each bool) {
	if len(hs) > 0 && (!each || len(hs) > 40) {
		t.add(hs[0].Granted, "granted", "", where, figures.Count(len(hs))+" times")
		return
	}
	for _, h := range hs {
		t.add(h.Granted, "granted", h.Replica, where, "epoch "+h.Epoch+", lease until "+at(h.End))
	}
}
