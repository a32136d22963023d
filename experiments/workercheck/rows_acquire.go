package workercheck

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// acquireRows are about taking a key, in all scenes together.
var acquireRows = []row{
	{"acquire", "asks for the key of a job that it is offered",
		"an acquire.invoke with the offer's lock and key",
		"Take each offer: write acquire.invoke with the offer's lock and key, and ask the store for store.prefix + key.", inCommands, checkAcquire, Jobs},
	{"acquire-announced", "announces each acquire before the call",
		"the line acquire.invoke, then the call",
		"Write acquire.invoke, with the epoch that is asked for, before the call to the store is made.", inLines, func(b *bench) finding {
			return b.unannounced(func(c *call) bool { return c.set() }, history.AcquireInvoke, "has set")
		}, ""},
	{"acquire-token", "sets the key to the token that it has announced",
		"epoch = the first 12 hex digits of the SHA-256 of the key's value",
		"Name each attempt's epoch by the fingerprint of the very token that the call sets.", inLocks, checkToken, ""},
	{"fresh-token", "uses a new token for every attempt",
		"an epoch in one acquire.invoke, and in no other",
		"Make a random token for each attempt, not one for each process.", inLocks, checkFresh, ""},
	{"grant", "says truly whether an acquire has taken the key",
		"ok and granted where the call set the key, fail where it did not, unknown where no reply came",
		"Take the outcome from the store's reply. Only a refusal by the store is fail; a timeout is unknown.", inEvents, checkGrant, ""},
	{"lease", "gives the key an expiry, in the call that sets it",
		"a key with a time to live of at most the call.ttl that was announced",
		"Set key and expiry in one command (SET key token NX PX ttl), and say that ttl in call.ttl.", inLocks, checkLease, ""},
	{"fence", "names the fence of each grant",
		"acquire.return with a fence above 0",
		"Mint a number with each grant, in the script that sets the key, and say it in acquire.return.", inLocks, checkFence, ""},
	{"fence-stored", "keeps the last fence in the store",
		"a key of the store that holds the number of the last grant",
		"Keep the number beside the lock's key (SET fence-key number PX a-day), in the script that sets the lock.", inLocks, func(b *bench) finding {
			switch {
			case b.acts.fence == 0:
				return notSeen("no grant with a fence")
			case b.acts.raised == 0:
				return wrong("no key of the store held %d, the fence of the first grant", b.acts.fence)
			}
			return ok("%s", b.acts.fencePlace)
		}, Jobs},
	{"fence-grows", "mints a higher fence with each grant of a key, over all lives",
		"fences that grow, also where the server's clock has been set back",
		"Mint max(stored fence + 1, the server's microseconds) in the script that sets the key. A counter of the process begins anew with it.", inLocks, checkGrows, ""},
}

func checkAcquire(b *bench) finding {
	s := &b.acts.first
	if s.life == nil {
		return notSeen(unplayed)
	}
	asked := b.within(s, history.AcquireInvoke)
	switch {
	case len(asked) > 0 && asked[0].Key == jobKey && asked[0].Lock == jobLock:
		return ok("%s after the offer", span(time.Duration(asked[0].Arrived-s.from)))
	case len(asked) > 0:
		return wrong("the offer named the lock %s and the key %s: %s", jobLock, jobKey, quote(asked[0]))
	case len(b.within(s, history.AcquireReturn, history.WorkEnter, history.JobAck)) > 0:
		return wrong("no acquire.invoke, but %s", quote(b.within(s, history.AcquireReturn, history.WorkEnter, history.JobAck)[0]))
	}
	for _, c := range b.seen.calls {
		if c.Life == s.life.inc && c.Key == jobKey {
			return wrong("no acquire.invoke, but a call %s on the key %s", c.Name, c.Key)
		}
	}
	return notSeen("it did not answer the offer: a worker of loops only need not")
}

