package probes

import (
	"cmp"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

const (
	sourceKeys = "probe:lock_keys"       // Event.Source
	absent     = int64(-2)               // state.left of a key that is not there
	endless    = int64(-1)               // of one whose hold has no end
	pttlError  = int64(time.Millisecond) // what is left of a lease is rounded to this
)

// state is what a store said of a key at one instant.
type state struct {
	value    string // names the holder; may be a secret
	epoch    string // of whoever holds it; "" = nobody does
	left     int64  // of the lease, ns; or absent, or endless
	slack    int64  // by which left may be too much
	server   int64  // microseconds
	bare     bool   // it is a hash without expiry, which is a lock where its name says so
	fence    int64
	released bool // by its holder
}

// Names says who holds keys, where nobody claims them: keys of an observed system.
type Names struct {
	Holder func(Unclaimed) Named // it answers at once, and may know more when it is asked again; nil = keys are claimed
	Shown  bool                  // values are names of holders by the file's own word; else they may be secrets, and stay in here
}

// Unclaimed is a key of which nobody says who holds it.
type Unclaimed struct {
	Lock, Key string
	Value     string // its token: a secret
	Since     int64  // the token came after this; 0 = nobody knows when
}

// Named is who that is, as far as is known.
type Named struct {
	Holder   string // incarnation; "" = not known
	By       string // the source that says so
	Disputed string // sources name several: which of them says what
}

// track is a key, in whatever store, and what was seen of it last. It makes events of states. Its one invariant: the bracket of an event
// surely contains the beginning of its state.
type track struct {
	lock, key string
	seen      bool
	at        history.Span // the last time that last was seen, at an instant in it
	last      state
	named     Named // whom its value means: known once, it stays, since a pod may have another life by the next look
	since     int64 // the epoch came after this; 0 = at any time before the first look
}

// sight is how a state was seen: at an instant in a bracket.
type sight struct {
	history.Span
	final bool
	told  *told // nil = by a look
}

// told is what a watch knows that tells of changes: whether this is one, and what came before it.
type told struct {
	news   bool
	prev   history.Span // when the state before was seen last
	direct bool         // nothing lay in between
}

// see takes in a state, and appends an event of a source if it is news, or the final look.
func (t *track) see(events []history.Event, source string, names *Names, s state, at sight) []history.Event {
	if !t.seen || s.epoch != t.last.epoch {
		t.named, t.since = Named{}, t.at.From
	}
	there, news := s.left != absent, at.told != nil && at.told.news || at.told == nil && t.news(s, at.Span)
	if there && names.Holder != nil && t.named.Holder == "" {
		before := t.named
		t.named = names.Holder(Unclaimed{t.lock, t.key, s.value, t.since})
		news = news || t.named != before
	}
	if news || at.final {
		l := &history.Look{Present: there, Released: s.released, PTTL: s.left, Slack: s.slack, Server: s.server, Final: at.final}
		if there {
			l.Holder, l.By, l.Disputed = t.named.Holder, t.named.By, t.named.Disputed
			if names.Shown {
				l.Named = cut(s.value)
			}
		}
		switch prev := t.at; {
		case !news || !t.seen:
		case at.told != nil:
			prev = at.told.prev
			l.Prev, l.Direct = &prev, at.told.direct
		default:
			if l.Prev = &prev; t.last.left >= 0 {
				l.PrevPTTL = max(1, t.last.left)
			}
		}
		events = append(events, history.Event{Kind: history.LookKind, Span: at.Span, Source: source, Lock: t.lock, Key: t.key, Epoch: s.epoch, Fence: s.fence, Look: l})
	}
	t.seen, t.at, t.last = true, at.Span, s
	return events
}

// news reports whether s differs from the last look by more than the passing of time. That no key was there at the first
// look is none.
func (t *track) news(s state, at history.Span) bool {
	switch {
	case !t.seen:
		return s.left != absent
	case s.epoch != t.last.epoch, (s.left < 0 || t.last.left < 0) && s.left != t.last.left:
		return true
	case s.left < 0:
		return false
	}
	surelyPassed := max(0, at.From-t.at.To)
	return s.left > t.last.left-surelyPassed+pttlError
}

// ofToken is the state of a key that carries a token, by which its epochs are told apart.
func (t *track) ofToken(s state) state {
	switch {
	case s.left == absent:
	case t.seen && t.last.left != absent && s.value == t.last.value:
		s.epoch = t.last.epoch
	default:
		s.epoch = cmp.Or(lockcore.Fingerprint(s.value), unknown) // an empty value is no token
	}
	return s
}

// now is what the key says that shows s at this moment, for whoever aims at its holder.
func (t *track) now(lock string, s state) (now Unclaimed, epoch string, held bool, err error) {
	now = Unclaimed{Lock: lock, Key: t.key, Value: s.value}
	if t.seen {
		if now.Since = t.since; t.last.epoch != s.epoch {
			now.Since = t.at.From
		}
	}
	return now, s.epoch, s.left != absent, nil
}
