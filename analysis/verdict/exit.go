package verdict

import "slices"

// Exit statuses: a contract with every gate that calls lockdrill.
const (
	ExitPass         = 0
	ExitError        = 1
	ExitUsage        = 2
	ExitSLOFailed    = 10 // of a comparison: regressed
	ExitInconclusive = 11
	ExitAborted      = 12
	ExitRefused      = 13
	ExitImpossible   = 14
	ExitDirty        = 20
)

// Exit is one exit status.
type Exit struct {
	Code    int
	Name    string // as verdict.json and gates have it
	Meaning string
}

// Exits lists the contract by number.
func Exits() []Exit {
	return []Exit{
		{ExitPass, "pass", "every SLO met, evidence sufficient, clean-up verified"},
		{ExitError, "error", "the tool broke; no verdict"},
		{ExitUsage, "usage", "bad flag or file; nothing touched"},
		{ExitSLOFailed, "slo-failed", "at least one SLO violated (stays so if the run is aborted later)"},
		{ExitInconclusive, "inconclusive", "fault not confirmed, gap, no data, too few trials"},
		{ExitAborted, "aborted", "operator, signal or abort condition; clean-up verified"},
		{ExitRefused, "refused", "a guard said no before anything was touched"},
		{ExitImpossible, "impossible", "tune: no policy can keep what was asked; nothing touched"},
		{ExitDirty, "dirty", "clean-up not verified, a fault may be live; wins over all"},
	}
}

// ExitName is the name of a status of the contract.
func ExitName(code int) string {
	for _, e := range Exits() {
		if e.Code == code {
			return e.Name
		}
	}
	return "unknown"
}

// ExitPrecedence lists the statuses as they win over one another, the strongest first.
func ExitPrecedence() []int {
	return []int{ExitDirty, ExitError, ExitSLOFailed, ExitAborted, ExitInconclusive, ExitRefused, ExitImpossible, ExitUsage, ExitPass}
}

// WorstExit is the status of several things taken together; of none, a pass. One outside the contract counts as error.
func WorstExit(codes ...int) int {
	order := ExitPrecedence()
	rank := len(order) - 1
	for _, code := range codes {
		r := slices.Index(order, code)
		if r < 0 {
			r = slices.Index(order, ExitError)
		}
		rank = min(rank, r)
	}
	return order[rank]
}
