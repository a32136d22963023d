package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Store befalls the locks' store itself; the ledger is never touched.
type Store struct {
	Do   Do            `rule:"required,words=pause|freeze|restart|stop|flush|failover|freeze_leader|stop_leader"` // what is done to the store; the ledger is never touched
	Keep bool          `rule:"omit"`                                                                              // restart and stop: the data survives
	Lag  time.Duration `rule:"positive" scale:"yes"`                                                              // failover: so much of the last writes is lost
}

// Do is what is done to the store.
type Do string

const (
	StorePause    Do = "pause"    // CLIENT PAUSE for its time
	StoreFreeze   Do = "freeze"   // SIGSTOP of the server for its time
	StoreRestart  Do = "restart"  // killed and started again at once
	StoreStop     Do = "stop"     // killed, and started again when its time is up
	StoreFlush    Do = "flush"    // FLUSHALL
	StoreFailover Do = "failover" // the primary is killed, and a replica that lags becomes the primary

	StoreFreezeLeader Do = "freeze_leader" // SIGSTOP of the server that leads the others, for its time
	StoreStopLeader   Do = "stop_leader"   // that one killed, and started again when its time is up
)

// doable are the faults that each kind of store can suffer.
var doable = map[string][]Do{
	"redis":    {StorePause, StoreFreeze, StoreRestart, StoreStop, StoreFlush, StoreFailover},
	"postgres": {StoreFreeze, StoreRestart, StoreStop},
	"etcd":     {StoreFreeze, StoreRestart, StoreStop, StoreFreezeLeader, StoreStopLeader},
}

// OfLeader reports that it befalls one server of several, the one that leads.
func (d Do) OfLeader() bool { return d == StoreFreezeLeader || d == StoreStopLeader }

// Allowed are the faults that may be done to a Redis that the run did not start, if its section names them.
func Allowed() []string {
	return []string{string(StorePause), string(StoreFlush), (*DeleteKey)(nil).Kind()}
}

func newStore(form, _ string) Spec { return &Store{Do: Do(form)} }

func (*Store) Kind() string   { return "store" }
func (s *Store) Form() string { return string(s.Do) }

func (s *Store) Magnitude() string {
	if s.Lag > 0 {
		return "lag " + figures.Spell(s.Lag)
	}
	return ""
}

func (*Store) Target() Aim { return Aim{} }

func (s *Store) Traits() Traits {
	t := Traits{Class: ClassStore, Noun: "fault", AtStore: true, KeepsData: s.Keep}
	t.AtOnce, t.Empties, t.FailsOver = s.Do == StoreFlush, s.Do == StoreFlush, s.Do == StoreFailover
	switch s.Do {
	case StorePause, StoreFreeze, StoreStop, StoreFreezeLeader, StoreStopLeader:
		t.GoesOn = fmt.Sprintf("a %s of the store goes on until it is ended", s.Do)
	case "":
	default:
		t.Instant = fmt.Sprintf("a %s of the store", s.Do)
	}
	switch s.Do {
	case StorePause, StoreFreeze, StoreFreezeLeader:
		t.Class, t.NotEmbedded = ClassPause, string(s.Do)
	case StoreFailover:
		t.NotEmbedded = string(s.Do)
	}
	if s.Keep {
		t.NotEmbedded = "keep its data"
	}
	return t
}

func (s *Store) Barred(a Around) string {
	switch {
	case a.Observed && s.Do == StoreFlush:
		return notOurKeys
	case a.Pods && s.Do != "" && !slices.Contains(Allowed(), string(s.Do)):
		return fmt.Sprintf("%s is for a Redis that the run started itself, which pods do not reach: pause and flush are for any, or drill it with processes (without a kubernetes section)", s.Do)
	case a.Observed && a.Redis != "external":
		return notInRedis
	}
	return ""
}

const (
	notInRedis = "no lock of this file is in a Redis: kill the holder"
	notOurKeys = "empties the Redis of keys of the run's own, and all keys of an observed system are somebody's: delete_key takes one lock's key, if redis.allow names it"
)

