package holders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/probes"
)

// Said is what a source tells of one replica.
type Said struct {
	Holds     bool         // it believes that it holds the lock
	Gone, Why string       // it cannot be asked: one of history's words, and more for a person
	At        history.Span // of the answer; zero = of the whole look
}

// Teller asks whether replicas believe that they hold a lock, all of them at once: an answer for each.
type Teller func(ctx context.Context, clock func() int64, lives []Life) []Said

// Beliefs looks at what replicas say of whether they hold a lock. An event is written where that has changed: the change lies between two
// looks. Looks are made one after the other.
type Beliefs struct {
	o    BeliefOptions
	seen map[string]*Said // by incarnation, what the last look showed
}

// BeliefOptions say whose belief in what is looked at.
type BeliefOptions struct {
	Lock, By string // By: the source, by its word
	Every    time.Duration
	Lives    func() []Life
	Ask      Teller
	Clock    func() int64
}

// NewBeliefs returns a probe.
func NewBeliefs(o BeliefOptions) *Beliefs { return &Beliefs{o: o, seen: map[string]*Said{}} }

// within is how long an answer may take: who does not answer must not hold up the looks at the others.
func (b *Beliefs) within() time.Duration { return min(max(2*b.o.Every, leastWithin), mostWithin) }

const (
	leastWithin = 400 * time.Millisecond
	mostWithin  = 4 * time.Second // no command may take longer
)

// Look asks all replicas that live. With final, each has an event.
func (b *Beliefs) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	lives := b.o.Lives()
	asked, cancel := context.WithTimeout(ctx, b.within())
	defer cancel()
	said := b.o.Ask(asked, b.o.Clock, lives)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ask who believes to hold %s: %w", b.o.Lock, err)
	}
	return func(at history.Span) (events []history.Event) {
		for i, l := range lives {
			now, before := said[i], b.seen[l.Incarnation]
			if now.At == (history.Span{}) {
				now.At = at
			}
			b.seen[l.Incarnation] = &now
			if before != nil && before.Holds == now.Holds && before.Gone == now.Gone && !final {
				continue
			}
			x := &history.Belief{Incarnation: l.Incarnation, Named: l.Name, Holds: now.Holds, By: b.o.By, Gone: now.Gone, Why: now.Why, Final: final}
			if before != nil {
				x.Prev = &before.At
			}
			events = append(events, beliefEvent(b.o.Lock, "", now.At, x))
		}
		return events
	}, nil
}

func beliefEvent(lock, key string, at history.Span, b *history.Belief) history.Event {
	return history.Event{Kind: history.BeliefKind, Span: at, Source: beliefSource(lock), Lock: lock, Key: key, Belief: b}
}

func beliefSource(lock string) string { return "probe:" + history.BeliefProbe(lock) }

// gone are answers of nobody.
func gone(lives []Life, word, why string) []Said {
	all := make([]Said, len(lives))
	for i := range all {
		all[i] = Said{Gone: word, Why: why}
	}
	return all
}

// Tell asks by the gauges of which the holder's is above 0. A replica that has no such series does not hold the lock.
func (m *Metric) Tell(q Question) Teller {
	return func(ctx context.Context, clock func() int64, lives []Life) []Said {
		all := gone(lives, history.GoneNoMetrics, "nothing says where its exposition is")
		samples := m.scrapeAll(ctx, clock, lives)
		for i, l := range lives {
			s, asked := samples[m.URL(l)]
			switch want := m.Labels(l, q); {
			case !asked:
			case s.Gone != "":
				all[i] = Said{Gone: s.Gone, Why: s.Why, At: s.at}
			default:
				all[i] = Said{At: s.at, Holds: slices.ContainsFunc(s.Values, func(v history.Value) bool { return v.Value > 0 && probes.Carries(v.Labels, want) })}
			}
		}
		return all
	}
}

// Endpoint asks each replica by HTTP.
type Endpoint struct {
	URL    func(Life) string
	Leads  *regexp.Regexp // nil: the status alone says so
	client http.Client
}

const mostAnswer = 64 << 10 // bytes of an answer that are read

// Tell asks all replicas at once.
func (e *Endpoint) Tell(ctx context.Context, clock func() int64, lives []Life) []Said {
	all := make([]Said, len(lives))
	var wg sync.WaitGroup
	for i, l := range lives {
		wg.Go(func() {
			sent := clock()
			all[i] = e.one(ctx, e.URL(l))
			all[i].At = history.Span{From: sent, To: clock()}
		})
	}
	wg.Wait()
	return all
}

func (e *Endpoint) one(ctx context.Context, url string) Said {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Said{Gone: history.GoneUnreadable, Why: "its address cannot be read"} // which may have a password in it
	}
	res, err := e.client.Do(req)
	if err != nil {
		return unanswered(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	switch {
	case err != nil:
		return unanswered(err)
	case !slices.Contains([]int{http.StatusOK, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable}, res.StatusCode):
	case e.Leads != nil:
		return Said{Holds: e.Leads.Match(body)}
	default:
		return Said{Holds: res.StatusCode == http.StatusOK}
	}
	return Said{Gone: history.GoneUnreadable, Why: "it answers HTTP " + res.Status}
}

// Close closes the connections.
func (e *Endpoint) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// unanswered says why a question had no answer.
func unanswered(err error) Said {
	gone, why := probes.Unread(err)
	return Said{Gone: gone, Why: why}
}

// Listed asks a command that prints the names, pids or pods of all that believe.
func Listed(run command.Command) Teller {
	return func(ctx context.Context, _ func() int64, lives []Life) []Said {
		words, err := printed(ctx, run)
		if errors.Is(err, command.ErrTime) {
			return gone(lives, history.GoneTimeout, oneLine(err.Error()))
		} else if err != nil {
			return gone(lives, history.GoneUnreadable, oneLine(err.Error()))
		}
		all := make([]Said, len(lives))
		for _, word := range words {
			known := false
			for i, l := range lives {
				if l.called(word) {
					known, all[i].Holds = true, true
				}
			}
			if !known { // it may be one that began after the replicas were listed
				return gone(lives, history.GoneUnreadable, fmt.Sprintf("the command printed %.40q, which is no replica that lives", word))
			}
		}
		return all
	}
}

// called reports that a name, a pid or a pod is the life's.
func (l Life) called(name string) bool {
	return name == l.Name || l.PID != 0 && name == strconv.Itoa(l.PID) || l.Known["pod"] != "" && name == l.Known["pod"]
}
