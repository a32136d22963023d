package selftest

import (
	"cmp"
	"fmt"
	"strings"
)

// Scene is what befalls a lock: one fault, or two that belong together.
type Scene struct {
	Name   string
	Faults []string // of the file, each on a line
	Hold   string   // of a job; "" = longer than a lease
	Frame  *Frame   // what it befalls; nil = a job lock of a shipped class
	Tells  bool     // its system tells of itself by a counter, a log and an alert too: on the record of a rehearsal alone
	Again  string   // an unfinished job is offered again so often; "" = soon, and where the work is short, after it
}

// Durations of a scene are those of the shipped classes: a lease of 30s, renewed every 10s, calls of 2s.
const (
	calmHold = "12s"
	longHold = "80s"
)

// The scenes.
var (
	paused      = Scene{Name: "pause > ttl", Faults: []string{"{id: pause, at: 2s, for: 40s, pause: {holder_of: job}}"}}
	blackHole   = Scene{Name: "black hole", Faults: []string{"{id: hole, at: 2s, for: 45s, black_hole: {holder_of: job}}"}}
	noRenewals  = Scene{Name: "renewals fail > ttl", Faults: []string{"{id: burst, at: 2s, for: 45s, renew_failures: {holder_of: job}}"}}
	slowReplies = Scene{Name: "slow replies, then none", Faults: []string{
		"{id: slow, at: 1s, for: 90s, latency: {all: true, add: 1600ms, stream: downstream}}",
		"{id: burst, at: 16s, for: 45s, renew_failures: {holder_of: job, mode: timeout}}"}}
	keyDeleted    = Scene{Name: "key deleted", Faults: []string{"{id: gone, at: 2s, delete_key: {holder_of: job}}"}}
	keyGone       = Scene{Name: "key deleted, nobody asks", Again: "60s", Faults: []string{"{id: gone, at: 2s, delete_key: {holder_of: job}}"}}
	replicaPaused = Scene{Name: "a replica paused > ttl", Faults: []string{"{id: pause, at: 2s, for: 40s, pause: {replica: r2}}"}}
	grantsLost    = Scene{Name: "replies of grants lost", Hold: calmHold, Faults: []string{"{id: lost, at: 1s, acquire_failures: {all: true, mode: lost_reply, count: 3}}"}}
	releaseLost   = Scene{Name: "replies of releases lost", Hold: calmHold, Faults: []string{"{id: lost, at: 1s, for: 60s, release_failures: {all: true, mode: lost_reply}}"}}
	releasesFail  = Scene{Name: "releases fail", Hold: calmHold, Faults: []string{"{id: burst, at: 1s, for: 80s, release_failures: {all: true}}"}}
	giveUp        = Scene{Name: "renewals fail, release hangs", Faults: []string{
		"{id: burst, at: 2s, for: 45s, renew_failures: {holder_of: job}}",
		"{id: hangs, at: 3s, for: 60s, release_failures: {all: true, mode: lost_reply}}"}}
	flushed   = Scene{Name: "flush", Faults: []string{"{id: flush, at: 2s, store: {do: flush}}"}}
	clockKill = Scene{Name: "clock ahead, then kill", Hold: calmHold, Faults: []string{
		"{id: clock, at: 1s, for: 200s, clock: {all: true, offset: 3m}}",
		"{id: kill, at: 15s, kill: {holder_of: job, phase: random}}"}}
	killed       = Scene{Name: "kill after grant", Hold: calmHold, Faults: []string{"{id: kill, at: 1s, kill: {holder_of: job, on: acquired}}"}}
	slowReply    = Scene{Name: "slow replies", Hold: calmHold, Faults: []string{"{id: slow, at: 1s, for: 60s, latency: {all: true, add: 500ms, stream: downstream}}"}}
	killedAtWork = Scene{Name: "kill at work", Faults: []string{"{id: kill, at: 2s, kill: {holder_of: job}}"}}
	slowStore    = Scene{Name: "slow store", Hold: "20s, p99: 70s", Faults: []string{"{id: slow, at: 1s, for: 60s, latency: {all: true, add: 500ms, stream: both}}"}}
)

// Frame is a lock with a policy of its own, of class critical, and what is asked of it.
type Frame struct {
	lock, work string
	panel      []string
}