func (s *Store) Check(c Checker) {
	if s.Keep && s.Do != "" && s.Do != StoreRestart && s.Do != StoreStop {
		c.Check("keep", "is for restart and stop, not %s", s.Do)
	}
	if s.Lag > 0 && s.Do != "" && s.Do != StoreFailover {
		c.Check("lag", "is for failover, not %s", s.Do)
	}
	around := c.Around()
	if kind := around.Store; s.Do != "" && !slices.Contains(doable[kind], s.Do) {
		c.Check("", "%s cannot be done to locks in %s: choose %s", s.Do, kind, wordsOf(doable[kind]))
		return
	}
	if s.Keep && around.Store == "postgres" {
		c.Check("keep", "an advisory lock belongs to a session, and no session survives the server: leave it out")
	}
	if s.Do.OfLeader() && around.Servers < 3 {
		c.Check("", "%s needs a leader and others that can elect another: say store: {kind: %s, members: 3}", s.Do, around.Store)
	}
	if s.Do == StoreFreeze && around.Servers > 1 {
		c.Check("", "stops one server, and there are %d: say freeze_leader", around.Servers)
	}
	switch around.Redis {
	case "embedded":
		switch {
		case s.Do == StorePause || s.Do == StoreFreeze || s.Do == StoreFailover:
			c.Check("", "the embedded store has no %s: say redis: {mode: spawn}", s.Do)
		case s.Keep:
			c.Check("keep", "the embedded store keeps no data: say redis: {mode: spawn}")
		}
	case "external":
		if s.Do != "" && !slices.Contains(Allowed(), string(s.Do)) {
			c.Check("", "%s is for a Redis that the run started itself: say redis: {mode: spawn}", s.Do)
			return
		}
		checkAllowed(c, string(s.Do))
	}
}

func wordsOf(does []Do) string {
	words := make([]string, len(does))
	for i, d := range does {
		words[i] = string(d)
	}
	return strings.Join(words, ", ")
}

// checkAllowed refuses a fault of the store that a Redis of somebody's does not allow by name.
func checkAllowed(c Checker, word string) {
	if a := c.Around(); a.Redis == "external" && word != "" && !slices.Contains(a.Allow, word) {
		c.Check("", "is done to a Redis that the run did not start only if its section names it: redis: {..., allow: [%s]}", word)
	}
}

func (s *Store) Describe(bool) Description {
	data, lag := "its data is gone", ""
	if s.Keep {
		data = "its data survives"
	}
	if s.Lag > 0 {
		lag = ", which has missed the last " + figures.Spell(s.Lag) + ","
	}
	return map[Do]Description{
		StorePause:        {"CLIENT PAUSE: no write is answered", "a write gets no answer", "CLIENT UNPAUSE; a write is answered; the pause also ends by itself"},
		StoreFreeze:       {"SIGSTOP of the server", "the system says that it is stopped", "SIGCONT; a call is answered"},
		StoreRestart:      {"the server is killed and started again; " + data, "it answers under another run id", "nothing to undo: it is ended with the run"},
		StoreStop:         {"the server is killed and stays away; " + data, "connections are refused", "it is started again and answers"},
		StoreFlush:        {"every key of the run is gone; of a server that the run started, FLUSHALL", "a key written before is gone", "nothing can be put back"},
		StoreFreezeLeader: {"SIGSTOP of the server that leads the others", "the system says that it is stopped", "SIGCONT; a call is answered"},
		StoreStopLeader:   {"the server that leads the others is killed and stays away; its data survives", "its process is gone", "it is started again and answers"},
		StoreFailover: {"the primary is killed, and its replica" + lag + " becomes the primary", "the new one says that it is the primary, and answers",
			"nothing to undo: both servers are ended with the run"},
	}[s.Do]
}

func (s *Store) Action(shot Shot) string {
	data, lag := ", data lost", ""
	if shot.KeptData {
		data = ", data kept"
	}
	if shot.Configured != "" {
		lag = " (" + shot.Configured + ")"
	}
	switch s.Do {
	case StorePause:
		return "store answers no write (CLIENT PAUSE)" + shot.lasting()
	case StoreFreeze:
		return "SIGSTOP of the store's server" + shot.lasting()
	case StoreRestart:
		return "store killed and started again" + data
	case StoreStop:
		return "store killed" + shot.lasting() + data
	case StoreFreezeLeader:
		return "SIGSTOP of the store's leader" + shot.lasting()
	case StoreStopLeader:
		return "the store's leader killed" + shot.lasting()
	case StoreFlush:
		return "store emptied of the run's keys"
	case StoreFailover:
		return "store failed over to its replica" + lag + ": what was not replicated is forgotten"
	}
	return Words("store "+string(s.Do), shot.Configured) + shot.lasting()
}

func (s *Store) Measured(m Measured) string {
	switch s.Do {
	case StorePause:
		return m.as("a write was kept waiting for")
	case StoreFreeze, StoreFreezeLeader:
		return m.as("stood still for")
	case StoreStopLeader:
		return m.as("the leader was away for")
	}
	return m.as("nobody answered for")
}
