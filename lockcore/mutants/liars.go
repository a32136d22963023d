package mutants

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// liars are workers whose report of themselves is not what they do.
func liars() []Mutant {
	return []Mutant{
		{Name: "fake-release", Told: "feigned_release foreign_releases orphan_acquires", Does: "says that it has released, and sends nothing",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:feigned_release lock_debt.max"}}, Variant: lockcore.Variant{Feigns: []lockcore.Op{lockcore.OpRelease}}},
		{Name: "fake-keep", Told: "feigned_renewal", Does: "says that it has renewed, and sends nothing",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:feigned_renewal", Also: "finding:"}}, Variant: lockcore.Variant{Feigns: []lockcore.Op{lockcore.OpRenew}}},
		{Name: "ghost-holder", Told: "ghost", Does: "takes every refusal for a grant, and says that it holds what another does",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:ghost", Also: "abandonment.missed overlap.effect unowned_work"}},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules {
				return yes[time.Time]{t, func(at time.Time) time.Time { return at }}
			}},
			Store: func(core lockcore.Store, now func() time.Time) lockcore.Store {
				return yes[context.Context]{core, func(context.Context) time.Time { return now() }}
			}},
		{Name: "wrong-token", Told: "unannounced ghost", Does: "announces another token than it sets",
			Shows:   []Show{{Scene: "slow store", Red: "finding:unannounced", Also: "abandonment.missed finding:ghost overlap.effect unowned_work"}},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return otherToken[time.Time]{t} }},
			Store:   func(core lockcore.Store, _ func() time.Time) lockcore.Store { return otherToken[context.Context]{core} }},
		{Name: "denied-grant", Told: "holder_unknown unannounced", Does: "announces a grant as a refusal",
			Shows:   []Show{{Scene: "kill after grant", Red: "orphan_acquires", Also: "finding:unannounced lock_debt.max"}},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return &deniedGrant[time.Time]{rules: t} }},
			Store: func(core lockcore.Store, _ func() time.Time) lockcore.Store {
				return &deniedGrant[context.Context]{rules: core}
			}},
		{Name: "shifted-clock", Told: "late_lines outside_call", Does: "stamps its lines 50 ms early",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:outside_call"}}, Tell: shifted},
		{Name: "acks-all", Does: "answers done for work that was cut short", Tell: acksAll,
			Shows: []Show{{Scene: "renewals fail, much work", Red: "stranded", Also: "takeover.max"}}},
		{Name: "no-begin", Told: "no_begin", Does: "enters its work without an effect",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:no_begin"}}, Work: work.Wrong{NoBegin: true}},
		{Name: "counts-what-it-keeps", Does: "counts a lock that it keeps as given up", Edit: countsKept,
			Shows: []Show{{Scene: "one renewal fails, and is told of", Red: "metric.given_up.delta"}}},
		{Name: "logs-what-it-keeps", Does: "logs a renewal that failed as a lock that is given up", Edit: logsKept,
			Shows: []Show{{Scene: "one renewal fails, and is told of", Red: "logs.given_up"}}},
		{Name: "false-alarm", Does: "raises its alert for a lock that it keeps", Edit: raisesKept,
			Shows: []Show{{Scene: "one renewal fails, and is told of", Red: "alert.LockLost.fired"}}},
		{Name: "buffered-lines", Told: "announced_late late_lines", Does: "buffers its lines, of which the last are lost with it",
			Shows: []Show{{Scene: "slow replies", Red: "finding:unannounced"}}, Tell: buffered},
	}
}

// yes refuses nothing, and changes only what is the caller's.
type yes[C any] struct {
	rules[C]
	now func(C) time.Time
}

func (s yes[C]) Acquire(c C, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	g, err := s.rules.Acquire(c, key, token, ttl)
	if lockcore.ResultOf(err) == lockcore.Held {
		now := s.now(c)
		return lockcore.Grant{Fence: now.UnixMicro(), Server: now}, nil
	}
	return g, err
}

func (s yes[C]) Renew(c C, key, token string, ttl time.Duration) error {
	return agreed(s.rules.Renew(c, key, token, ttl))
}

func (s yes[C]) Release(c C, key, token string) error {
	return agreed(s.rules.Release(c, key, token))
}

func agreed(err error) error {
	if _, lost := errors.AsType[*lockcore.NotOwnedError](err); lost {
		return nil
	}
	return err
}

// otherToken sets another token than it was asked to.
type otherToken[C any] struct{ rules[C] }

func (s otherToken[C]) Acquire(c C, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return s.rules.Acquire(c, key, token+"'", ttl)
}

func (s otherToken[C]) Renew(c C, key, token string, ttl time.Duration) error {
	return s.rules.Renew(c, key, token+"'", ttl)
}

func (s otherToken[C]) Release(c C, key, token string) error {
	return s.rules.Release(c, key, token+"'")
}

// deniedGrant says of each third grant that another holds the key.
type deniedGrant[C any] struct {
	rules[C]
	grants atomic.Int64
}

func (s *deniedGrant[C]) Acquire(c C, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	g, err := s.rules.Acquire(c, key, token, ttl)
	if err != nil {
		return g, err
	}
	if n := s.grants.Add(1); n%3 == 0 {
		return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint("another " + strconv.FormatInt(n, 10)), PTTL: ttl}
	}
	return g, nil
}

// earlyStamps is by how much the animal shifted-clock is.
const earlyStamps = int64(50 * time.Millisecond)

func shifted() func(history.Event, func(history.Event)) {
	return func(e history.Event, hand func(history.Event)) {
		e.From, e.To = max(0, e.From-earlyStamps), max(0, e.To-earlyStamps)
		hand(e)
	}
}

func acksAll() func(history.Event, func(history.Event)) {
	return func(e history.Event, hand func(history.Event)) {
		hand(e)
		if e.Kind == history.WorkExit && e.Work.Why != "done" && e.Work.Why != "skipped" {
			hand(history.Event{Kind: history.JobAck, Span: e.Span, Source: e.Source, Clock: e.Clock, Lock: e.Lock, Key: e.Key,
				Job: &history.Job{ID: e.Work.Subject, Ack: history.AckDone}})
		}
	}
}

// buffer is how many lines the animal buffered-lines has always still to write.
const buffer = 40

func buffered() func(history.Event, func(history.Event)) {
	var kept []history.Event
	return func(e history.Event, hand func(history.Event)) {
		if kept = append(kept, e); len(kept) > buffer {
			hand(kept[0])
			kept = kept[1:]
		}
	}
}

// keeps is when the animals that tell of a lock which they keep begin to: by then it has been looked at.
const keeps = int64(10 * time.Second)

func countsKept(e *history.Event) {
	if e.Sample != nil && e.Sample.Metric != history.AlertsFiring && e.At > keeps {
		e.Sample.Values = []history.Value{{Value: 1}}
	}
}

func logsKept(e *history.Event) {
	if e.Match != nil {
		e.Match = &history.Match{Pattern: "given_up", Text: "lock given up", File: e.Match.File}
	}
}

func raisesKept(e *history.Event) {
	if e.Sample != nil && e.Sample.Metric == history.AlertsFiring && e.At > keeps {
		e.Sample.Values = []history.Value{{Labels: map[string]string{"alertname": e.Sample.Target}, Value: 1}}
	}
}
