package witness

import (
	"cmp"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

const (
	SourceKeys = "probe:lock_keys"       // Event.Source of looks at keys
	Unknown    = "unknown"               // what should have been named and was not
	Absent     = int64(-2)               // State.Left of a key that is not there
	Endless    = int64(-1)               // of one whose hold has no end
	Rounding   = int64(time.Millisecond) // what is left of a lease is rounded to this
	// shortened is by how much a renewal has to shorten a lease to be told; two clocks may run apart by less meanwhile.
	shortened = 50 * int64(time.Millisecond)
)

// State is what a store said of a key at one instant.
type State struct {
	Value    string // names the holder; may be a secret
	Epoch    string // of whoever holds it; "" = nobody does
	Left     int64  // of the lease, ns; or absent, or endless
	Slack    int64  // by which Left may be too much
	Server   int64  // microseconds
	Bare     bool   // it is a hash without expiry, which is a lock where its name says so
	Fence    int64
	Released bool // by its holder
}

// Names says who holds keys, where nobody claims them: keys of an observed system.
type Names struct {
	Holder func(Unclaimed) Named     // it answers at once, and may know more when it is asked again; nil = keys are claimed
	Shown  bool                      // values are names of holders by the file's own word; else they may be secrets, and stay in here
	Began  func(holder string) int64 // since when it lives, at the latest; nil = a name is always of the life that it meant first
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
	Name     bool   // the value is its name, which another life of it may have
}

// Track is a key, in whatever store, and what was seen of it last. It makes events of states. Its one invariant: the bracket of an event
// surely contains the beginning of its state.
type Track struct {
	Lock, Key string
	Seen      bool
	At        history.Span // the last time that Last was seen, at an instant in it
	Last      State
	Named     Named // whom its value means: known once, it stays, since a pod may have another life by the next look (but see anew)
	Since     int64 // the epoch came after this; 0 = at any time before the first look

	doubt *history.Span // when the lease was seen last that another life of the name may have extended since; nil = there is none
}

// Sight is how a state was seen: at an instant in a bracket.
type Sight struct {
	history.Span
	Final bool
	Told  *Told // nil = by a look
}

// Told is what a watch knows that tells of changes: whether this is one, and what came before it.
type Told struct {
	News   bool
	Prev   history.Span // when the state before was seen last
	Direct bool         // nothing lay in between
}

// See takes in a state, and appends an event of a source if it is news, or the final look.
func (t *Track) See(events []history.Event, source string, names *Names, s State, at Sight) []history.Event {
	if !t.Seen || s.Epoch != t.Last.Epoch {
		t.Named, t.Since, t.doubt = Named{}, t.At.From, nil
	}
	prev := t.At
	if at.Told != nil {
		prev = at.Told.Prev
	}
	var taken *history.Span
	there, news := s.Left != Absent, at.Told != nil && at.Told.News || at.Told == nil && t.News(s, at.Span)
	switch before := t.Named; {
	case !there || names.Holder == nil:
	case before.Holder == "":
		t.Named = names.Holder(Unclaimed{t.Lock, t.Key, s.Value, t.Since})
		news = news || t.Named != before
	case news:
		taken = t.anew(names, s, prev)
	}
	if news || at.Final {
		l := &history.Look{Present: there, Released: s.Released, PTTL: s.Left, Slack: s.Slack, Server: s.Server, Final: at.Final, Hash: s.Bare}
		if there {
			l.Holder, l.By, l.Disputed = t.Named.Holder, t.Named.By, t.Named.Disputed
			if names.Shown {
				l.Named = Cut(s.Value)
			}
		}
		switch {
		case !news || !t.Seen:
		case taken != nil && taken.From < prev.From:
			l.Prev = taken
		case at.Told != nil:
			l.Prev, l.Direct = &prev, at.Told.Direct
		default:
			if l.Prev = &prev; t.Last.Left >= 0 {
				l.PrevPTTL = max(1, t.Last.Left)
			}
		}
		events = append(events, history.Event{Kind: history.LookKind, Span: at.Span, Source: source, Lock: t.Lock, Key: t.Key, Epoch: s.Epoch, Fence: s.Fence, Look: l})
	}
	t.Seen, t.At, t.Last = true, at.Span, s
	return events
}

// anew asks again whom a value means that is a name, now that its lease was extended: another life of the name may go on with the lease of the
// one that died. It surely does if it lived at prev, when the lease was seen last as it had been; else from the next extension on. It gives when
// the lease was seen last that was surely not that life's; nil = it is who it was.
func (t *Track) anew(names *Names, s State, prev history.Span) *history.Span {
	if names.Began == nil || !t.Named.Name || !t.Seen {
		return nil
	}
	now := names.Holder(Unclaimed{t.Lock, t.Key, s.Value, t.Since})
	if !now.Name || now.Holder == "" || now.Holder == t.Named.Holder || now.By != t.Named.By {
		return nil
	}
	if t.doubt == nil {
		t.doubt = &prev
	}
	if names.Began(now.Holder) > prev.From {
		return nil
	}
	taken := t.doubt
	t.Named, t.doubt = now, nil
	return taken
}

// News reports whether s differs from the last look by more than the passing of time. That no key was there at the first
// look is none.
func (t *Track) News(s State, at history.Span) bool {
	switch {
	case !t.Seen:
		return s.Left != Absent
	case s.Epoch != t.Last.Epoch, (s.Left < 0 || t.Last.Left < 0) && s.Left != t.Last.Left:
		return true
	case s.Left < 0:
		return false
	}
	surelyPassed, mostPassed := max(0, at.From-t.At.To), at.To-t.At.From
	return s.Left > t.Last.Left-surelyPassed+Rounding || s.Left < t.Last.Left-s.Slack-t.Last.Slack-mostPassed-shortened
}

// OfToken is the state of a key that carries a token, by which its epochs are told apart.
func (t *Track) OfToken(s State) State {
	switch {
	case s.Left == Absent:
	case t.Seen && t.Last.Left != Absent && s.Value == t.Last.Value:
		s.Epoch = t.Last.Epoch
	default:
		s.Epoch = cmp.Or(lockcore.Fingerprint(s.Value), Unknown) // an empty value is no token
	}
	return s
}

// Now is what the key says that shows s at this moment, for whoever aims at its holder.
func (t *Track) Now(lock string, s State) (now Unclaimed, epoch string, held bool, err error) {
	now = Unclaimed{Lock: lock, Key: t.Key, Value: s.Value}
	if t.Seen {
		if now.Since = t.Since; t.Last.Epoch != s.Epoch {
			now.Since = t.At.From
		}
	}
	return now, s.Epoch, s.Left != Absent, nil
}

// MaxText bounds what a history keeps of a text that others wrote.
const MaxText = 200

// Cut shortens such a text.
func Cut(s string) string {
	if runes := []rune(s); len(runes) > MaxText {
		return string(runes[:MaxText])
	}
	return s
}
