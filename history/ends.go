package history

// Extension is how much longer than by the look before a lease must last to have been extended: a lock tells what is left of it in whole
// milliseconds, and two of its readings are not made by one clock.
const Extension = int64(50e6)

// Ends is when leases end at the latest, in ns, by the last look at each key that showed one.
type Ends map[string]int64

// Extended takes in a look and reports whether it shows a lease that surely lasts longer than the one that the look before showed: it was
// extended, or granted anew, in between. How long the look itself took is no extension.
func (m Ends) Extended(e Event) bool {
	if e.Look.Present && e.Look.PTTL < 0 { // it never ends
		delete(m, e.Key)
	}
	if !e.Look.Present || e.Look.PTTL <= 0 {
		return false
	}
	before, known := m[e.Key]
	m[e.Key] = e.To + e.Look.PTTL
	return known && e.From+e.Look.PTTL > before+Extension
}

// Over reports that the lease which the last look at the key showed may have ended before e, a look at it that Extended has not taken in
// yet: whose value stands there now may have it by a new grant, also where no look showed the key free in between.
func (m Ends) Over(e Event) bool {
	before, known := m[e.Key]
	return !known || e.To+Extension >= before
}
