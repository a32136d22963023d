package redis

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

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

//go:embed look.lua
var lookScript string

const (
	chunk      = 512                // keys a script call: Redis serves nobody else meanwhile (about 0.5 ms)
	inTurn     = 128                // keys that nobody asks for, a look: one EXISTS of some 15 microseconds
	settle     = 20                 // looks that show a job's key absent, after which nobody is expected to hold it
	bareHash   = int64(-3)          // of a small hash that has none, in the script's reply
	perMilli   = int64(1_000_000)   // ns
	noScript   = "unknown command"  // reply of servers before 7.0 to EVALSHA_RO
	noReadOnly = "read-only script" // reply of the embedded store to TIME in a read-only script
)

// LockKeys watches lock keys: value, PTTL and the server's time in one read-only script. Watch, Expect, Asked and Holder may be
// called at any time; looks are made one after the other.
//
// A drill has as many keys as jobs, and few of them can be held at a time. A look reads those, and asks of the others, inTurn of them
// a look, whether they are there: one that is, although nobody has asked for it, is found after as many looks as that takes, and its
// bracket says since when it may have been.
type LockKeys struct {
	reader
	prefix string
	names  witness.Names

	mu   sync.Mutex
	keys map[string]*watched
	near []*watched // that each look reads
	far  []*watched // that looks read in turn
	next int        // in far: whose turn it is

	// The look that is made; its room is used again by the next.
	wire   *wire
	all    []*watched      // to be read
	first  int             // of those, how many somebody may hold
	states []witness.State // of those that have been read
	asking []byte
}

// reader reads keys of a server, or one key at a time of a cluster.
type reader struct {
	redis  redis.UniversalClient
	script *redis.Script
	plain  atomic.Bool // the server has no read-only form
}

// watched is a key that looks read.
type watched struct {
	witness.Track
	name      string // of the key at the store
	job       bool   // it is a job's: free once that is done
	near, far bool   // it is in the list of that name; in both until its turn comes among the others
	absent    int    // looks in a row that showed it absent, since somebody was last expected to hold it
}

// pttl takes in what the script says that is left of a lease.
func pttl(s *witness.State, left int64) {
	s.Left = left
	switch {
	case left == bareHash:
		s.Left, s.Bare = witness.Endless, true
	case left >= 0:
		s.Left *= perMilli
	}
}

// NewLockKeys returns a probe of the store that o dials and that watches no key yet; prefix goes before each key.
func NewLockKeys(o *redis.Options, prefix string) *LockKeys {
	wire := newWire(o)
	return &LockKeys{reader: reader{redis: endpoint.Client(o, looksWithin), script: redis.NewScript(lookScript)}, wire: wire, prefix: prefix, keys: map[string]*watched{}}
}

// ReadLockKeys returns a probe for Now and Any alone, of a Redis that the run did not start, of one server or of many; it makes no looks.
func ReadLockKeys(r experiments.Redis) (*LockKeys, error) {
	c, err := Reach(r)
	return &LockKeys{reader: reader{redis: c, script: redis.NewScript(lookScript)}, wire: newWire(&redis.Options{})}, err
}

// Kind implements witness.Watch.
func (p *LockKeys) Kind() witness.Kind { return witness.KindKeys }

// Name makes looks say whom values name. It is called before the first look.
func (p *LockKeys) Name(names witness.Names) { p.names = names }

// Watch adds a key of a lock that each look is to read; a key that is watched already stays as it is.
func (p *LockKeys) Watch(lock, key string) {
	p.add(&watched{Track: witness.Track{Lock: lock, Key: key}, name: p.prefix + key})
}

// Expect is Watch for the key of a job, each time that somebody may be about to take it.
func (p *LockKeys) Expect(lock, key string) {
	p.add(&watched{Track: witness.Track{Lock: lock, Key: key}, name: p.prefix + key, job: true})
}

// Asked says that somebody is about to take a key; of one that is not watched it takes no note.
func (p *LockKeys) Asked(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.keys[key]; w != nil {
		p.approach(w)
	}
}

func (p *LockKeys) add(w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.keys[w.Key]; known != nil {
		w = known
	}
	p.keys[w.Key] = w
	p.approach(w)
}

// approach lets each look read a key from now on.
func (p *LockKeys) approach(w *watched) {
	w.absent = 0
	if !w.near {
		w.near = true
		p.near = append(p.near, w)
	}
}

// Close closes the probe's connections.
func (p *LockKeys) Close() error { return errors.Join(p.wire.close(), p.redis.Close()) }

