package burst

// Tally is what the bursts of one shot have come to. Several victims are each armed with the whole count, and hit it together.
type Tally struct {
	Victims, Over, Died int   // Over: their bursts have ended; Died: those whose processes have, which counts as over
	Hits, Want          int64 // Want 0 = any number
}

// Settled reports whether it can be confirmed now, or never will be.
func (t Tally) Settled() bool {
	return t.Over >= t.Victims || t.Victims > 1 && t.Want > 0 && t.Hits >= t.Want
}

// Outcome of a shot that has settled.
type Outcome uint8

const (
	Confirmed Outcome = iota
	Moved             // all victims died during the burst
	None              // nothing was hit
	TooFew            // fewer than it was to be
)

// Outcome says what the shot counts as.
func (t Tally) Outcome() Outcome {
	switch {
	case t.Victims > 0 && t.Died == t.Victims:
		return Moved
	case t.Hits == 0:
		return None
	case t.Hits < t.Want:
		return TooFew
	}
	return Confirmed
}
