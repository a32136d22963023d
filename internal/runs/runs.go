// Package runs knows the runs in a folder of runs. What was concluded of each is a line of an index beside them, so that ten thousand are
// at hand at once. Who reads and judges a run is handed in.
//
// Its one invariant: the folders are the truth. An index that is missing, damaged, or of another version is made anew from them, and a run
// whose files have changed is read again.
package runs

import (
	"context"
	"encoding/json"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/history"
)

// Reader reads what lies in the folder of a run.
type Reader struct {
	Experiment, History string                                                           // names of the files that a run's conclusion rests on
	Tool                string                                                           // with its version: what another one concluded is concluded anew
	Observe             func(ctx context.Context, dir string) (*compare.Observed, error) // reads and judges one run
	Progress            func(done, all int)                                              // before each run that is read in one look; nil = nobody wants to know
}

// State of a run's folder.
type State string

const (
	Judged  State = "judged"
	Running State = "running" // its history has no end yet, and grows
	Unread  State = "unread"  // it cannot be read: Why
)

// Run is what the index has of one run.
type Run struct {
	Folder      string // its name in the folder of runs
	Stamp       string // state of its files
	Size        int64  // bytes of its files
	State       State
	ID          string // as its history has it
	Bytes       string // digest of its history
	Experiment  string
	Started     string // RFC 3339
	Ended       string `json:",omitempty"` // likewise; "" = it is not judged
	Verdict     string
	Exit        int
	Rehearsal   bool            `json:",omitempty"`
	Labels      history.Labels  `json:",omitempty"`
	Why         string          `json:",omitempty"` // it cannot be read
	Uploader    string          `json:",omitempty"` // the name of the token that it came with; "" = it was not uploaded
	Beside      string          `json:",omitempty"` // folder of a run that it was uploaded for, with other bytes
	Seen        json.RawMessage `json:",omitempty"` // what it brings to a comparison, but for its environment; Index.Observed reads it
	Environment string          `json:",omitempty"` // sum of that, which repeats from run to run

	Contested string `json:"-"` // another run has its id and other bytes: that one's folder
}

// Query says which runs are meant. Its zero value means all.
type Query struct {
	Experiment string
	States     []State        // none = all
	Labels     history.Labels // a run must have all of these
	Live       bool           // no rehearsals
	Limit      int            // the latest; 0 = all
	Before     string         // started before
}

func (q *Query) takes(r *Run) bool {
	for key, value := range q.Labels {
		if r.Labels[key] != value {
			return false
		}
	}
	given := len(q.States) == 0
	for _, s := range q.States {
		given = given || s == r.State
	}
	return given && (q.Experiment == "" || q.Experiment == r.Experiment) && (q.Before == "" || r.Started < q.Before) && !(q.Live && r.Rehearsal)
}
