package fault

import "github.com/lockdrill/lockdrill/lockcore"

// Reddens are the measures that the fault may turn red in any lock, however right that is: rows of a verdict by name, where
// "overlap.work" is one and "not_owned" all that begin so. Whatever else turns red, the lock has to answer for.
func (t Traits) Reddens() []string {
	var rows []string
	if t.AtKey || t.Empties || t.FailsOver || t.AtStore && t.Class == ClassStore && !t.KeepsData && !t.lasts() {
		// The key is gone while its holder works, and nobody can know before the next call.
		rows = append(rows, "abandonment", "overlap.belief", "overlap.work", "unowned_work", "not_owned")
	}
	if t.InVictim && t.Stands > 0 {
		// Who stands still learns afterwards that the lease has run out.
		rows = append(rows, "abandonment.late", "not_owned")
	}
	if t.Cuts || t.AtStore && t.lasts() || t.Fails == lockcore.OpRelease && !t.Applied {
		// A release does not get through.
		rows = append(rows, "lock_debt")
	}
	if t.OnTheWay && t.Holds > 0 {
		// A slow answer may come after its caller's limit, and what gives the grant back is as slow.
		rows = append(rows, "lock_debt", "orphan_acquires")
	}
	return rows
}

// lasts reports a fault of the store that goes on until it is ended.
func (t Traits) lasts() bool { return t.GoesOn != "" }