func checkToken(b *bench) finding {
	n := 0
	for _, c := range b.seen.calls {
		announced := b.seen.served(c)
		if !c.set() || len(announced) == 0 {
			continue
		}
		n++
		if !slices.ContainsFunc(announced, func(o op) bool { return o.Epoch == c.epoch() }) {
			return wrong("acquire.invoke announced the epoch %s; after %s the key %s shows %s", announced[0].Epoch, c.Name, c.Key, c.After)
		}
	}
	if n == 0 {
		return notSeen("no announced call has set a key")
	}
	return ok("%s", figures.Plural(n, "grant"))
}

func checkFresh(b *bench) finding {
	seen := map[string]line{}
	for _, l := range b.seen.of("", 0, history.AcquireInvoke) {
		if first, again := seen[l.Epoch]; again {
			return wrong("the epoch %s of op %s is that of op %s, too: %s", l.Epoch, l.Op, first.Op, quote(l))
		}
		seen[l.Epoch] = l
	}
	if len(seen) < 2 {
		return notSeen("%s", figures.Plural(len(seen), "attempt"))
	}
	return ok("%s", figures.Plural(len(seen), "attempt"))
}

func checkGrant(b *bench) finding {
	n := 0
	for _, l := range b.seen.of("", 0, history.AcquireReturn) {
		calls := b.seen.made(l, false)
		i := slices.IndexFunc(calls, func(c *call) bool { return c.set() && c.epoch() == l.Epoch })
		switch {
		case l.Outcome == history.OK && len(calls) == 0:
			return wrong("it says granted, and sent no call that names the key %s: %s", l.Key, quote(l))
		case l.Outcome == history.OK && !could(calls, (*call).set):
			return wrong("it says granted, and %s did not set the key (before: %s; after: %s): %s", calls[0].Name, calls[0].Before, calls[0].After, quote(l))
		case l.Outcome == history.Fail && i >= 0:
			return wrong("it says fail, and %s has set the key (before: %s; after: %s): %s", calls[i].Name, calls[i].Before, calls[i].After, quote(l))
		}
		n++
	}
	if n == 0 {
		return notSeen("no acquire.return")
	}
	return ok("%s", figures.Plural(n, "attempt"))
}

func checkLease(b *bench) finding {
	n := 0
	for _, c := range b.seen.calls {
		if !c.set() {
			continue
		}
		n++
		if c.After.PTTL < 0 {
			return wrong("after %s the key %s shows %s: a holder that dies now blocks it for ever", c.Name, c.Key, c.After)
		}
		all := b.seen.served(c)
		if len(all) > 0 && !slices.ContainsFunc(all, func(o op) bool { return o.Call.TTL > 0 && c.After.PTTL <= time.Duration(o.Call.TTL)+time.Millisecond }) {
			return wrong("after %s the key %s shows %s; announced was %s", c.Name, c.Key, c.After, quote(all[0].line))
		}
	}
	if n == 0 {
		return notSeen("no call has set a key")
	}
	return ok("%s", figures.Plural(n, "grant"))
}

func (b *bench) granted(key string) (all []line) {
	for _, l := range b.seen.of("", 0, history.AcquireReturn) {
		if l.Outcome == history.OK && l.Key == key {
			all = append(all, l)
		}
	}
	return all
}

func checkFence(b *bench) finding {
	all := slices.Concat(b.granted(jobKey), b.granted(loopKey))
	if len(all) == 0 {
		return notSeen("no grant")
	}
	for _, l := range all {
		if l.Fence <= 0 {
			return wrong("a grant without a fence: %s", quote(l))
		}
	}
	return ok("%s", figures.Plural(len(all), "grant"))
}

func checkGrows(b *bench) finding {
	n := 0
	for _, key := range []string{jobKey, loopKey} {
		last := int64(0)
		for _, l := range b.granted(key) {
			if key == jobKey && l.From > b.acts.raisedAt {
				last = max(last, b.acts.raised)
			}
			if l.Fence <= last {
				return wrong("the fence %d of the key %s came after %d: %s", l.Fence, key, last, quote(l))
			}
			last = l.Fence
			n++
		}
	}
	if n < 2 {
		return notSeen("%s", figures.Plural(n, "grant"))
	}
	return ok("%s", figures.Plural(n, "grant"))
}
