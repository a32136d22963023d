package draft

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// mostRun keeps a drill of leases of a day below the longest duration that a file may have; such a drill takes half of it.
const mostRun = 29 * 24 * time.Hour

// Tuned is a drill of one lock: what is written for the user to run is what is rehearsed.
type Tuned struct {
	Lock     experiments.Lock
	Replicas int
	P50, P99 time.Duration // of the work under the lock
	Offered  time.Duration // jobs: offered again so often
	Takeover time.Duration // promised
	Fenced   bool
}

// Kill is the drill that kills the holder once, at a random moment, and promises the takeover.
func (d *Tuned) Kill() string {
	p := &d.Lock.Policy
	aim, jobs, every := "phase: random", 0, d.P50/2 // two at work on average
	if !d.Lock.Loop() {
		jobs = 2 + int(math.Ceil(float64(p.TTL+d.Takeover+10*time.Second)/float64(every)))
		if most := 200; jobs > most { // too short to be held by chance
			aim, jobs = "on: acquired", 20
		}
	}
	fault := fmt.Sprintf("  - {id: kill-holder, kill: {holder_of: %s, %s}}\n", d.Lock.Name, aim)
	slos := fmt.Sprintf("  - {lock: %s, takeover: {max: %s}}\n", d.Lock.Name, yamlDuration(d.Takeover))
	return d.text("The holder is killed once, at a random moment of its lease.", jobs, every, fault, slos)
}

// Hang is the drill in which the store hangs for the holder, for two leases, while its work outlasts them: it must stop before the lease
// does. "" = the policy goes on by choice, or there is nothing to renew.
func (d Tuned) Hang() string {
	p := d.Lock.Policy
	if p.Class == lockcore.Continuity || p.RenewEvery == 0 {
		return ""
	}
	d.P50 = 4 * p.TTL
	d.P99 = d.P50
	fault := fmt.Sprintf("  - {id: store-hangs, at: %s, for: %s, black_hole: {holder_of: %s}}\n", yamlDuration(p.TTL/2), yamlDuration(2*p.TTL), d.Lock.Name)
	slos := fmt.Sprintf("  - {lock: %s, unowned_work: {max: 0s}}\n", d.Lock.Name)
	return d.text("The way to the store hangs for the holder.", 10, p.TTL, fault, slos) // the steady state waits for a job to finish
}

// text is the experiment's file.
func (d *Tuned) text(what string, jobs int, every time.Duration, fault, slos string) string {
	lock := d.Lock
	if lock.Loop() {
		loop := *lock.Policy.Loop
		loop.Tick = d.P99
		lock.Policy.Loop = &loop
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: lockdrill/v1\nkind: Experiment\nname: tuned-%s\ndescription: %q\n", lock.Name, what)
	fmt.Fprintf(&b, "system:\n  mode: embedded\n  replicas: %d\n%s", d.Replicas, indent(LockYAML(&lock), "  "))
	longest := 20 * (lock.Policy.TTL + d.Takeover + d.P99)
	if !lock.Loop() {
		fmt.Fprintf(&b, "  work:\n    - {lock: %s, jobs: %d, rate: %.6g/h, hold: {p50: %s, p99: %s}, redeliver: %s, fenced: %t}\n", lock.Name, jobs,
			float64(time.Hour)/float64(every), yamlDuration(d.P50), yamlDuration(d.P99), yamlDuration(d.Offered), d.Fenced)
		longest += time.Duration(jobs) * every
	}
	longest = min(longest, mostRun)
	fmt.Fprintf(&b, "steady_state: {for: 1s, timeout: %s}\nfaults:\n%slimits: {max_run: %s}\nslos:\n%s", yamlDuration(longest), fault, yamlDuration(longest+time.Minute), slos)
	return b.String()
}

// LockYAML is the lock as an entry of system.locks. It is our own: it can be written.
func LockYAML(l *experiments.Lock) string {
	text, err := experiments.MarshalLock(l)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// yamlDuration is d as a file has it, to the microsecond.
func yamlDuration(d time.Duration) string { return d.Round(time.Microsecond).String() }