const (
	ownPolicy = "ttl: 30s, renew_every: 10s, class: critical, max_failures: 2, op_timeout: 2s, stop_budget: 1s, " +
		"release: {mode: bounded_retry, attempts: 2, timeout: 2s, after_abandon: if_work_stopped}, "
	jobLock  = "{name: job, key_prefix: 'job:', policy: {" + ownPolicy + "acquire: {mode: try, timeout: 2s}}}"
	loopLock = "{name: loop, key: loop, policy: {" + ownPolicy + "acquire: {mode: try, timeout: 2s}, loop: {poll: 5s, mode: renewed, tick: 1s}}}"
)

// The frames.
var (
	calmJobs = &Frame{jobLock, "{lock: job, jobs: 20, rate: 0.2/s, hold: {p50: 12s}, redeliver: 25s, strict: true}", []string{"takeover: {max: 90s}",
		"duplicate_terminal_states: {max: 0}", "abandonments: {max: 0}", "abandonment: {needless: 0}", "overlap: {level: work, max: 0s}", "overlap: {level: effect, max: 0}", "stranded: {max: 0}",
		"re_executed: {max: 0}", "lock_debt: {max: 5s}", "failed_releases: {given_up: 0}", "orphan_acquires: {max: 0}", "held: {max: 40s}", "unowned_work: {max: 0s}",
		"fence_regressions: {max: 0}", "duplicate_epochs: {max: 0}"}}
	tellers = &Frame{jobLock, calmJobs.work, append(calmJobs.panel[:len(calmJobs.panel):len(calmJobs.panel)], "metric: {name: "+givenUp+", delta: 0}",
		"logs: {pattern: "+givenUp+", max: 0}")}
	longJobs = &Frame{jobLock, "{lock: job, jobs: 60, rate: 0.2/s, hold: {p50: 80s}, redeliver: 5s, strict: true}", []string{"takeover: {max: 90s}",
		"duplicate_terminal_states: {max: 0}", "overlap: {level: work, max: 0s}", "overlap: {level: effect, max: 0}", "stranded: {max: 0}", "lock_debt: {max: 5s}",
		"orphan_acquires: {max: 0}", "unowned_work: {max: 0s}", "fence_regressions: {max: 0}", "duplicate_epochs: {max: 0}"}}
	waiters = &Frame{"{name: job, key_prefix: 'job:', policy: {" + ownPolicy + "acquire: {mode: wait, timeout: 2s, budget: 60s, backoff: {mode: fixed, every: 200ms}}}}",
		"{lock: job, jobs: 20, rate: 0.2/s, hold: {p50: 12s}, redeliver: 5s, strict: true}", []string{"takeover: {max: 90s}", "duplicate_terminal_states: {max: 0}",
			"abandonments: {max: 0}", "overlap: {level: work, max: 0s}", "busy: {count: 0}", "wait: {max: 50s}", "wait: {p50: 9s}", "overlap: {level: effect, max: 0}",
			"stranded: {max: 0}", "re_executed: {max: 2}", "lock_debt: {max: 40s}", "fence_regressions: {max: 0}"}}
	leader = &Frame{loopLock, "", []string{"takeover: {max: 45s}", "tick_gap: {max: 50s}", "overlap: {level: work, max: 0s}", "overlap: {level: effect, max: 0}",
		"fence_regressions: {max: 0}", "unowned_work: {max: 0s}", "duplicate_epochs: {max: 0}"}}
	rolled = &Frame{loopLock, "", []string{"rolling: {handovers: 1, without_leader: 15s, longest: 15s}", "overlap: {level: work, max: 0s}",
		"overlap: {level: effect, max: 0}", "fence_regressions: {max: 0}"}}
)

// The scenes in frames of their own.
var (
	oneRenewal   = Scene{Name: "one renewal fails", Frame: calmJobs, Faults: []string{"{id: burst, at: 15s, renew_failures: {holder_of: job, count: 1}}"}}
	oneTold      = Scene{Name: "one renewal fails, and is told of", Frame: tellers, Tells: true, Faults: oneRenewal.Faults}
	oneRelease   = Scene{Name: "one release fails", Frame: calmJobs, Faults: []string{"{id: burst, at: 5s, release_failures: {all: true, count: 1}}"}}
	cutShort     = Scene{Name: "renewals fail, much work", Frame: longJobs, Faults: []string{"{id: burst, at: 5s, for: 45s, renew_failures: {holder_of: job}}"}}
	othersWait   = Scene{Name: "kill, others wait", Frame: waiters, Faults: []string{"{id: kill, at: 15s, kill: {holder_of: job, on: acquired}}"}}
	leaderKilled = Scene{Name: "leader killed", Frame: leader, Faults: []string{"{id: kill, at: 12s, kill: {holder_of: loop, phase: before_renew}}"}}
	leaderRolled = Scene{Name: "rolling restart", Frame: rolled, Faults: []string{"{id: roll, at: 12s, rolling_restart: {order: leader_last, lock: loop, grace: 5s, pause: 5s}}"}}
)

