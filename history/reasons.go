package history

// VoidReason is why a shot of a fault yields no trial: Fault.Why of fault.void.
type VoidReason string

const (
	NoTarget    VoidReason = "no_target"   // there was nobody to strike
	Moved       VoidReason = "moved"       // whom it was to strike was another by then, or gone
	Ended       VoidReason = "ended"       // somebody else ended whom it struck, while it lasted
	Unconfirmed VoidReason = "unconfirmed" // it was not seen to have done what it was to do
	FaultFailed VoidReason = "error"       // what was to bring it about broke

	HolderUnknown  VoidReason = "holder_unknown"  // nothing that was asked said who holds
	HolderDisputed VoidReason = "holder_disputed" // what was asked named several

	Budget VoidReason = "budget" // a PodDisruptionBudget did not let the pod be evicted

	NotReturned VoidReason = "not_returned" // nobody took the place of the replica that was restarted before it
)

// RunEndedFirst is the detail of a shot that was not confirmed because there was no time left for it.
const RunEndedFirst = "the run ended before it was confirmed"

// Unsteady is what the steady state lacked, as far as advice depends on it.
type Unsteady string

const (
	NotReady          Unsteady = "not_ready"       // a replica
	NoKnownHolder     Unsteady = "no_known_holder" // holds a lock of an observed system
	CannotLook        Unsteady = "cannot_look"     // at the key of an observed system, or for its replicas: looks fail
	OtherwiseUnsteady Unsteady = "otherwise"
)
