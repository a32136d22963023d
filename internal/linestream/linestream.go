// Package linestream carries the worker protocol between a runner and replicas in pods, whose standard streams it does not have: over
// two Redis streams for each life of a replica, in the ledger's store. A Hub is the runner's end, a Pod the replica's.
//
// It knows nothing of drills and looks into no line. Its one invariant: the lines of a life arrive as they were written, each once and
// in order, or the life ends with an error that says that some are lost; a Write returns only after Redis has acknowledged its line.
// docs/worker-protocol.md is its description for people.
package linestream

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Version of what stands in the streams. A reader ends a life whose version is higher.
const Version = 1

// How a life may end.
var (
	ErrBacklog = errors.New("too many lines that nobody has taken")
	ErrLost    = errors.New("the store has lost lines or keys")
	ErrGone    = errors.New("the replica was not heard any more, and its presence ran out")
	ErrCut     = errors.New("the store could not be reached for too long")
	ErrClock   = errors.New("the clocks of runner and pod went apart faster than the allowance")
	ErrUnknown = errors.New("no such life, or it has ended")
	ErrTaken   = errors.New("another run has taken the fleet")
)

// pace is every period and limit of both ends.
type pace struct {
	presence time.Duration // the keys of a life live so long after its last refreshing; a life that is cut off for so long ends
	refresh  time.Duration // between two refreshings, and between the hub's looks at what is there
	runner   time.Duration // the runner's own key lives so long; a life in a drill whose runner is away for so long ends
	sync     time.Duration // between an answered sync and the next
	resync   time.Duration // a sync without answer is followed by another after so long
	block    time.Duration // of one blocking read
	call     time.Duration // of any other call
	pause    time.Duration // between attempts
	drain    time.Duration // for last words
	join     time.Duration // until a store must have answered
	lines    int64         // that may lie in a stream untaken
}

func defaults() pace {
	return pace{
		presence: 30 * time.Second, refresh: 2 * time.Second, runner: 10 * time.Second, sync: 200 * time.Millisecond, resync: 2 * time.Second,
		block: 500 * time.Millisecond, call: 2 * time.Second, pause: 20 * time.Millisecond, drain: 5 * time.Second, join: time.Minute,
		lines: 1 << 16,
	}
}

const (
	maxBatch  = 512     // entries in one call
	maxLine   = 8 << 20 // bytes of one line
	maxHellos = 1024    // that the fleet's stream of hellos keeps
	maxAsked  = 16      // syncs without answer
)

// Fields of entries; an entry has one of them, and those of out streams stampField as well.
const (
	lineField  = "l" // a line of the worker protocol
	helloField = "h" // out: the life says who it is, JSON
	syncField  = "s" // in: a question, by its number; out: its answer
	byeField   = "b" // out: the life is over; its text says why, "" = in order
	endField   = "e" // in: the life is to end; its text says why
	openField  = "o" // in: the stream's first entry
	stampField = "t" // out: the pod's CLOCK_MONOTONIC when the entry was made, ns
)

// names gives the names of a fleet's keys.
type names string

func namesOf(fleet string) (names, error) {
	if fleet == "" || strings.ContainsAny(fleet, ": *?[]\r\n") {
		return "", fmt.Errorf("fleet %q: want a name without blanks, colons and wildcards", fleet)
	}
	return names("lockdrill:fleet:" + fleet + ":"), nil
}

func (f names) runner() string          { return string(f) + "runner" }
func (f names) hellos() string          { return string(f) + "hellos" }
func (f names) life(life string) string { return string(f) + "life:" + life }
func (f names) in(life string) string   { return string(f) + "in:" + life }
func (f names) out(life string) string  { return string(f) + "out:" + life }

// place is where an entry stands in a stream, and its explicit id there: line n stands at n-0, what this package itself says between
// lines n and n+1 at n-1, n-2 and so on. Redis takes no id that is not greater than the last: an entry that is added again after a
// lost reply is refused, and was there already.
type place struct{ n, k int64 }

func (p place) String() string { return strconv.FormatInt(p.n, 10) + "-" + strconv.FormatInt(p.k, 10) }

func (p place) line() place  { return place{p.n + 1, 0} }
func (p place) aside() place { return place{p.n, p.k + 1} }

func (p place) before(q place) bool { return p.n < q.n || p.n == q.n && p.k < q.k }

// leadsTo reports whether nothing can stand between p and q.
func (p place) leadsTo(q place) bool { return q == p.line() || q == p.aside() }

func parsePlace(id string) (p place, err error) {
	n, k, ok := strings.Cut(id, "-")
	if ok {
		if p.n, err = strconv.ParseInt(n, 10, 64); err == nil {
			p.k, err = strconv.ParseInt(k, 10, 64)
		}
	}
	if !ok || err != nil || p.n == math.MaxInt64 {
		return p, fmt.Errorf("%w: id %q is none of this protocol", ErrLost, id)
	}
	return p, nil
}

// entry is one entry on its way into a stream.
type entry struct {
	at     place
	values []any // field, value, field, value
	done   chan struct{}
}

// add is the command that puts e into a stream that must be there.
func (e *entry) add(stream string) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: stream, NoMkStream: true, ID: e.at.String(), Values: e.values}
}

// added reports whether an entry stands in its stream after the reply err; ErrLost says that the stream itself is gone.
func added(err error) (bool, error) {
	switch {
	case err == nil, wasThere(err):
		return true, nil
	case errors.Is(err, redis.Nil):
		return false, fmt.Errorf("%w: a stream is gone", ErrLost)
	}
	return false, err
}

// wasThere reports whether Redis refused an id because it is not greater than the stream's last.
func wasThere(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "equal or smaller than the target stream top item")
}

// newID is a name that nobody else has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func field(values map[string]any, name string) (string, bool) {
	s, ok := values[name].(string)
	return s, ok
}
