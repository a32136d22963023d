package fault

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Mechanism makes faults of several kinds, confirms and undoes them: an injector, a reverter and a simulation each.
type Mechanism string

const (
	Signal  Mechanism = "signal"   // to a process
	Cluster Mechanism = "cluster"  // a call to the API server; of a process its signal
	Toxic   Mechanism = "toxic"    // on the replicas' ways to the store
	Command Mechanism = "command"  // to the store, or its server
	Burst   Mechanism = "burst"    // in the core, or at a lockdrill proxy
	Hooks   Mechanism = "commands" // of the user's
)

// Kind is a kind of fault: a row. Words are texts with values of the section in braces.
type Kind struct {
	Word, Says  string
	By          Mechanism
	New         func() any // its section in a file, with its defaults
	Formed      string     // the field that is its form
	Aims        string     // whom the file may name: "" = the store, or as it says itself
	Unplayed    string     // why it cannot be rehearsed
	Form                   // of all of its forms
	Forms       []Form
	Values      func(f any, t Traits) Traits // traits that depend on values, added to those that do not
	Unsupported func(f any, a Around) string // why it cannot be done here
	Constraints []Constraint

	formedAt []int          // where the section has Formed
	toxic    string         // what Toxiproxy calls it
	wire     func(any) Wire // nil = it is not of the ways to the store
}

// Form is what a fault of a form is: what it does to a drill, and its words. What it does not say is as its kind says.
type Form struct {
	Word   string
	Traits Traits
	Size   string // what is configured
	Does   string
	Seen   string // how that is confirmed
	Undone string
	Told   string // what it did
	Shows  string // what was measured of it
	Way    bool   // measured by a connection of our own, before and under it
	Pods   *Form  // in pods

	Unplayed string
}

// Constraint is what the values of a section must keep together.
type Constraint struct {
	At    string
	Why   func(f any, c Checker) string // "" = it is kept
	First bool                          // one of several that stand one after another: the first that is broken is told
}

// Fault is a section, or what an event tells of one, with the row of its kind: all that differs from kind to kind is asked of it.
type Fault struct {
	row     *Kind
	section any // a pointer
}

// Of is a section of a file with the row of its kind.
func Of(s Spec) Fault {
	for i := range table {
		if table[i].Word == s.Kind() {
			return Fault{&table[i], s}
		}
	}
	panic("fault: " + s.Kind() + " is not in the table")
}

// Kind is the word for it in files and events.
func (f Fault) Kind() string { return f.row.Word }

// By is what makes it.
func (f Fault) By() Mechanism { return f.row.By }

// Target is whom it strikes.
func (f Fault) Target() Aim {
	if s, is := f.section.(Spec); is {
		return s.Target()
	}
	return Aim{}
}

// form is what k is in the form of that word; a word that it has no form for is k itself.
func (k *Kind) form(word string) *Form {
	if i := slices.IndexFunc(k.Forms, func(f Form) bool { return f.Word == word }); i >= 0 {
		return &k.Forms[i]
	}
	return &k.Form
}

// complete is a row whose forms say all that they are, and that knows where its section has its form: both are asked for every fault of
// every drill.
func complete(k Kind) Kind {
	k.Forms = slices.Clone(k.Forms)
	for i := range k.Forms {
		f, whole := &k.Forms[i], k.Form
		whole.Word, whole.Pods, whole.Way, whole.Unplayed = f.Word, f.Pods, whole.Way || f.Way, f.Unplayed
		whole.Traits = over(whole.Traits, f.Traits)
		whole.Size, whole.Does, whole.Seen = cmp.Or(f.Size, whole.Size), cmp.Or(f.Does, whole.Does), cmp.Or(f.Seen, whole.Seen)
		whole.Undone, whole.Told, whole.Shows = cmp.Or(f.Undone, whole.Undone), cmp.Or(f.Told, whole.Told), cmp.Or(f.Shows, whole.Shows)
		*f = whole
	}
	if k.Formed != "" {
		k.formedAt = pathOf(reflect.TypeOf(k.New()).Elem(), k.Formed)
	}
	return k
}

