package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Faults of the locks' store, by its commands or by signals to its server.

// Store befalls the locks' store itself; the ledger is never touched.
type Store struct {
	Do   Do            `rule:"required,words=pause|freeze|restart|stop|flush|fill|failover|freeze_leader|stop_leader"` // what is done to the store, never to the ledger
	Keep bool          `rule:"omit,for=do:restart|stop"`                                                               // the data survives
	Lag  time.Duration `rule:"positive,for=do:failover" scale:"yes"`                                                   // so much of the last writes is lost
	Lock string        // failover of a Redis Cluster of yours: by this lock's key
}

// Do is what is done to the store.
type Do string

const (
	StorePause    Do = "pause"    // CLIENT PAUSE for its time
	StoreFreeze   Do = "freeze"   // SIGSTOP of the server for its time
	StoreRestart  Do = "restart"  // killed and started again at once
	StoreStop     Do = "stop"     // killed, and started again when its time is up
	StoreFlush    Do = "flush"    // FLUSHALL
	StoreFill     Do = "fill"     // its memory is full for its time
	StoreFailover Do = "failover" // the primary is killed, and a replica that lags becomes the primary

	StoreFreezeLeader Do = "freeze_leader" // SIGSTOP of the server that leads the others, for its time
	StoreStopLeader   Do = "stop_leader"   // that one killed, and started again when its time is up
)

// kept is what is particular to a kind of store, for whoever does something to it.
type kept struct {
	does    []Do // what it can suffer
	session bool // a lock is its session's
	leased  bool // a key is bound to its holder's lease
}

var keptIn = map[string]kept{
	"redis":    {does: []Do{StorePause, StoreFreeze, StoreRestart, StoreStop, StoreFlush, StoreFill, StoreFailover}},
	"postgres": {does: []Do{StoreFreeze, StoreRestart, StoreStop}, session: true},
	"etcd":     {does: []Do{StoreFreeze, StoreRestart, StoreStop, StoreFreezeLeader, StoreStopLeader}, leased: true},
}

// Allowed are the faults that may be done to a Redis that the run did not start, if its section names them.
func Allowed() []string {
	return []string{string(StorePause), string(StoreFlush), string(StoreFill), string(StoreFailover), (*DeleteKey)(nil).Kind()}
}

func wordsOf(does []Do) string {
	words := make([]string, len(does))
	for i, d := range does {
		words[i] = string(d)
	}
	return strings.Join(words, ", ")
}

// DeleteKey removes the key of a held lock under its holder.
type DeleteKey struct {
	HolderOf string `rule:"required"`       // the held key of this lock
	To       string `rule:"words=stranger"` // stranger: it carries an unknown token for a while; left out: it vanishes
}

// Stranger is the form in which the key is given to a stranger.
const Stranger = "stranger"

func (*DeleteKey) Kind() string  { return "delete_key" }
func (d *DeleteKey) Target() Aim { return Aim{HolderOf: d.HolderOf} }

func (d *DeleteKey) form() string {
	if d.To == Stranger {
		return Stranger
	}
	return "vanish"
}

func (d *DeleteKey) seen(form, _ string) {
	if form == Stranger {
		d.To = form
	}
}

// Terminate ends the session that holds a lock of a PostgreSQL, which the lock goes with; its owner lives on, and is not asked.
type Terminate struct {
	HolderOf string `rule:"required"` // whoever holds this lock when the fault is fired
}

func (*Terminate) Kind() string  { return "terminate" }
func (t *Terminate) Target() Aim { return Aim{HolderOf: t.HolderOf} }

func (*Store) Kind() string { return "store" }
func (*Store) Target() Aim  { return Aim{} }

func (s *Store) values() map[string]string {
	return map[string]string{"data": map[bool]string{true: "its data survives", false: "its data is gone"}[s.Keep]}
}

// permitted is the law of what is done to a Redis of somebody's.
func permitted[F any](word func(*F) string) Constraint {
	return because("", func(f *F, c Checker) string {
		if w, a := word(f), c.Around(); a.Redis == "external" && w != "" && !slices.Contains(a.Allow, w) {
			return fmt.Sprintf("is done to a Redis that the run did not start only if its section names it: redis: {..., allow: [%s]}", w)
		}
		return ""
	})
}

// lasting and instant are traits of what is done to the store.
func lasting(do, class string) Traits {
	return Traits{Class: class, GoesOn: "a " + do + " of the store goes on until it is ended"}
}

func instant(do string) Traits { return Traits{Instant: "a " + do + " of the store"} }