// toRead lists the keys of a look: first those, near of them, that somebody may hold, then some of the others.
func (p *LockKeys) toRead(final bool) (all []*watched, near int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = p.all[:0]
	if final {
		for _, w := range p.keys {
			all = append(all, w)
		}
		return all, len(all)
	}
	all = append(all, p.near...)
	for range min(inTurn, len(p.far)) {
		if p.next >= len(p.far) {
			p.next = 0
		}
		if w := p.far[p.next]; !w.near {
			all = append(all, w)
			p.next++
		} else { // it is read by each look again
			last := len(p.far) - 1
			w.far, p.far[p.next], p.far = false, p.far[last], p.far[:last]
		}
	}
	return all, len(p.near)
}

// leave lets looks read the keys only in turn that nobody is expected to hold any more.
func (p *LockKeys) leave() {
	p.near = slices.DeleteFunc(p.near, func(w *watched) bool {
		if w.job && w.absent >= settle {
			if w.near = false; !w.far {
				w.far, p.far = true, append(p.far, w)
			}
		}
		return !w.near
	})
}

// Now is what a key says at this moment: its token, and since when it may have had that. ok is false where the key is free.
func (p *LockKeys) Now(ctx context.Context, lock, key string) (now witness.Unclaimed, epoch string, ok bool, err error) {
	s, err := p.read(ctx, nil, []string{p.prefix + key}, 1)
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.keys[key]
	if w == nil {
		w = &watched{Track: witness.Track{Key: key}}
	}
	return w.Now(lock, w.OfToken(s[0]))
}

// Any is a key of that pattern that is there at this moment; "" = there is none.
func (p *LockKeys) Any(ctx context.Context, pattern string) (key string, err error) {
	err = onServers(ctx, p.redis, func(ctx context.Context, server *redis.Client) error {
		keys := server.Scan(ctx, 0, globOf(pattern), sweepPage).Iterator()
		if key == "" && keys.Next(ctx) {
			key = keys.Val()
		}
		return keys.Err()
	})
	return key, err
}

// Peek is whose token a lock's key carries, as a fingerprint, and what is left of the lease: below 0 = it has no end. Nobody's is "".
func Peek(ctx context.Context, c redis.UniversalClient, key string) (epoch string, left time.Duration, err error) {
	s, err := (&reader{redis: c, script: redis.NewScript(lookScript)}).read(ctx, nil, []string{key}, 1)
	if err != nil {
		return "", 0, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	if s[0].Left == witness.Absent {
		return "", 0, nil
	}
	return cmp.Or(lockcore.Fingerprint(s[0].Value), witness.Unknown), time.Duration(s[0].Left), nil
}

// read runs the script for a chunk of keys, of which the first near are likely to be there, and adds their states. Its read-only form works while a server refuses writes; where the server does
// not have it, the plain form is used from then on.
func (p *reader) read(ctx context.Context, states []witness.State, names []string, near int) ([]witness.State, error) {
	var reply []any
	var err error
	if !p.plain.Load() {
		reply, err = p.script.RunRO(ctx, p.redis, names, near).Slice()
		var answer redis.Error
		if errors.As(err, &answer) && hasNoReadOnly(answer) {
			p.plain.Store(true)
		}
	}
	if p.plain.Load() {
		reply, err = p.script.Run(ctx, p.redis, names, near).Slice()
	}
	if err != nil {
		return nil, err
	}
	return parseLook(states, reply, len(names), near)
}

// hasNoReadOnly reports the answer of a server that cannot run the script in its read-only form.
func hasNoReadOnly(answer error) bool {
	return strings.Contains(answer.Error(), noScript) || strings.Contains(answer.Error(), noReadOnly)
}

// parseLook adds what the script says of n keys, or of the first near alone: then none of the others is there.
func parseLook(states []witness.State, reply []any, n, near int) ([]witness.State, error) {
	told := (len(reply) - 1) / 2
	if len(reply) != 1+2*told || told != n && told != near {
		return nil, fmt.Errorf("got %d values for %d keys, %d of them near", len(reply), n, near)
	}
	server, ok := reply[0].(int64)
	for i := 0; ok && i < told; i++ {
		s := witness.State{Server: server}
		s.Value, ok = reply[1+2*i].(string)
		if ok {
			var left int64
			left, ok = reply[2+2*i].(int64)
			pttl(&s, left)
		}
		states = append(states, s)
	}
	for range n - told {
		states = append(states, witness.State{Server: server, Left: witness.Absent})
	}
	if !ok {
		return nil, errors.New("got a reply of an unexpected shape")
	}
	return states, nil
}
