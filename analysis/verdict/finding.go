package verdict

// FindingCode says which contradiction a finding tells of. A verdict is decided by rows; whoever asks whether something was found out
// goes by the code, never by the words.
type FindingCode string

const (
	FindingForeignFence     FindingCode = "foreign_fence"
	FindingRenewedAfterWork FindingCode = "renewed_after_work"
	FindingNoExpiry         FindingCode = "no_expiry"
	FindingMissedExpiry     FindingCode = "missed_expiry"
	FindingUnannounced      FindingCode = "unannounced"
	FindingTokenReuse       FindingCode = "token_reuse"
	FindingFeignedRelease   FindingCode = "feigned_release"
	FindingFeignedRenewal   FindingCode = "feigned_renewal"
	FindingOutsideCall      FindingCode = "outside_call"
	FindingGhost            FindingCode = "ghost"
	FindingNoBegin          FindingCode = "no_begin"
	FindingSharedToken      FindingCode = "shared_token"
	FindingWrongVictim      FindingCode = "wrong_victim"
	FindingRolledBack       FindingCode = "rolled_back"
	FindingVanished         FindingCode = "vanished"
	FindingEqualFence       FindingCode = "equal_fence"
	FindingDisputedHolder   FindingCode = "disputed_holder"
)

// Lint is what a replica said against the worker protocol: once for each replica and rule, by its first line.
type Lint struct {
	Code     string  `json:"code"` // of the rule, as package history/lint has it
	Replica  string  `json:"replica"`
	What     string  `json:"what"`     // what it did
	Expected string  `json:"expected"` // what the protocol asks
	Change   string  `json:"change"`   // what to do about it
	Section  string  `json:"section"`  // heading of docs/worker-protocol.md
	Evidence []int64 `json:"evidence"`
}

// findingWords say what each tells of.
var findingWords = map[FindingCode]string{
	FindingForeignFence:     "an effect carries a fence that is not its epoch's",
	FindingRenewedAfterWork: "a holder renewed a key that it was done with",
	FindingNoExpiry:         "a key without an expiry",
	FindingMissedExpiry:     "a key carried an epoch after its lease had ended by the claims",
	FindingUnannounced:      "a token that nobody claims",
	FindingTokenReuse:       "a token that came back after it had been gone",
	FindingFeignedRelease:   "a release that a look speaks against",
	FindingFeignedRenewal:   "a renewal that a look speaks against",
	FindingOutsideCall:      "evidence has no instant in common with the call that is claimed",
	FindingGhost:            "a hold that the key never showed",
	FindingNoBegin:          "a successor that never wrote begin",
	FindingSharedToken:      "two replicas claim one epoch",
	FindingWrongVictim:      "a lease was extended after the death of whom sources had named as its holder",
	FindingRolledBack:       "a value that came back with an older state of the store",
	FindingVanished:         "a key that ended before its lease while its holder relied on it",
	FindingEqualFence:       "a superseded holder's write that was accepted for a fence equal to the present one's",
	FindingDisputedHolder:   "sources name several replicas as the holder of one epoch",
}

// Finding is a contradiction between two ways to know the same thing.
type Finding struct {
	Code     FindingCode `json:"code,omitempty"` // what is decided by; "" = nothing is
	What     string      `json:"what"`
	Evidence []int64     `json:"evidence"`
}
