package verdict

// RollingRestart is one pass through all replicas, and what it cost.
type RollingRestart struct {
	Fault     string        `json:"fault"`
	From      float64       `json:"from"`           // the first replica was asked to end
	To        float64       `json:"to"`             // the last one's end was seen
	Restarted []string      `json:"restarted"`      // incarnations, in order
	Left      []string      `json:"left,omitempty"` // that lived when it began, and were not restarted
	Locks     []RollingCost `json:"locks"`
}

// RollingCost is what a rolling restart cost at one lock: at a leader loop the time without a leader, at a lock taken per job the jobs that
// were cut short and the time until somebody had them again.
type RollingCost struct {
	Lock      string  `json:"lock"`
	Loop      bool    `json:"loop"`
	N         int     `json:"n"`         // times that a key was let go: ends of leaders, jobs cut short
	Handovers Range   `json:"handovers"` // keys that went to another replica, at least and at most
	Without   Range   `json:"without"`   // nobody held the key, in all
	Longest   Range   `json:"longest"`
	Stranded  int     `json:"stranded,omitempty"` // keys that nobody took any more
	Overlap   Range   `json:"overlap"`            // two believed to hold the key, in all
	Evidence  []int64 `json:"evidence"`
}
