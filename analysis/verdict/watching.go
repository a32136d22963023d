package verdict

// ProbeSummary is how well a probe watched.
type ProbeSummary struct {
	ID         string   `json:"id"`
	Samples    int64    `json:"samples"`
	LargestGap *float64 `json:"largestGap"` // seconds; null = it never looked
	Gaps       int      `json:"gaps"`       // stretches above max_gap
	// Failed counts the gaps in which looks failed, and Why is what the last of those got: then it is not known what was there.
	Failed int    `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`

	Cost *WatchCost `json:"cost,omitempty"` // of observed lock keys
}

// WatchCost is what watching has cost the store of the locks.
type WatchCost struct {
	Way      string   `json:"way"` // events, polling
	Why      string   `json:"why,omitempty"`
	Commands int64    `json:"commands"`
	Events   int64    `json:"events"`
	Core     *float64 `json:"core"`  // share of a core that the store spent on it, about; null = the store does not tell
	Store    *float64 `json:"store"` // share of a core that the store used in all
}

// MonitorCost is what windows of MONITOR, in which holders are found, came to.
type MonitorCost struct {
	Windows  int     `json:"windows"`
	Seconds  float64 `json:"seconds"`  // all of them together
	Commands int64   `json:"commands"` // that the server told in them
	Server   float64 `json:"server"`   // seconds of processor time that it used meanwhile, for all its clients
}

// LateMachine is how late the runner's machine was, by a timer that waits for nobody.
type LateMachine struct {
	Stretches int     `json:"stretches"` // of about 200 ms each
	Late      float64 `json:"late"`      // seconds, in all of them together
	Worst     float64 `json:"worst"`     // seconds, in one of them
	Judges    bool    `json:"judges"`    // false: the replicas were not on that machine, so nothing was taken off
}

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
