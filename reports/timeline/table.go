package timeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// table collects rows in the order of time.
type table struct{ rows []timed }

type timed struct {
	at    float64
	cells []string
}

func (t *table) add(at float64, cells ...string) { t.rows = append(t.rows, timed{at, cells}) }

// cells of the table, in the order of time.
func (t *table) cells() [][]string {
	slices.SortStableFunc(t.rows, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	var out [][]string
	for _, r := range t.rows {
		out = append(out, r.cells)
	}
	return out
}

// rows says in text what the overview shows.
func (w *window) rows() [][]string {
	t := &w.table
	for _, p := range w.l.Phases {
		t.add(p.At, at(Moment{From: p.At, To: p.At}), "phase", "", "", p.Name)
	}
	for i := range w.l.Faults {
		w.faultRow(&w.l.Faults[i])
	}
	for i := range w.l.Trials {
		tr := &w.l.Trials[i]
		t.add(tr.Clock.From, at(tr.Clock), "takeover", tr.Victim+" to "+cmp.Or(tr.Successor, "nobody yet"), where(tr.Lock, tr.Key),
			bracket(tr.Whole())+" "+tr.Class+" "+tr.Fault)
	}
	for i := range w.l.Replicas {
		w.replicaRows(&w.l.Replicas[i])
	}
	for i := range w.l.Locks {
		lock := &w.l.Locks[i]
		for _, m := range lock.Again {
			t.add(m.At.From, at(m.At), m.What, m.Who, where(lock.Lock, m.Key), m.Note)
		}
		for _, b := range lock.Both {
			t.add(b.Start.From, at(b.Start), "two rely on it", b.A+" and "+b.B, where(lock.Lock, b.Key), "until "+at(b.End))
		}
		for k := range lock.Keys {
			w.holdRows(lock, &lock.Keys[k], len(lock.Keys) <= maxKeys)
		}
	}
	return t.cells()
}

func where(lock, key string) string {
	if key == "" || key == lock {
		return lock
	}
	return lock + " " + key
}

func (w *window) faultRow(f *FaultLane) {
	when, what := "never", "void shot"
	from := 0.0
	if m := firedAt(f); m != nil {
		when, from = at(*m), m.From
	}
	detail := f.Why
	if f.Effective != nil {
		what = "fault"
		detail = f.Configured
		if !f.Over.Open() && mid(f.Over) > mid(*f.Applied) {
			detail += " until " + at(f.Over)
		}
	}
	if f.Declared != nil {
		detail += " (declared for T+" + fixed(f.Declared.From) + "s)"
	}
	w.table.add(from, when, what, strings.Join(victims(f), ", "), where(f.Lock, f.Key), f.Op+" "+f.Kind+" "+detail)
}

func (w *window) replicaRows(r *ReplicaLane) {
	for i := range r.Lives {
		l := &r.Lives[i]
		w.table.add(l.Start.From, at(l.Start), "replica starts", OwnName(l.Incarnation, l.Called), "",
			figures.Count(len(l.Work))+" times at work, "+figures.Plural(len(l.Effects), "effect")+", "+figures.Count(len(l.Refused))+" refused")
		if l.Object != nil {
			w.table.add(l.Object.From, at(*l.Object), "pod's object gone", l.Incarnation, "", "no word on its process")
		}
		if l.Killed != "" && l.End.Open() {
			w.table.add(l.End.From, at(Moment{From: l.End.From, To: l.End.From}), "last sign of life", l.Incarnation, "", l.Killed+", its end not seen")
		}
		if !l.End.Open() {
			w.table.add(l.End.From, at(l.End), "replica ends", l.Incarnation, "", cmp.Or(l.Killed, l.Exit))
		}
	}
	for _, p := range r.Paused {
		w.table.add(p.Start.From, at(p.Start), "paused", r.Name, "", "until "+at(p.End))
	}
	for _, m := range r.Marks {
		w.table.add(m.At.From, at(m.At), m.What, m.Who, m.Key, m.Note)
	}
}

// holdRows lists every grant of a key, or how many there were.
func (w *window) holdRows(lock *LockLane, k *KeyLane, each bool) {
	if len(k.Holds) == 0 {
		return
	}
	if !each || len(k.Holds) > 40 {
		first := k.Holds[0].Granted
		w.table.add(first.From, at(first), "granted", "", where(lock.Lock, k.Key), figures.Count(len(k.Holds))+" times")
		return
	}
	for i := range k.Holds {
		h := &k.Holds[i]
		w.table.add(h.Granted.From, at(h.Granted), "granted", h.Replica, where(lock.Lock, k.Key), "epoch "+h.Epoch+", lease until "+at(h.End))
	}
}
