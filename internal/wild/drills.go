package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// drill is one column of the table: what is done to the lock, and which limits a correct lock keeps under that.
type drill struct {
	name, title string
	about       string            // a paragraph of the page
	mode        string            // of the loop: renewed keeps the key between ticks, explicit gives it back after each
	faults      string            // YAML; of the drills of a Redis
	on          map[string]string // YAML in another store, where it is another
	not         map[string]string // by store: why not
	store       string            // YAML: what the store section says besides its kind
	more        string            // YAML, of the top level
	releases    bool              // it is for those who give the lock back
	often       bool              // in every store the lock has to be taken and given back again and again
	resumes     bool              // the victim can notice only when the fault is over
	limits      []string
}

// Limits of correct locks, on a machine that may be late by some tenths of a second. Whoever keeps its lease knows before it ends.
var (
	always   = []string{"orphan_acquires: {max: 0}", "duplicate_epochs: {max: 0}"}
	fences   = []string{"fence_regressions: {max: 0}"}
	debt     = []string{"lock_debt: {max: 1s}"}
	apart    = []string{"overlap: {level: belief, max: 300ms}", "overlap: {level: work, max: 300ms}", "overlap: {level: effect, max: 0}", "unowned_work: {max: 300ms}"}
	takeover = []string{"takeover: {max: 6s}"}

	// What only looks at the key can tell.
	byLooks = []string{"orphan_acquires", "duplicate_epochs", "lock_debt", "loss_to_fence"}

	// What loses its key before its time learns of it at its next renewal, 0.7 s later, three times.
	taken = []string{"overlap: {level: belief, max: 3s}", "overlap: {level: work, max: 1s}", "unowned_work: {max: 1s}"}
)

func rows(sets ...[]string) []string { return slices.Concat(sets...) }

