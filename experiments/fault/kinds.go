package fault

import (
	"slices"

	"github.com/lockdrill/lockdrill/lockcore"
)

// kind is one row of the table of kinds. made gives a fault of the kind and that form with its defaults; forms and ways that are not
// known leave it as it is by default.
type kind struct {
	word string
	made func(form, via string) Spec
	says string // what it is, in a sentence, for whoever reads the word
}

// kinds is the table, in the order in which files and messages list them.
func kinds() []kind {
	return []kind{
		{"kill", newKill, "SIGKILL of the replica that holds a lock, at a chosen moment of the lease: its keys are left to their ttl; of a pod, by one of four forms"},
		{"rolling_restart", newRolling, "every replica is restarted, one after the other, as a deployment does: SIGTERM with a grace, in order, the leader first or last; of pods also a rollout restart"},
		{"pause", newPause, "SIGSTOP of a replica for a while, then SIGCONT: a long garbage collection; do: pause of the store is CLIENT PAUSE"},
		{"renew_failures", failing(lockcore.OpRenew), "renewals go wrong, by count, share or time: error, timeout, delay or lost_reply, in the replica or on the way to the store"},
		{"acquire_failures", failing(lockcore.OpAcquire), "acquires go wrong, as renew_failures"},
		{"release_failures", failing(lockcore.OpRelease), "releases go wrong, as renew_failures"},
		{"latency", newLatency, "requests, replies or both are delayed, give or take a jitter, by a proxy between replica and store"},
		{"jitter", newJitter, "requests or replies are delayed by anything from nothing to twice as much as given"},
		{"bandwidth", newBandwidth, "no more than so many kB a second get through"},
		{"black_hole", cutting(Hole), "nothing gets through, and connections stay open: calls hang"},
		{"reset", cutting(Reset), "connections are reset"},
		{"slow_close", newSlowClose, "connections that one side has closed stay open for the other"},
		{"down", cutting(Down), "nobody listens where the replica reaches the store: connections are refused"},
		{"store", newStore, "the locks' store itself: pause, freeze, restart, stop, flush or failover; never the ledger"},
		{"delete_key", newDeleteKey, "the key of a held lock vanishes, or carries a token that nobody knows (to: stranger)"},
		{"terminate", newTerminate, "the session that holds an advisory lock of a PostgreSQL is ended; the lock goes with it"},
		{"clock", newClock, "the wall clock of a replica's lock core is off"},
		{"starve", newStarve, "a replica stands still for a share of each period: the processor is taken from it by SIGSTOP and SIGCONT"},
		{"network_policy", newNetworkPolicy, "the pod of a holder is cut off by a NetworkPolicy of the run's own, which the cluster's network has to enforce"},
		{"api_server", newAPIServer, "the API server of a cluster is slow, refuses writes or is away, for all electors of a Lease or for one, by a lockdrill proxy that they are pointed at"},
		{"node", newNode, "the node on which the holder of a lock runs is cordoned, or drained of the drill's pods within their disruption budgets, and uncordoned"},
		{"hook", newHook, "what commands of yours do: one does it, one sees whether it took effect, one undoes it"},
	}
}

// Kinds are the words of all kinds, in the order of the table.
func Kinds() []string {
	var words []string
	for _, k := range kinds() {
		words = append(words, k.word)
	}
	return words
}

// Meaning is what faults of a kind are, in a sentence; "" = there is no such kind.
func Meaning(word string) string {
	for _, k := range kinds() {
		if k.word == word {
			return k.says
		}
	}
	return ""
}

// New is a fault of that kind with its defaults, or nil.
func New(word string) Spec {
	if s := Seen(word, "", ""); !s.Traits().Unknown {
		return s
	}
	return nil
}

// Seen is a fault as far as its events tell of it: kind, form, and where operations were made to fail. One of no known kind is Unknown.
func Seen(word, form, via string) Spec {
	all := kinds()
	if i := slices.IndexFunc(all, func(k kind) bool { return k.word == word }); i >= 0 {
		return all[i].made(form, via)
	}
	return unknown{word, form}
}

// unknown is a fault of which a history tells, and this version does not know what it does.
type unknown struct{ word, form string }

func (u unknown) Kind() string         { return u.word }
func (u unknown) Form() string         { return u.form }
func (u unknown) Magnitude() string    { return "" }
func (u unknown) Target() Aim          { return Aim{} }
func (u unknown) Traits() Traits       { return Traits{Unknown: true, Noun: "fault"} }
func (u unknown) Barred(Around) string { return "" }
func (u unknown) Check(Checker)        {}
func (u unknown) Describe(bool) Description {
	return Description{Does: "this lockdrill does not know faults of kind " + u.word}
}
func (u unknown) Action(s Shot) string     { return "a fault of the unknown kind " + u.word + s.on() }
func (u unknown) Measured(Measured) string { return "" }
