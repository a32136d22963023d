package probes

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

//go:embed look.lua
var lookScript string

const (
	chunk      = 512                // keys a script call: Redis serves nobody else meanwhile (about 0.5 ms)
	pttlError  = time.Millisecond   // PTTL is rounded to this
	sourceKeys = "probe:lock_keys"  // Event.Source
	absent     = int64(-2)          // PTTL of a key that is not there; -1 = it has no expiry
	perMilli   = int64(1_000_000)   // ns
	noScript   = "unknown command"  // reply of servers before 7.0 to EVALSHA_RO
	noReadOnly = "read-only script" // reply of the embedded store to TIME in a read-only script
)

// LockKeys watches lock keys: value, PTTL and the server's time in one read-only script. Watch, Unwatch and Holder may be
// called at any time; looks are made one after the other.
type LockKeys struct {
	redis  *redis.Client
	prefix string
	script *redis.Script
	plain  atomic.Bool // the server has no read-only form
	names  Names

	mu   sync.Mutex
	keys map[string]*watched
}

// watched is a key and what its last look showed.
type watched struct {
	lock, key string
	seen      bool
	span      history.Span
	last      state
	holder    string // incarnation; known once for a token, it stays: a pod may have another life by the next look
}

// Names says whom the values of keys name, where nobody else does: keys of an observed system.
type Names struct {
	Holder func(value string) string // the incarnation that a value means, or ""; nil = keys are claimed
	Shown  bool                      // values are names of holders by the file's own word; else they may be secrets, and stay in here
}

// state of a lock key at one instant.
type state struct {
	value  string // token
	epoch  string // its fingerprint
	pttl   int64  // ns, or absent, or -1 = no expiry
	server int64  // microseconds
}

// NewLockKeys returns a probe of the store that o dials and that watches no key yet; prefix goes before each key.
func NewLockKeys(o *redis.Options, prefix string) *LockKeys {
	return &LockKeys{
		redis: newClient(o), prefix: prefix, script: redis.NewScript(lookScript), keys: map[string]*watched{},
	}
}

// Name makes looks say whom values name. It is called before the first look.
func (p *LockKeys) Name(names Names) { p.names = names }

// Watch adds a key of a lock; a key that is watched already stays as it is.
func (p *LockKeys) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[key] == nil {
		p.keys[key] = &watched{lock: lock, key: key}
	}
}

// Unwatch forgets a key: it is not in the final look either.
func (p *LockKeys) Unwatch(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}

// Close closes the probe's connections.
func (p *LockKeys) Close() error { return p.redis.Close() }

// Look reads all watched keys. The returned function gives a look event for each key whose state has changed since the last
// look whose function was called, in the order of keys; with final, one for every key.
func (p *LockKeys) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	p.mu.Lock()
	all := make([]*watched, 0, len(p.keys))
	for _, w := range p.keys {
		all = append(all, w)
	}
	p.mu.Unlock()
	states := make([]state, 0, len(all))
	for part := range slices.Chunk(all, chunk) {
		names := make([]string, len(part))
		for i, w := range part {
			names[i] = p.prefix + w.key
		}
		s, err := p.read(ctx, names)
		if err != nil {
			return nil, fmt.Errorf("look at %d lock keys: %w", len(all), err)
		}
		states = append(states, s...)
	}
	return func(at history.Span) []history.Event {
		p.mu.Lock()
		defer p.mu.Unlock()
		var events []history.Event
		for i, w := range all {
			if p.keys[w.key] == w { // still watched
				events = w.observe(events, states[i], at, final, p.names)
			}
		}
		slices.SortFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Key, b.Key) })
		return events
	}, nil
}

// Holder says whom a key names now: the fingerprint of its token and what the store still owes it (negative = no expiry).
// ok is false where the key is free.
func (p *LockKeys) Holder(ctx context.Context, key string) (epoch string, pttl time.Duration, ok bool, err error) {
	s, err := p.read(ctx, []string{p.prefix + key})
	if err != nil {
		return "", 0, false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	if s[0].pttl == absent {
		return "", 0, false, nil
	}
	return lockcore.Fingerprint(s[0].value), time.Duration(s[0].pttl), true, nil
}

// read runs the script for a chunk of keys. Its read-only form works while a server refuses writes; where the server does
// not have it, the plain form is used from then on.
func (p *LockKeys) read(ctx context.Context, names []string) ([]state, error) {
	var reply []any
	var err error
	if !p.plain.Load() {
		reply, err = p.script.RunRO(ctx, p.redis, names).Slice()
		var answer redis.Error
		if errors.As(err, &answer) &&
			(strings.Contains(answer.Error(), noScript) || strings.Contains(answer.Error(), noReadOnly)) {
			p.plain.Store(true)
		}
	}
	if p.plain.Load() {
		reply, err = p.script.Run(ctx, p.redis, names).Slice()
	}
	if err != nil {
		return nil, err
	}
	return parseLook(reply, len(names))
}

func parseLook(reply []any, n int) ([]state, error) {
	if len(reply) != 1+2*n {
		return nil, fmt.Errorf("got %d values for %d keys", len(reply), n)
	}
	server, ok := reply[0].(int64)
	states := make([]state, n)
	for i := 0; ok && i < n; i++ {
		s := state{server: server}
		s.value, ok = reply[1+2*i].(string)
		if ok {
			s.pttl, ok = reply[2+2*i].(int64)
		}
		if s.pttl >= 0 {
			s.pttl *= perMilli
		}
		states[i] = s
	}
	if !ok {
		return nil, errors.New("got a reply of an unexpected shape")
	}
	return states, nil
}

// observe takes in what a look showed and appends an event if it is news.
func (w *watched) observe(events []history.Event, s state, at history.Span, final bool, names Names) []history.Event {
	s.epoch = w.last.epoch
	if !w.seen || s.value != w.last.value {
		s.epoch, w.holder = lockcore.Fingerprint(s.value), ""
	}
	if s.epoch == "" && s.pttl != absent {
		s.epoch = unknown // an empty value is no token
	}
	news := w.news(s, at)
	if names.Holder != nil && w.holder == "" && s.pttl != absent {
		w.holder = names.Holder(s.value)
		news = news || w.holder != ""
	}
	if news || final {
		e := history.Event{
			Kind: history.LookKind, Span: at, Source: sourceKeys, Lock: w.lock, Key: w.key, Epoch: s.epoch,
			Look: &history.Look{Present: s.pttl != absent, PTTL: s.pttl, Server: s.server, Final: final},
		}
		if s.pttl != absent {
			e.Look.Holder = w.holder
		}
		if names.Shown && s.pttl != absent {
			e.Look.Named = cut(s.value)
		}
		if news && w.seen {
			before := w.span
			e.Look.Prev = &before
		}
		events = append(events, e)
	}
	w.seen, w.span, w.last = true, at, s
	return events
}

// news reports whether s differs from the last look by more than the passing of time. That no key was there at the first
// look is none.
func (w *watched) news(s state, at history.Span) bool {
	switch {
	case !w.seen:
		return s.pttl != absent
	case s.value != w.last.value, (s.pttl < 0 || w.last.pttl < 0) && s.pttl != w.last.pttl:
		return true
	case s.pttl < 0:
		return false
	}
	surelyPassed := max(0, at.From-w.span.To)
	return s.pttl > w.last.pttl-surelyPassed+int64(pttlError)
}