const (
	noRedis = "no lock of this file is in a Redis: kill the holder"
	stopped = "the system says that it is stopped"
	resumes = "SIGCONT; a call is answered"
	started = "it is started again and answers"
)

var stores = []Kind{
	{Word: "store", By: Command, New: made(Store{}), Formed: "do", Says: "the locks' store itself: pause, freeze, restart, stop, flush, fill or failover; never the ledger",
		Form: Form{Traits: Traits{Class: ClassStore, Noun: "fault", AtStore: true}, Size: "[lag {lag}]", Shows: "nobody answered for", Told: "store[ {size}]{for}"},
		Forms: []Form{
			{Word: "pause", Traits: lasting("pause", ClassPause), Does: "CLIENT PAUSE: no write is answered", Seen: "a write gets no answer",
				Undone: "CLIENT UNPAUSE; a write is answered; the pause also ends by itself", Told: "store answers no write (CLIENT PAUSE){for}", Shows: "a write was kept waiting for"},
			{Word: "freeze", Traits: lasting("freeze", ClassPause), Does: "SIGSTOP of the server", Seen: stopped, Undone: resumes, Told: "SIGSTOP of the store's server{for}", Shows: "stood still for"},
			{Word: "restart", Traits: instant("restart"), Does: "the server is killed and started again; {data}", Seen: "it answers under another run id", Undone: "nothing to undo: it is ended with the run",
				Told: "store killed and started again, data {kept}"},
			{Word: "stop", Traits: lasting("stop", ""), Does: "the server is killed and stays away; {data}", Seen: "connections are refused", Undone: started, Told: "store killed{for}, data {kept}"},
			{Word: "flush", Traits: over(instant("flush"), Traits{AtOnce: true, Empties: true}), Does: "every key of the run is gone; of a server that the run started, FLUSHALL",
				Seen: "a key written before is gone", Undone: "nothing can be put back", Told: "store emptied of the run's keys"},
			{Word: "fill", Traits: lasting("fill", ClassPause), Does: "maxmemory is set to 1 byte, and nothing is evicted: writes that need memory are refused", Seen: "a write is refused for want of memory until the end",
				Undone: "maxmemory and its policy are what they were, which is read back; a write is answered", Told: "store refuses writes for want of memory{for}", Shows: "refused writes for", Unplayed: "the memory of a store is not simulated"},
			{Word: "failover", Traits: over(instant("failover"), Traits{FailsOver: true}), Does: "the primary is killed, and its replica[, which has missed the last {lag},] becomes the primary",
				Seen: "the new one says that it is the primary, and answers", Undone: "nothing to undo: both servers are ended with the run",
				Told: "store failed over to its replica[ ({size})]: what was not replicated is forgotten"},
			{Word: "freeze_leader", Traits: lasting("freeze_leader", ClassPause), Does: "SIGSTOP of the server that leads the others", Seen: stopped, Undone: resumes,
				Told: "SIGSTOP of the store's leader{for}", Shows: "stood still for"},
			{Word: "stop_leader", Traits: lasting("stop_leader", ""), Does: "the server that leads the others is killed and stays away; its data survives", Seen: "its process is gone", Undone: started,
				Told: "the store's leader killed{for}", Shows: "the leader was away for"},
		},
		Values: values(func(s *Store, t Traits) Traits {
			t.KeepsData = s.Keep
			if slices.Contains([]Do{StorePause, StoreFreeze, StoreFreezeLeader, StoreFailover}, s.Do) {
				t.NotEmbedded = string(s.Do)
			}
			if s.Keep {
				t.NotEmbedded = "keep its data"
			}
			return t
		}),
		Unsupported: unsupported(func(s *Store, a Around) string {
			switch {
			case a.Observed && s.Do == "flush":
				return "empties the Redis of keys of the run's own, and all keys of an observed system are somebody's: delete_key takes one lock's key, if redis.allow names it"
			case a.Pods && s.Do != "" && !slices.Contains(Allowed(), string(s.Do)):
				return string(s.Do) + " is for a Redis that the run started itself, which pods do not reach: pause and flush are for any, or drill it with processes (without a kubernetes section)"
			case a.Observed && a.Redis != "external":
				return noRedis
			}
			return ""
		}),
		Constraints: []Constraint{
			because("", (*Store).around),
		}},
	{Word: "delete_key", By: Command, New: made(DeleteKey{}), Says: "the key of a held lock vanishes, or carries a token that nobody knows (to: stranger)",
		Form: Form{Traits: Traits{Class: ClassTheft, Noun: "deletion", AtKey: true}, Shows: "took"},
		Forms: []Form{
			{Word: "vanish", Traits: Traits{Instant: "a key that vanishes", AtOnce: true}, Does: "the key of the held lock is deleted under its holder", Seen: "the key is read back: it is gone, or another's",
				Undone: "nothing is put back: the holder's next renewal is told that the lock is lost", Told: "deleted {key} of {victim}"},
			{Word: "stranger", Traits: Traits{Plants: true, GoesOn: "the stranger would keep the key"}, Does: "the key of the held lock gets a token that nobody knows",
				Seen: "the key is read back and carries that token", Undone: "the key is removed if it still carries that token, which is read back", Told: "gave {key} of {victim} to a stranger for {lasts}"},
		},
		Unsupported: unsupported(func(d *DeleteKey, a Around) string {
			switch {
			case a.Observed && a.Redis != "external":
				return noRedis
			case keptIn[a.Store].leased && d.To == Stranger:
				return "a key of an etcd is bound to its holder's lease, and carries no token of somebody else: leave out to"
			}
			return ""
		}),
		Constraints: []Constraint{because("holder_of", func(d *DeleteKey, c Checker) string {
			if l := c.Lock("holder_of", d.HolderOf); l != nil && l.Lease {
				return "lock " + l.Name + " is a Lease object, and no key of a Redis: kill the holder"
			}
			return ""
		}), permitted(func(*DeleteKey) string { return "delete_key" })}},
	{Word: "terminate", By: Command, New: made(Terminate{}), Says: "the session that holds an advisory lock of a PostgreSQL is ended",
		Unplayed: "sessions of a PostgreSQL, which locks go with, are not simulated",
		Form: Form{Traits: Traits{Class: ClassTheft, Noun: "termination", Instant: "the end of a session", AtKey: true, Session: true, AtOnce: true},
			Does: "pg_terminate_backend of the session that holds the lock: the lock is free, and its holder is not asked", Seen: "pg_stat_activity no longer has that session",
			Undone: "nothing is put back: the holder's next statement fails", Told: "ended the session of {victim}, which held {key}"},
		Constraints: []Constraint{because("", func(t *Terminate, c Checker) string { c.Lock("holder_of", t.HolderOf); return "" }),
			breaks("", "ends the session that holds an advisory lock: it is for store: {kind: postgres}", func(_ *Terminate, c Checker) bool { return !keptIn[c.Around().Store].session })}},
}

