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
	about       string // a paragraph of the page
	mode        string // of the loop: renewed keeps the key between ticks, explicit gives it back after each
	faults      string // YAML
	more        string // YAML, of the top level
	resumes     bool   // the victim can notice only when the fault is over
	limits      []string
}

// Limits of correct locks, on a machine that may be late by some tenths of a second. Whoever keeps its lease knows before it ends.
var (
	always   = []string{"orphan_acquires: {max: 0}", "duplicate_epochs: {max: 0}"}
	fences   = []string{"fence_regressions: {max: 0}"}
	debt     = []string{"lock_debt: {max: 1s}"}
	apart    = []string{"overlap: {level: belief, max: 300ms}", "overlap: {level: work, max: 300ms}", "overlap: {level: effect, max: 0}", "unowned_work: {max: 300ms}"}
	takeover = []string{"takeover: {max: 6s}"}

	// What loses its key before its time learns of it at its next renewal, 0.7 s later, three times.
	taken = []string{"overlap: {level: belief, max: 3s}", "overlap: {level: work, max: 1s}", "unowned_work: {max: 1s}"}
)

func rows(sets ...[]string) []string { return slices.Concat(sets...) }

// The lease of every drill is 2 s: long beside what a busy machine takes for a step, short beside the patience of whoever waits for the table.
var drills = []drill{
	{name: "holder-killed", about: "SIGKILL of the holder, three times at random moments of its lease. The next one gets the key when the lease is over: up to 2 s after the last renewal, and then as soon as it asks.",
		title: "holder killed", mode: "renewed", limits: rows(takeover, apart, always, fences),
		faults: "- {id: f, at: 1s, repeat: {count: 3, every: settled}, kill: {holder_of: lock}}"},
	{name: "holder-paused", about: "SIGSTOP of the holder for longer than its lease, then SIGCONT, twice. No lock can keep a paused process from believing that it holds the key, so belief has no limit here. \"Loser knows after\" counts from SIGCONT.",
		title: "holder paused for 3.5 s", mode: "renewed", resumes: true, limits: rows(takeover, apart[1:], always, fences, debt),
		faults: "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: settled}, pause: {holder_of: lock}}"},
	{name: "waiter-paused", about: "SIGSTOP of the replica that waits. The holder is killed meanwhile, and is replaced. A waiter that goes on must not take what it waited for as its own.",
		title: "waiter paused for 4 s, holder killed meanwhile", mode: "renewed", resumes: true, limits: rows(takeover, apart[1:], always, fences),
		faults: "- {id: f, at: 1s, for: 4s, pause: {replica: r2}}\n- {id: dies, at: 1500ms, kill: {holder_of: lock, phase: after_renew}}",
		more:   "allow_overlap: [[f, dies]]\n"},
	{name: "network-cut", about: "No packet between the holder and Redis gets through for 3.5 s; connections stay open. Then all of them are closed. Twice.",
		title: "holder cut off for 3.5 s", mode: "renewed", limits: rows(takeover, apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 3500ms, repeat: {count: 2, every: settled}, black_hole: {holder_of: lock}}"},
	{name: "acquire-reply-lost", about: "The server carries out one acquire, and its answer never comes; the connection hangs, and is closed after 5 s. Three times. In this drill and the next two the lock is taken and given back every 0.4 s by both replicas.",
		title: "reply to an acquire lost", mode: "explicit", limits: rows(apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 5s, repeat: {count: 3, every: settled}, acquire_failures: {all: true, lock: lock, mode: lost_reply, count: 1, via: proxy}}"},
	{name: "release-reply-lost", about: "The server carries out one release, and its answer never comes; the connection hangs, and is closed after 5 s. Three times.",
		title: "reply to a release lost", mode: "explicit", limits: rows(apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 5s, repeat: {count: 3, every: settled}, release_failures: {all: true, lock: lock, mode: lost_reply, count: 1, via: proxy}}"},
	{name: "replies-late", about: "Every answer of the server to both replicas comes 2.5 s late: later than the lease of 2 s. A client with timeouts below 2.5 s hears nothing at all meanwhile.",
		title: "all replies 2.5 s late, for 10 s", mode: "explicit", limits: rows(apart, always[1:], fences, []string{"lock_debt: {max: 60s}"}),
		faults: "- {id: f, at: 1s, for: 10s, latency: {all: true, add: 2500ms, stream: downstream}}"},
	{name: "key-deleted", about: "DEL of a held key, three times. Until its next renewal no holder of a lease on one Redis can know. A fence keeps out what it writes after its successor's first write; what it writes before that is unowned, and accepted.",
		title: "key deleted", mode: "renewed", limits: rows(takeover, taken, always, fences, debt, []string{"loss_to_fence: {max: 1200ms}"}),
		faults: "- {id: f, at: 1s, repeat: {count: 3, every: settled}, delete_key: {holder_of: lock}}"},
	{name: "renewals-refused", about: "Each renewal of the holder is answered with an error; everything else is answered as always. Twice.",
		title: "renewals answered with an error for 2.5 s", mode: "renewed", limits: rows(takeover, apart, always, fences, debt),
		faults: "- {id: f, at: 1s, for: 2500ms, repeat: {count: 2, every: 7s}, renew_failures: {holder_of: lock, mode: error, via: proxy}}"},
	{name: "store-restarted", about: "kill -9 of redis-server, and a start with its append-only file, twice.",
		title: "store restarted with its data", mode: "renewed", limits: rows(apart, always),
		faults: "- {id: f, at: 1s, repeat: {count: 2, every: 4s}, store: {do: restart, keep: true}}"},
	{name: "store-emptied", about: "kill -9 of redis-server, and a start without data, twice. Whoever asks first then has the key.",
		title: "store restarted without its data", mode: "renewed", limits: rows(taken, always, debt),
		faults: "- {id: f, at: 1s, repeat: {count: 2, every: 4s}, store: {do: restart}}"},
}

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
	slos := ""
	for _, r := range d.limits {
		if !l.control && strings.HasPrefix(r, "fence") {
			continue // no other has fences
		}
		slos += "  - {lock: lock, " + r + "}\n"
	}
	return fmt.Sprintf(`apiVersion: lockdrill/v1
kind: Experiment
name: %s-%s
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 2
  restart: 500ms
%s  locks:
    - name: lock
      key: "mutex:wild"
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
  lock_keys: {every: 5ms, max_gap: 1s}
  ledger: {every: 5ms, max_gap: 1s}
limits: {max_run: 3m}
slos:
%s`, l.name, d.name, worker, d.mode, indent(d.faults), d.more, slos)
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