// scenes are all of them, each once.
func scenes() []Scene {
	return []Scene{paused, replicaPaused, keyGone, blackHole, noRenewals, slowReplies, keyDeleted, grantsLost, releaseLost, releasesFail, giveUp, flushed, clockKill, killed, killedAtWork, slowStore, slowReply,
		oneRenewal, oneTold, oneRelease, cutShort, othersWait, leaderKilled, leaderRolled}
}

// sceneOf is the scene of a name; one that is not there makes no drill.
func sceneOf(name string) Scene {
	for _, s := range scenes() {
		if s.Name == name {
			return s
		}
	}
	return Scene{Name: name}
}

// file is the experiment in which a lock of that class meets the scene, and is asked everything.
func (s Scene) file(class string) []byte {
	var b strings.Builder
	hold, again := cmp.Or(s.Hold, longHold), cmp.Or(s.Again, "5s")
	if s.Hold != "" {
		again = cmp.Or(s.Again, "25s") // a job that is finished is not sought again
	}
	lock, work, asked := "{name: job, profile: lockdrill/"+class+"}", fmt.Sprintf("{lock: job, jobs: 20, rate: 0.2/s, hold: {p50: %s}, redeliver: %s}", hold, again), panel
	if s.Frame != nil {
		lock, work, asked = s.Frame.lock, s.Frame.work, s.Frame.slos()
	}
	fmt.Fprintf(&b, frame, lock)
	if work != "" {
		fmt.Fprintf(&b, "  work:\n    - %s\n", work)
	}
	b.WriteString(timing)
	if s.Tells {
		b.WriteString(telling)
		asked += "  - {alert: " + lockAlert + ", silent: true}\n"
	}
	b.WriteString("faults:\n")
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	if len(s.Faults) == 2 {
		fmt.Fprintf(&b, "allow_overlap: [[%s, %s]]\n", idOf(s.Faults[0]), idOf(s.Faults[1]))
	}
	b.WriteString(asked)
	return []byte(b.String())
}

// slos are what is asked of the frame's lock, as a file has them.
func (f *Frame) slos() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.lock, "{name: "), ",")
	text := "slos:\n"
	for _, row := range f.panel {
		text += "  - {lock: " + name + ", " + row + "}\n"
	}
	return text
}

func idOf(fault string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(fault, "{id: "), ",")
	return id
}

const frame = `apiVersion: lockdrill/v1
kind: Experiment
name: selftest
system:
  mode: embedded
  replicas: 3
  locks:
    - %s
`

const timing = `time_scale: 0.05
steady_state: {for: 200ms, timeout: 10s}
`

// panel is what every lock is asked. Each limit is one that the shipped classes keep where a fault does not break it in any lock.
const panel = `slos:
  - {lock: job, takeover: {max: 90s}}
  - {lock: job, duplicate_terminal_states: {max: 0}}
  - {lock: job, abandonment: {missed: 0, late: 0, needless: 0}}
  - {lock: job, overlap: {level: belief, max: 0s}}
  - {lock: job, overlap: {level: work, max: 1s}}
  - {lock: job, overlap: {level: effect, max: 0}}
  - {lock: job, vanished: {max: 0}}
  - {lock: job, stale_writes: {max: 0}}
  - {lock: job, fence_lag: {max: 0s}}
  - {lock: job, unowned_work: {max: 1s}}
  - {lock: job, stranded: {max: 0}}
  - {lock: job, fence_regressions: {max: 0}}
  - {lock: job, lock_debt: {max: 5s}}
  - {lock: job, orphan_acquires: {max: 0}}
  - {lock: job, not_owned: {renew: 0, release: 0}}
  - {lock: job, foreign_releases: {max: 0}}
  - {lock: job, foreign_renewals: {max: 0}}
  - {lock: job, duplicate_epochs: {max: 0}}
  - {lock: job, loss_to_fence: {max: 13s}}
  - {lock: job, blocked: {max: 6s}}
`
