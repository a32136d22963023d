package fault

import (
	"slices"

	"github.com/lockdrill/lockdrill/lockcore"
)

// kind is one row of the table of kinds. made gives a fault of the kind and that form with its defaults; forms and ways that are not
// known leave it as it is by default.
type kind struct {
	word string
	made func(form, via string) Spec
}

// kinds is the table, in the order in which files and messages list them.
func kinds() []kind {
	return []kind{
		{"kill", newKill},
		{"pause", newPause},
		{"renew_failures", failing(lockcore.OpRenew)},
		{"acquire_failures", failing(lockcore.OpAcquire)},
		{"release_failures", failing(lockcore.OpRelease)},
		{"latency", newLatency},
		{"jitter", newJitter},
		{"bandwidth", newBandwidth},
		{"black_hole", cutting(Hole)},
		{"reset", cutting(Reset)},
		{"slow_close", newSlowClose},
		{"down", cutting(Down)},
		{"store", newStore},
		{"delete_key", newDeleteKey},
		{"clock", newClock},
	}
}

// Kinds are the words of all kinds, in the order of the table.
func Kinds() []string {
	var words []string
	for _, k := range kinds() {
		words = append(words, k.word)
	}
	return words
}

// New is a fault of that kind with its defaults, or nil.
func New(word string) Spec {
	if s := Seen(word, "", ""); !s.Traits().Unknown {
		return s
	}
	return nil
}

// Seen is a fault as far as its events tell of it: kind, form, and where operations were made to fail. One of no known kind is Unknown.
func Seen(word, form, via string) Spec {
	all := kinds()
	if i := slices.IndexFunc(all, func(k kind) bool { return k.word == word }); i >= 0 {
		return all[i].made(form, via)
	}
	return unknown{word, form}
}

// unknown is a fault of which a history tells, and this version does not know what it does.
type unknown struct{ word, form string }

func (u unknown) Kind() string            { return u.word }
func (u unknown) Form() string            { return u.form }
func (u unknown) Magnitude() string       { return "" }
func (u unknown) Target() Aim             { return Aim{} }
func (u unknown) Traits() Traits          { return Traits{Unknown: true, Noun: "fault"} }
func (u unknown) NotInPods(Around) string { return "" }
func (u unknown) Check(Checker)           {}
func (u unknown) Describe(bool) Description {
	return Description{Does: "this lockdrill does not know faults of kind " + u.word}
}
func (u unknown) Action(s Shot) string     { return "a fault of the unknown kind " + u.word + s.on() }
func (u unknown) Measured(Measured) string { return "" }