// over lays what b sets over a.
func over(a, b Traits) Traits {
	to, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return a
}

func (f Fault) value(name string) (string, bool) {
	if x, ok := f.section.(interface{ values() map[string]string }); ok {
		if v, known := x.values()[name]; known {
			return v, true
		}
	}
	return valueOf(reflectOf(f.section), name)
}

// Form is its variant within the kind, as events carry it; "" where there is only one.
func (f Fault) Form() string {
	if x, ok := f.section.(interface{ form() string }); ok {
		return x.form()
	}
	if f.row.Formed == "" {
		return ""
	}
	return reflectOf(f.section).FieldByIndex(f.row.formedAt).String()
}

func (f Fault) formed() *Form { return f.row.form(f.Form()) }

// Magnitude is what is configured, in a person's words; "" where kind and form say all.
func (f Fault) Magnitude() string {
	return strings.Join(strings.Fields(fill(f.formed().Size, f.value)), " ")
}

// Traits are what conductor, judge and reports need to know of it.
func (f Fault) Traits() Traits {
	t := f.formed().Traits
	if f.row.Values != nil {
		t = f.row.Values(f.section, t)
	}
	return t
}

// Describe says what it does, for whoever plans it; in pods a fault may be another call.
func (f Fault) Describe(pods bool) Description {
	d := f.formed()
	if pods && d.Pods != nil {
		d = d.Pods
	}
	return Description{Does: fill(d.Does, f.value), Confirmed: fill(d.Seen, f.value), Undone: fill(d.Undone, f.value)}
}

// Action is what it did, in the words of a story. {victim}, {held}, {for}, {key}, {size}, {kind} and {kept} are of it.
func (f Fault) Action(s Shot) string {
	d := f.formed()
	if s.Pod && d.Pods != nil {
		d = d.Pods
	}
	told := map[string]string{"victim": s.Victim, "size": s.Configured, "key": s.Key, "kind": strings.ReplaceAll(f.row.Word, "_", " "), "held": "", "for": "", "then": "", "lasts": "", "alone": ""}
	if s.Holding {
		told["held"] = " holding " + s.Key
	}
	if s.Lasts > 0 {
		told["lasts"] = figures.Short(int64(s.Lasts))
		told["for"] = " for " + told["lasts"]
		if told["then"] = told["for"]; s.Holding {
			told["for"] = ", for " + told["lasts"]
		}
	}
	told["on"], told["size|an offset"] = "on "+s.Victim+told["held"]+told["for"], cmp.Or(s.Configured, "an offset")
	if s.Victim == "" {
		told["on"], told["alone"] = "", told["for"]
	}
	told["kept"] = map[bool]string{true: "kept", false: "lost"}[s.KeptData]
	if x, ok := f.section.(interface{ told(Shot, map[string]string) }); ok {
		x.told(s, told)
	}
	return fill(d.Told, func(name string) (string, bool) {
		if v, ok := told[name]; ok {
			return v, true
		}
		return f.value(name)
	})
}

// Measured says what was seen of it; "" where nothing was.
func (f Fault) Measured(m Measured) string {
	d := f.formed()
	secs := func(s float64) string { return figures.Short(figures.Nanoseconds(s)) }
	switch x, counts := f.section.(interface{ counted(Measured) string }); {
	case counts:
		return x.counted(m)
	case d.Way && (m.Baseline != 0 || m.Observed != 0 || m.Expected != 0):
		expected, observed := "at least "+secs(m.Expected)+" expected", secs(m.Observed)+" observed"
		if m.Expected == 0 {
			expected = "no answer expected"
		}
		if m.Observed == 0 {
			observed = "no answer observed"
		}
		return fmt.Sprintf("%s %s before, %s, %s", cmp.Or(d.Shows, "round trip"), secs(m.Baseline), expected, observed)
	case d.Way || d.Shows == "" || m.Observed == 0:
		return ""
	case m.Expected != 0:
		return fmt.Sprintf("%s %s, %s expected", d.Shows, secs(m.Observed), secs(m.Expected))
	}
	return d.Shows + " " + secs(m.Observed)
}