// The lease of every drill is 2 s: long beside what a busy machine takes for a step, short beside the patience of whoever waits for the table.
var drills = []drill{
	{name: "holder-killed", about: "SIGKILL of the holder, three times.",
		on:    map[string]string{"zookeeper": twice(killed) + "\n- {id: f3, at: 25s, " + killed + "}"},
		title: "holder killed", mode: "renewed", limits: rows(takeover, apart, always, fences),
		faults: "- {id: f, at: 1s, repeat: {count: 3, every: settled}, kill: {holder_of: lock}}"},
	{name: "holder-paused", about: "SIGSTOP of the holder for 3.5 s, longer than its lease, twice. Belief has no limit here. \"Loser knows after\" counts from SIGCONT.",
		on: map[string]string{"lease": "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: 9s}, pause: {holder_of: lock}}", // its next elector waits for 2 s from when it starts
			"zookeeper": twice("for: 3500ms, pause: {replica: r1}")},
		title: "holder paused for 3.5 s", mode: "renewed", resumes: true, limits: rows(takeover, apart[1:], always, fences, debt),
		faults: "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: settled}, pause: {holder_of: lock}}"},
	{name: "waiter-paused", about: "SIGSTOP of the waiting replica for 4 s. The holder is killed meanwhile, and replaced.",
		on:    map[string]string{"zookeeper": "- {id: f, at: 1s, for: 4s, pause: {replica: r2}}\n- {id: dies, at: 1500ms, " + killed + "}"},
		title: "waiter paused for 4 s, holder killed meanwhile", mode: "renewed", resumes: true, limits: rows(takeover, apart[1:], always, fences),
		faults: "- {id: f, at: 1s, for: 4s, pause: {replica: r2}}\n- {id: dies, at: 1500ms, kill: {holder_of: lock, phase: after_renew}}",
		more:   "allow_overlap: [[f, dies]]\n"},
	{name: "network-cut", about: "No packet between holder and store gets through for 3.5 s; then all connections are closed. Twice. On the way to an API server or a ZooKeeper requests wait until then, and connections stay open.",
		on:    map[string]string{"lease": "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: settled}, " + onTheWay("cut") + "}", "zookeeper": twice("for: 3500ms, " + inZooKeeper(onTheWay("cut")))},
		title: "holder cut off for 3.5 s", mode: "renewed", limits: rows(takeover, apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: settled}, black_hole: {holder_of: lock}}"},
	{name: "acquire-reply-lost", about: "The answer to one acquire never comes; the connection (in etcd that call) ends after 5 s. Three times. Here and in the next two drills both replicas take the lock and give it back every 0.4 s.",
		on:    map[string]string{"lease": lost("acquire"), "zookeeper": lost("acquire")},
		title: "reply to an acquire lost", often: true, mode: "explicit", limits: rows(apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 5s, repeat: {count: 3, every: settled}, acquire_failures: {all: true, lock: lock, mode: lost_reply, count: 1, via: proxy}}"},
	{name: "release-reply-lost", about: "The same with a release. client-go without `ReleaseOnCancel` releases nothing.",
		on:    map[string]string{"lease": lost("release"), "zookeeper": lost("release")},
		title: "reply to a release lost", releases: true, often: true, mode: "explicit", limits: rows(apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 5s, repeat: {count: 3, every: settled}, release_failures: {all: true, lock: lock, mode: lost_reply, count: 1, via: proxy}}"},
	{name: "replies-late", about: "Every answer to both replicas comes 2.5 s late for 10 s: later than the lease. On the way to an API server or a ZooKeeper the requests are late instead, and the lock is kept between ticks.",
		on:    map[string]string{"lease": "- {id: f, at: 1s, for: 10s, " + onTheWay("late") + "}", "zookeeper": "- {id: f, at: 1s, for: 10s, " + inZooKeeper(onTheWay("late")) + "}"},
		title: "all replies 2.5 s late, for 10 s", mode: "explicit", limits: rows(apart, always[1:], fences, []string{"lock_debt: {max: 60s}"}),
		faults: "- {id: f, at: 1s, for: 10s, latency: {all: true, add: 2500ms, stream: downstream}}"},
	{name: "key-deleted", about: "A held key is deleted, three times. In PostgreSQL the holder's session is ended, in ZooKeeper the node with the lowest number is deleted once. No holder of a lease can know before its next renewal.",
		title: "key deleted", mode: "renewed",
		on: map[string]string{"postgres": "- {id: f, at: 1s, repeat: {count: 3, every: settled}, terminate: {holder_of: lock}}",
			"lease":     "- {id: f, at: 1s, repeat: {count: 3, every: 8s}, delete_key: {holder_of: lock}}", // an elector that has lost it leads on for a while
			"zookeeper": "- {id: f, at: 1s, " + inZooKeeper(atCluster("delete")) + "}"}, limits:            rows(takeover, taken, always, fences, debt, []string{"loss_to_fence: {max: 1200ms}"}),
		faults: "- {id: f, at: 1s, repeat: {count: 3, every: settled}, delete_key: {holder_of: lock}}"},
	{name: "renewals-refused", about: "Each renewal of the holder is answered with an error for 2.5 s, twice. In etcd these are the keepalives; an API server refuses all writes of the holder (503).",
		not:   map[string]string{"zookeeper": "the answer to a ping has no error", "postgres": "a session has no lease"},
		on:    map[string]string{"lease": "- {id: f, at: 1s, for: 2500ms, repeat: {count: 2, every: 7s}, " + onTheWay("refuse") + "}"},
		title: "renewals answered with an error for 2.5 s", mode: "renewed", limits: rows(takeover, apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 2500ms, repeat: {count: 2, every: 7s}, renew_failures: {holder_of: lock, mode: error, via: proxy}}"},
	{name: "store-restarted", about: "kill -9 of the server, and a start with its data, twice; of Lease objects the etcd behind the API server.",
		title: "store restarted with its data", mode: "renewed", limits: rows(apart, always),
		not:    map[string]string{"postgres": "no session outlives its server"},
		on:     map[string]string{"lease": "- {id: f, at: 1s, repeat: {count: 2, every: settled}, " + atCluster("restart") + "}", "zookeeper": twice(inZooKeeper(atCluster("restart")))},
		faults: "- {id: f, at: 1s, repeat: {count: 2, every: 4s}, store: {do: restart, keep: true}}"},
	{name: "store-emptied", about: "kill -9 of the server, and a start without data, twice (of a ZooKeeper once); in PostgreSQL a restart, which ends all sessions.",
		not:   map[string]string{"lease": "the cluster then has no namespace that allows the drill"},
		on:    map[string]string{"zookeeper": "- {id: f, at: 1s, " + inZooKeeper(atCluster("empty")) + "}"},
		title: "store restarted without its data", mode: "renewed", limits: rows(taken, always, debt),
		faults: "- {id: f, at: 1s, repeat: {count: 2, every: 4s}, store: {do: restart}}"},
	{name: "failover", about: "The holder is killed, and another is granted the key. Then kill -9 of the primary: its replica lacks the last 4 s of writes and becomes the primary. That Redis answers before its replicas have the write is a [documented property](https://redis.io/docs/latest/operate/oss_and_stack/management/replication/).",
		title: "failover to a replica that lags by 4 s", mode: "renewed", limits: rows(taken, always[1:]),
		not:    map[string]string{"etcd": "a server that has missed a write becomes no leader", "lease": "the API server keeps Leases in etcd", "zookeeper": "there is one server", "postgres": "no session outlives its server"},
		faults: "- {id: f, at: 1s, store: {do: failover, lag: 4s}}\n- {id: dies, at: 1500ms, kill: {holder_of: lock, phase: after_renew}}",
		more:   "allow_overlap: [[f, dies]]\n"},
	{name: "leader-paused", about: "SIGSTOP of the leader of three servers for 3.5 s, twice. The next leader gives every lease its whole TTL again.",
		title: "etcd's leader paused for 3.5 s", mode: "renewed", limits: rows(apart, always, debt), store: ", members: 3",
		not:    map[string]string{"lease": "there is one etcd behind the API server", "redis": "there is one server", "zookeeper": "there is one server", "postgres": "there is one server"},
		faults: "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: 8s}, store: {do: freeze_leader}}"},
}

// inZooKeeper is a hook at a replica: lockdrill does not know there who holds a key.
func inZooKeeper(hook string) string {
	return strings.Replace(hook, "holder_of: lock", "replica: r1", 1)
}

// lost is the loss of one answer on r1's way, three times: who holds the lock as briefly as in these drills cannot be aimed at by a hook.
func lost(what string) string {
	return "- {id: f, at: 1s, for: 5s, repeat: {count: 3, every: settled}, " + inZooKeeper(onTheWay("lose-"+what)) + "}"
}

// twice strikes r1, which asks first and so holds the lock, and 12 s later its successor.
func twice(what string) string {
	return fmt.Sprintf("- {id: f, at: 1s, %s}\n- {id: f2, at: 13s, %s}", what, strings.Replace(what, "r1", "r2", 1))
}

// killed is a kill for which nobody needs to be known to hold anything.
const killed = `hook: {replica: r1, do: [sh, -c, "kill -9 $LOCKDRILL_VICTIM_PID"], confirm: [sh, -c, "while kill -0 $LOCKDRILL_VICTIM_PID; do sleep 0.01; done"]}`

// atCluster is a hook that asks the cluster of cluster/ for a fault, and onTheWay one that has an end.
func atCluster(what string) string {
	return fmt.Sprintf("hook: {holder_of: lock, within: 40s, do: [cluster/ask, %[1]s], confirm: [cluster/ask, %[1]s]}", what)
}

func onTheWay(what string) string {
	return strings.TrimSuffix(atCluster(what), "}") + fmt.Sprintf(", undo: [cluster/ask, %s]}", what)
}

// cells are all drills that make sense.
func cells() (all []cell) {
	for _, l := range libraries {
		for _, d := range drills {
			if d.leftOut(l) == "" {
				all = append(all, cell{l, d})
			}
		}
	}
	for _, l := range queues {
		for _, d := range ofQueues {
			all = append(all, cell{l, d})
		}
	}
	return all
}

// leftOut is why the drill makes no sense for a library, "" where it does.
func (d drill) leftOut(l library) string {
	switch {
	case d.not[l.kind()] != "":
		return d.not[l.kind()]
	case d.releases && l.name == "client-go":
		return "it releases nothing"
	}
	return ""
}

type cell struct {
	l library
	d drill
}

func (c cell) name() string { return c.l.name + "/" + c.d.name }

// experiment is the file of one cell.
func experiment(l library, d drill) string {
	worker := ""
	if len(l.worker) > 0 {
		words := slices.Clone(l.worker)
		for i, w := range words {
			if strings.Contains(w, "/") {
				words[i], _ = filepath.Abs(w) // the file stands elsewhere
			}
		}
		worker = fmt.Sprintf("  worker: [%s]\n", strings.Join(words, ", "))
	}
	if l.queue != nil {
		return ofQueue(l, d, worker)
	}
	slos := ""
	for _, r := range d.limits {
		measure, _, _ := strings.Cut(r, ":")
		if !l.control && strings.HasPrefix(measure, "fence") || l.kind() == "zookeeper" && slices.Contains(byLooks, measure) {
			continue // no other has fences
		}
		slos += "  - {lock: lock, " + r + "}\n"
	}
	return fmt.Sprintf(`apiVersion: lockdrill/v1
kind: Experiment
name: %s-%s
%s
system:
  mode: embedded
  replicas: 2
  restart: 500ms
%s  locks:
    - name: lock
      key: "%s"
      policy:
        ttl: 2s
        renew_every: 660ms
        op_timeout: 250ms
        stop_budget: 100ms
        release: {mode: bounded_retry, attempts: 3, timeout: 250ms}
        acquire: {mode: try, timeout: 250ms}
        loop: {poll: 400ms, mode: %s, tick: 50ms}
steady_state: {for: 1s, timeout: 30s}
faults:
%s
%sprobes:
  lock_keys: {every: %s, max_gap: %s}
  ledger: {every: 5ms, max_gap: 1s}
limits: {max_run: 3m}
slos:
%s`, l.name, d.name, l.section(d), worker, l.key(), l.mode(d), indent(l.faults(d)), d.more, l.every(), l.blind(), slos)
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
