package verdict

import (
	"cmp"

	"github.com/lockdrill/lockdrill/history"
)

// VoidCode says why a shot of a fault, or one trial of it, counts for nothing.
type VoidCode string

// What the history says, and what the judge concludes.
const (
	VoidNoTarget     = VoidCode(history.NoTarget)
	VoidMoved        = VoidCode(history.Moved)
	VoidEnded        = VoidCode(history.Ended)
	VoidUnconfirmed  = VoidCode(history.Unconfirmed)
	VoidFailed       = VoidCode(history.FaultFailed)
	VoidUnnamed      = VoidCode(history.HolderUnknown)
	VoidDisputed     = VoidCode(history.HolderDisputed)
	VoidNotReturned  = VoidCode(history.NotReturned)
	VoidBudget       = VoidCode(history.Budget)
	VoidNoTime       = VoidCode("no_time") // unconfirmed, since the run ended first
	VoidUnknown      = VoidCode("unknown") // this lockdrill does not know the kind
	VoidNeverApplied = VoidCode("never_applied")
	VoidNothingOwed  = VoidCode("nothing_owed") // the victim's work was finished
	VoidNoDemand     = VoidCode("no_demand")    // nobody else wanted the key
	VoidJobsEnded    = VoidCode("jobs_ended")   // nobody held the lock, since its jobs had ended
	VoidWrongVictim  = VoidCode("wrong_victim") // whom the sources named had died, and the lease was extended all the same
	VoidUndecided    = VoidCode("undecided")    // given back or taken away: nothing tells
)

// Void is one such reason; the zero Void is none. Detail is for a person.
type Void struct {
	Code   VoidCode
	Detail string
}

// VoidOf is the reason that a fault.void gives.
func VoidOf(f *history.Fault) Void {
	code := VoidCode(f.Why)
	if f.Why == history.Unconfirmed && f.Detail == history.RunEndedFirst {
		code = VoidNoTime
	}
	return Void{code, f.Detail}
}

// IsVoid reports that there is a reason.
func (v Void) IsVoid() bool { return v != Void{} }

// voidWords say in few words what the code alone would not. Those that are whole take no detail.
var voidWords = map[VoidCode]struct {
	word  string
	whole bool
}{
	VoidUnnamed:      {"unknown holder", false},
	VoidDisputed:     {"disputed holder", false},
	VoidNoTime:       {string(VoidUnconfirmed), false},
	VoidBudget:       {"blocked by a disruption budget", false},
	VoidNotReturned:  {"replica not replaced", false},
	VoidNeverApplied: {"never applied", true},
	VoidNothingOwed:  {"nothing owed: all work under the victim's keys was finished", true},
	VoidJobsEnded:    {"all jobs had ended, so nobody held the lock", true},
	VoidNoDemand:     {"no demand: no other replica wanted the key", true},
	VoidWrongVictim:  {"wrong victim: the lease was extended after the victim had died, so another replica held the lock", true},
	VoidUndecided:    {"undecided: the lock changed hands before its lease was over, and nothing shows whether its holder gave it back", true},
}

// String is the reason in a few words: the code that the history has for it, and the detail.
func (v Void) String() string {
	says := voidWords[v.Code]
	word := cmp.Or(says.word, string(v.Code))
	if says.whole || v.Detail == "" {
		return word
	}
	return word + ": " + v.Detail
}

// NeverFired is a fault that the file declares and that did not come to its first shot.
type NeverFired struct {
	ID    string `json:"id"`
	Shots int    `json:"shots"` // declared
}
