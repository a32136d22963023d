package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// mostRun keeps a drill of leases of a day below the longest duration that a file may have; such a drill takes half of it.
const mostRun = 29 * 24 * time.Hour

// tunedDrill is a drill of one lock: what is written for the user to run is what is rehearsed.
type tunedDrill struct {
	lock     experiments.Lock
	replicas int
	p50, p99 time.Duration // of the work under the lock
	offered  time.Duration // jobs: offered again so often
	takeover time.Duration // promised
	fenced   bool
}

// kill is the drill that kills the holder once, at a random moment, and promises the takeover.
func (d *tunedDrill) kill() string {
	p := &d.lock.Policy
	aim, jobs, every := "phase: random", 0, d.p50/2 // two at work on average
	if !d.lock.Loop() {
		jobs = 2 + int(math.Ceil(float64(p.TTL+d.takeover+10*time.Second)/float64(every)))
		if most := 200; jobs > most { // too short to be held by chance
			aim, jobs = "on: acquired", 20
		}
	}
	fault := fmt.Sprintf("  - {id: kill-holder, kill: {holder_of: %s, %s}}\n", d.lock.Name, aim)
	slos := fmt.Sprintf("  - {lock: %s, takeover: {max: %s}}\n", d.lock.Name, yamlDuration(d.takeover))
	return d.text("The holder is killed once, at a random moment of its lease.", jobs, every, fault, slos)
}

// hang is the drill in which the store hangs for the holder, for two leases, while its work outlasts them: it must stop before the lease
// does. "" = the policy goes on by choice, or there is nothing to renew.
func (d tunedDrill) hang() string {
	p := d.lock.Policy
	if p.Class == lockcore.Continuity || p.RenewEvery == 0 {
		return ""
	}
	d.p50 = 4 * p.TTL
	d.p99 = d.p50
	fault := fmt.Sprintf("  - {id: store-hangs, at: %s, for: %s, black_hole: {holder_of: %s}}\n", yamlDuration(p.TTL/2), yamlDuration(2*p.TTL), d.lock.Name)
	slos := fmt.Sprintf("  - {lock: %s, unowned_work: {max: 0s}}\n", d.lock.Name)
	return d.text("The way to the store hangs for the holder.", 10, p.TTL, fault, slos) // the steady state waits for a job to finish
}

// text is the experiment's file.
func (d *tunedDrill) text(what string, jobs int, every time.Duration, fault, slos string) string {
	lock := d.lock
	if lock.Loop() {
		loop := *lock.Policy.Loop
		loop.Tick = d.p99
		lock.Policy.Loop = &loop
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: lockdrill/v1\nkind: Experiment\nname: tuned-%s\ndescription: %q\n", lock.Name, what)
	fmt.Fprintf(&b, "system:\n  mode: embedded\n  replicas: %d\n%s", d.replicas, indent(lockYAML(&lock), "  "))
	longest := 20 * (lock.Policy.TTL + d.takeover + d.p99)
	if !lock.Loop() {
		fmt.Fprintf(&b, "  work:\n    - {lock: %s, jobs: %d, rate: %.6g/h, hold: {p50: %s, p99: %s}, redeliver: %s, fenced: %t}\n", lock.Name, jobs,
			float64(time.Hour)/float64(every), yamlDuration(d.p50), yamlDuration(d.p99), yamlDuration(d.offered), d.fenced)
		longest += time.Duration(jobs) * every
	}
	longest = min(longest, mostRun)
	fmt.Fprintf(&b, "steady_state: {for: 1s, timeout: %s}\nfaults:\n%slimits: {max_run: %s}\nslos:\n%s", yamlDuration(longest), fault, yamlDuration(longest+time.Minute), slos)
	return b.String()
}

// lockYAML is the lock as an entry of system.locks. It is our own: it can be written.
func lockYAML(l *experiments.Lock) string {
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

// rehearsed is a policy's sums, and how often its drills breach their promises in rehearsals.
func (d *tunedDrill) rehearsed(ctx context.Context, io streams, name string, locks int, seeds int64) (*forecast.TunedPolicy, error) {
	t := &forecast.TunedPolicy{Name: name, Writes: lockcore.RenewalsPerSecond(d.lock.Policy, locks), Breaches: []forecast.TunedBreach{}}
	for i, drill := range []struct{ promise, text string }{
		{"takeover within " + lockcore.Seconds(d.takeover) + " after a kill", d.kill()},
		{"no work past the lease while the store hangs (seconds of all jobs of the holder)", d.hang()},
	} {
		if drill.text == "" {
			continue
		}
		e, err := experiments.Parse("tuned.yaml", []byte(drill.text))
		if err != nil {
			return nil, fmt.Errorf("drill of %s: %w", name, err)
		}
		if i == 0 {
			t.Sums = forecast.LockSumsOf(e)[0]
		}
		all, err := rehearseSeedsOf(ctx, io.Err, e, seeds)
		if ctx.Err() != nil {
			return nil, &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted in the rehearsals of %s: nothing is concluded from a part", name)}
		}
		if err != nil {
			return nil, err
		}
		row := all.Document().Rows[0]
		t.Breaches = append(t.Breaches, forecast.TunedBreach{Promise: drill.promise, Seeds: row.Seeds, Breach: row.Breach, Median: row.Median, Max: row.Max})
	}
	return t, nil
}
