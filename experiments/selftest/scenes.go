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

// scenes are all of them, each once.
func scenes() []Scene {
	return []Scene{paused, replicaPaused, keyGone, blackHole, noRenewals, slowReplies, keyDeleted, grantsLost, releaseLost, releasesFail, giveUp, flushed, clockKill, killed, killedAtWork, slowStore, slowReply}
}

// file is the experiment in which a lock of that class meets the scene, and is asked everything.
func (s Scene) file(class string) []byte {
	var b strings.Builder
	hold, again := cmp.Or(s.Hold, longHold), cmp.Or(s.Again, "5s")
	if s.Hold != "" {
		again = cmp.Or(s.Again, "25s") // a job that is finished is not sought again
	}
	fmt.Fprintf(&b, frame, class, hold, again)
	b.WriteString("faults:\n")
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	if len(s.Faults) == 2 {
		fmt.Fprintf(&b, "allow_overlap: [[%s, %s]]\n", idOf(s.Faults[0]), idOf(s.Faults[1]))
	}
	b.WriteString(panel)
	return []byte(b.String())
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
    - {name: job, profile: lockdrill/%s}
  work:
    - {lock: job, jobs: 20, rate: 0.2/s, hold: {p50: %s}, redeliver: %s}
time_scale: 0.05
steady_state: {for: 200ms, timeout: 10s}
`

// panel is what every lock is asked. Each limit is one that the shipped classes keep where a fault does not break it in any lock.
const panel = `slos:
  - {lock: job, takeover: {max: 90s}}
  - {lock: job, duplicate_terminal_states: {max: 0}}
  - {lock: job, abandonment: {missed: 0, late: 0}}
  - {lock: job, overlap: {level: belief, max: 0s}}
  - {lock: job, overlap: {level: work, max: 1s}}
  - {lock: job, overlap: {level: effect, max: 0}}
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