// around says what about the store keeps the fault from being done.
func (s *Store) around(c Checker) string {
	a := c.Around()
	in := keptIn[a.Store]
	if s.Do != "" && !slices.Contains(in.does, s.Do) {
		return fmt.Sprintf("%s cannot be done to locks in %s: choose %s", s.Do, a.Store, wordsOf(in.does))
	}
	if s.Keep && in.session {
		c.Check("keep", "an advisory lock belongs to a session, and no session survives the server: leave it out")
	}
	if (s.Do == "freeze_leader" || s.Do == "stop_leader") && a.Servers < 3 {
		c.Check("", "%s needs a leader and others that can elect another: say store: {kind: %s, members: 3}", s.Do, a.Store)
	}
	if s.Do == "freeze" && a.Servers > 1 {
		c.Check("", "stops one server, and there are %d: say freeze_leader", a.Servers)
	}
	switch {
	case a.Redis == "embedded" && (s.Do == "pause" || s.Do == "freeze" || s.Do == "fill" || s.Do == "failover"):
		return "the embedded store has no " + string(s.Do) + ": say redis: {mode: spawn}"
	case a.Redis == "embedded" && s.Keep:
		c.Check("keep", "the embedded store keeps no data: say redis: {mode: spawn}")
	case a.Redis == "external" && s.Do != "" && !slices.Contains(Allowed(), string(s.Do)), a.Redis == "external" && s.Do == "failover" && !a.Sentinels && !a.Cluster:
		return string(s.Do) + " is for a Redis that the run started itself: say redis: {mode: spawn}" + map[bool]string{true: ", or name its Sentinels, or say that it is a cluster"}[s.Do == "failover" && a.Observed]
	case s.Lag > 0 && a.Redis == "external":
		c.Check("lag", "is for a replica of the run's own, and this one is yours: leave it out")
	case s.Do == "failover" && a.Cluster && s.Lock == "":
		c.Check("lock", "missing: a cluster has several primaries, and the one that has this lock's key is meant")
	case s.Lock != "" && (s.Do != "failover" || !a.Cluster):
		c.Check("lock", "is for failover of a Redis Cluster of yours, which has several primaries")
	case s.Lock != "":
		c.Lock("lock", s.Lock)
	}
	if a.Redis == "external" {
		return permitted(func(s *Store) string { return string(s.Do) }).Why(s, c)
	}
	return ""
}
