package history

import "errors"

// Late is the body of machine.late: a stretch in which a timer of the runner that waits for nobody woke late. It is measurement, not
// conclusion: whether anything was kept waiting by it is for the judge to say. All in nanoseconds.
type Late struct {
	Stall int64 `json:"stall"`           // by how much the timer was late in the stretch, all of its waking up together
	Still int64 `json:"still,omitempty"` // of that, what its own waiting for a processor does not explain: the whole machine stood still
	// What filled the processors in the stretch; both 0 where the system does not say.
	Busy int64 `json:"busy,omitempty"` // processor time of everybody, and what was taken from this machine by its host
	Ours int64 `json:"ours,omitempty"` // of that, the replicas', their children's and the stores' of the run
	// Waits is for how long the threads of a process, and of what it has started, waited for a processor, all together: by incarnation,
	// or "store", "ledger". Who waited less than a millisecond is left out.
	Waits map[string]int64 `json:"waits,omitempty"`
}

// Names of the stores in Late.Waits.
const (
	WaitsStore  = VictimStore
	WaitsLedger = "ledger"
)

func (l *Late) check() error {
	if l.Stall < 0 || l.Still < 0 || l.Still > l.Stall {
		return errors.New("late needs stall >= still >= 0")
	}
	if l.Ours < 0 || l.Busy < l.Ours {
		return errors.New("late needs busy >= ours >= 0")
	}
	for _, ns := range l.Waits {
		if ns < 0 {
			return errors.New("nobody waits for less than no time")
		}
	}
	return nil
}
