package verdict

import "github.com/lockdrill/lockdrill/history"

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

// String is the reason in a few words: the code that the history has for it, and the detail.
func (v Void) String() string {
	word := string(v.Code)
	switch v.Code {
	case VoidUnnamed:
		word = "unknown holder"
	case VoidDisputed:
		word = "disputed holder"
	case VoidNoTime:
		word = string(VoidUnconfirmed)
	case VoidBudget:
		word = "blocked by a disruption budget"
	case VoidNotReturned:
		word = "replica not replaced"
	case VoidNeverApplied:
		return "never applied"
	case VoidNothingOwed:
		return "nothing owed: all work under the victim's keys was finished"
	case VoidJobsEnded:
		return "all jobs had ended, so nobody held the lock"
	case VoidNoDemand:
		return "no demand: no other replica wanted the key"
	case VoidWrongVictim:
		return "wrong victim: the lease was extended after the victim had died, so another replica held the lock"
	case VoidUndecided:
		return "undecided: the lock changed hands before its lease was over, and nothing shows whether its holder gave it back"
	}
	if v.Detail == "" {
		return word
	}
	return word + ": " + v.Detail
}

// NeverFired is a fault that the file declares and that did not come to its first shot.
type NeverFired struct {
	ID    string `json:"id"`
	Shots int    `json:"shots"` // declared
}
