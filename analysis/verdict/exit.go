package verdict

// Status of a run.
const (
	StatusCompleted = "completed"
	StatusAborted   = "aborted"
	StatusError     = "error"
	StatusCutOff    = "cut-off"
)

// Exit statuses, the numbers of the contract that `lockdrill help exit-codes` shows.
const (
	ExitPass         = 0
	ExitError        = 1
	ExitSLOFailed    = 10 // of a comparison: regressed
	ExitInconclusive = 11
	ExitAborted      = 12
	ExitRefused      = 13
	ExitDirty        = 20
)

// worse is the worse of two verdicts: Fail over Inconclusive over Pass.
func Worst(a, b Verdict) Verdict {
	for _, v := range []Verdict{Fail, Inconclusive} {
		if a == v || b == v {
			return v
		}
	}
	return Pass
}
