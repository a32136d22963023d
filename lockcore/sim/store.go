package sim

import (
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// storeState is what the locks' store is doing.
type storeState struct {
	down    bool // nobody listens
	frozen  bool // the process stands still: what arrives is done when it goes on
	paused  bool // writes wait; those of callers that have gone are dropped
	waiting []*call
}

func (s *storeState) away() bool { return s.down || s.frozen }

// keyState is what the locks' store knows of one key, and what its probe has seen of it.
type keyState struct {
	lock, name string
	holder     int // token; 0 = free
	ends       int64
	expires    int64 // the moment that is planned for its end; 0 = none
	sampled    sample
}

func (w *World) keyOf(lock, key string) *keyState {
	k := w.keys[key]
	if k == nil {
		k = w.states.Get()
		*k = keyState{lock: lock, name: key}
		w.keys[key] = k
	}
	return k
}

// newToken gives out the next token, to an acquire of the lease.
func (w *World) newToken(l *lease) int {
	if l.lock.Variant.OneToken && l.r.token != 0 {
		return l.r.token
	}
	if l.lock.Variant.SharedToken && len(w.truth.Epochs) > 0 {
		return 1
	}
	n := w.truth.epoch(l)
	l.r.token = n
	for len(w.names) < n {
		t := "t" + strconv.Itoa(len(w.names)+1)
		w.names = append(w.names, name{token: t})
	}
	if w.recording() && w.names[n-1].epoch == "" {
		w.names[n-1].epoch = lockcore.Fingerprint(w.names[n-1].token)
	}
	return n
}

// epochOf is the fingerprint of a token by its number.
func (w *World) epochOf(token int) string {
	if token == 0 || token > len(w.names) {
		return ""
	}
	if w.names[token-1].epoch == "" {
		w.names[token-1].epoch = lockcore.Fingerprint(w.names[token-1].token)
	}
	return w.names[token-1].epoch
}

// send puts the request on its way.
func (c *call) send() {
	w := c.lease.w
	y := w.ways[c.lease.r.Name]
	switch {
	case y != nil && y.refuses(), w.store.down:
		c.fail(lockcore.Failed, "connection refused")
		return
	case y != nil && y.cut == cutReset:
		c.fail(lockcore.Unknown, "connection reset")
		return
	}
	at, arrives := w.travel(y, up)
	if arrives {
		w.about(c, atStore, at)
	}
}

// fail answers the caller soon, without the store.
func (c *call) fail(r lockcore.Result, text string) {
	w := c.lease.w
	c.result, c.text = r, text
	w.about(c, atClient, w.now+w.flight())
}

// arrive is the request at the store.
func (w *World) arrive(c *call) {
	switch {
	case w.store.down:
		c.result, c.text = lockcore.Unknown, "connection closed"
		if !c.closed && !c.silent {
			w.about(c, atClient, w.now+w.flight())
		}
	case w.store.frozen || w.store.paused:
		w.store.waiting = append(w.store.waiting, c)
	default:
		w.execute(c)
	}
}

// execute is the store's work, by the table; the reply then travels back.
func (w *World) execute(c *call) {
	k := c.lease.key
	w.expire(k)
	if c.lease.lock.Variant.Rules != nil {
		w.executeBy(c)
		return
	}
	now, token := w.server(), w.names[c.token-1].token
	switch c.Op {
	case lockcore.OpAcquire:
		if k.holder != 0 && k.holder != c.token { // what the table would say, without the error that it makes
			c.result, c.holder, c.pttl = lockcore.Held, k.holder, time.Duration(k.ends-w.now)
			break
		}
		g, err := w.table.Acquire(now, k.name, token, c.TTL)
		c.result, c.grant = lockcore.ResultOf(err), g.Fence
		if err == nil {
			w.holds(k, c.token, w.now+int64(c.TTL))
			w.truth.storeGranted(c.token, w.now, g.Fence)
		}
	case lockcore.OpRenew:
		err := w.table.Renew(now, k.name, token, c.TTL)
		if c.result, c.holder = lockcore.ResultOf(err), k.holder; err == nil {
			w.holds(k, c.token, w.now+int64(c.TTL))
		}
	default:
		err := w.table.Release(now, k.name, token)
		c.result, c.holder = lockcore.ResultOf(err), k.holder
		if c.Attempt == 1 {
			w.truth.giveBackReached(c.token, w.now)
		}
		if err == nil {
			w.truth.gaveBack(c.token)
			w.free(k)
		}
	}
	w.reply(c)
}

// reply sends the store's answer on its way.
func (w *World) reply(c *call) {
	if c.silent || c.closed {
		return
	}
	y := w.ways[c.lease.r.Name]
	if at, arrives := w.travel(y, down); arrives {
		w.about(c, atClient, at)
	}
}

// holds notes the key's holder and end.
func (w *World) holds(k *keyState, token int, ends int64) {
	k.holder, k.ends = token, ends
	w.truth.extended(token, w.now, ends)
	if w.recording() {
		w.changed(k)
		if ends != Never && (k.expires == 0 || ends < k.expires) { // a standby, or a stranger, may have an earlier end
			k.expires = ends
			w.plan(moment{at: ends, kind: atExpiry, key: k})
		}
	}
}

// free notes that the key is free from now on.
func (w *World) free(k *keyState) {
	w.truth.freed(k.holder, w.now)
	k.holder = 0
	w.changed(k)
}

// expire frees a key whose time is up; a store that stands still still counts the time.
func (w *World) expire(k *keyState) {
	if k.holder != 0 && w.now >= k.ends {
		w.truth.freed(k.holder, k.ends)
		k.holder = 0
		w.changed(k)
	}
}

func (w *World) expiry(k *keyState) {
	if w.now < k.expires {
		return // an earlier end has taken its place
	}
	k.expires = 0
	w.expire(k)
	if k.holder != 0 {
		k.expires = k.ends
		w.plan(moment{at: k.ends, kind: atExpiry, key: k})
	}
}

// Holder says whose epoch a key carries now; ok is false where it is free.
func (w *World) Holder(key string) (epoch string, ok bool) {
	k := w.keys[key]
	if k == nil {
		return "", false
	}
	w.expire(k)
	return w.epochOf(k.holder), k.holder != 0
}