// Check holds the section against the laws of its kind, and of whom it strikes.
func (f Fault) Check(c Checker) {
	if a, ok := f.section.(Aimed); ok && f.row.Aims != "" {
		a.AimAt().check(c, f.section, f.row.Aims)
	}
	told := false
	for _, l := range f.row.Constraints {
		if l.First && told {
			continue
		}
		if why := l.Why(f.section, c); why != "" {
			told = told || l.First
			c.Check(l.At, "%s", fill(why, f.value))
		}
	}
}

// Unsupported says why it cannot be done to replicas such as these, and what can be done instead; "" = it can.
func (f Fault) Unsupported(a Around) string {
	if f.row.Unsupported == nil {
		return ""
	}
	return f.row.Unsupported(f.section, a)
}

// Unplayed says why it cannot be rehearsed; "" = it can.
func (f Fault) Unplayed() string { return cmp.Or(f.formed().Unplayed, f.row.Unplayed) }

// Seen is a fault as far as its events tell of it: kind, form, and where operations were made to fail. One of no known kind is Unknown:
// a history tells of it, and this version does not know what it does.
func Seen(word, form, via string) Fault {
	for i := range table {
		if k := &table[i]; k.Word == word {
			section := k.New()
			if k.Formed != "" && form != "" {
				reflectOf(section).FieldByIndex(k.formedAt).SetString(form)
			}
			if x, ok := section.(interface{ seen(form, via string) }); ok {
				x.seen(form, via)
			}
			return Fault{k, section}
		}
	}
	return Fault{&Kind{Word: word, Form: Form{Word: form, Traits: Traits{Unknown: true, Noun: "fault"},
		Does: "this lockdrill does not know faults of kind " + word, Told: "a fault of the unknown kind " + word + " {on}"}}, &unknown{form}}
}

type unknown struct{ word string }

func (u *unknown) form() string { return u.word }

func breaks[F any](at, says string, bad func(f *F, c Checker) bool) Constraint {
	return Constraint{At: at, Why: func(f any, c Checker) string {
		if bad(f.(*F), c) {
			return says
		}
		return ""
	}}
}

// because is a constraint whose words depend on what else the file says.
func because[F any](at string, why func(f *F, c Checker) string) Constraint {
	return Constraint{At: at, Why: func(f any, c Checker) string { return why(f.(*F), c) }}
}

func first(laws ...Constraint) []Constraint {
	for i := range laws {
		laws[i].First = true
	}
	return laws
}

func made[F any](defaults F) func() any {
	return func() any { f := defaults; return &f }
}

func values[F any](set func(f *F, t Traits) Traits) func(any, Traits) Traits {
	return func(f any, t Traits) Traits { return set(f.(*F), t) }
}

func unsupported[F any](why func(f *F, a Around) string) func(any, Around) string {
	return func(f any, a Around) string { return why(f.(*F), a) }
}

// table is all kinds, in the order in which files and messages list them.
var table = func() []Kind {
	rows := slices.Concat(signals[:3], bursts[:3], toxics, stores, bursts[3:], signals[3:], cluster, []Kind{objects})
	for i := range rows {
		rows[i] = complete(rows[i])
	}
	return rows
}()

// Kinds are the words of all kinds, in the order of the table.
func Kinds() []string {
	words := make([]string, len(table))
	for i := range table {
		words[i] = table[i].Word
	}
	return words
}

// Meaning is what faults of a kind are, in a sentence; "" = there is no such kind.
func Meaning(word string) string {
	if i := slices.IndexFunc(table, func(k Kind) bool { return k.Word == word }); i >= 0 {
		return table[i].Says
	}
	return ""
}

// New is the section of a kind with its defaults, or nil.
func New(word string) Spec {
	if s, known := Seen(word, "", "").section.(Spec); known {
		return s
	}
	return nil
}
