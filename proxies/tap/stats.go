package tap

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// counters are what a listener has seen.
type Counters struct {
	acquire, renew, release, other, multi, long atomic.Int64 // commands
	Total, Refused, untouched                   atomic.Int64 // connections
}

func (n *Counters) Seen(op string) {
	switch op {
	case burst.Acquire:
		n.acquire.Add(1)
	case burst.Renew:
		n.renew.Add(1)
	case burst.Release:
		n.release.Add(1)
	default:
		n.other.Add(1)
	}
}

// Stats are what a tap has seen since it began.
type Stats struct {
	Names map[string]Counts `json:"names"` // by listener
	// Unknown are commands on keys that the rules call locks, and scripts, which are no operation as far as is known: by command, or
	// script and its SHA1, and how often. At most 100 are told apart. Empty is what it should be.
	Unknown map[string]int64 `json:"unknown"`
}

// Counts are those of one listener.
type Counts struct {
	Acquire int64 `json:"acquire"` // operations, those that were made to fail included
	Renew   int64 `json:"renew"`
	Release int64 `json:"release"`
	Other   int64 `json:"other"`       // other commands
	Multi   int64 `json:"transaction"` // commands from MULTI to EXEC: they pass
	Long    int64 `json:"long"`        // commands above 1 MiB: they pass

	Connections int64 `json:"connections"` // ever
	Refused     int64 `json:"refused"`     // those for which the Redis could not be reached
	Untouched   int64 `json:"untouched"`   // those that pass untouched from some command on (SUBSCRIBE, MONITOR, CLIENT REPLY)
}

// Stats returns what was seen so far.
func (t *Tap) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Names: map[string]Counts{}, Unknown: map[string]int64{}}
	for name, n := range t.stats {
		s.Names[name] = Counts{
			Acquire: n.acquire.Load(), Renew: n.renew.Load(), Release: n.release.Load(), Other: n.other.Load(), Multi: n.multi.Load(), Long: n.long.Load(),
			Connections: n.Total.Load(), Refused: n.Refused.Load(), Untouched: n.untouched.Load(),
		}
	}
	for what, n := range t.unknown {
		if hash, ok := strings.CutPrefix(what, "script "); ok && t.known.knows(hash) {
			continue // its text came later
		}
		s.Unknown[what] = n
	}
	return s
}

const maxUnknown = 100

// strange counts a command that ought to be understood and is not.
func (t *Tap) strange(args [][]byte) {
	what := strings.ToUpper(string(args[0]))
	switch what {
	case "EVAL":
		sum := sha1.Sum(args[1])
		what = "script " + hex.EncodeToString(sum[:])
	case "EVALSHA":
		what = "script " + strings.ToLower(string(args[1][:min(len(args[1]), 40)]))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.unknown[what]; ok || len(t.unknown) < maxUnknown {
		t.unknown[what]++
	}
}
