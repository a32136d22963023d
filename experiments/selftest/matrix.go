package selftest

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/zoo"
)

// Case is one row of the matrix: who meets what, and what must be said of it.
type Case struct {
	Animal string // of the zoo; "" = a control: the class itself
	Class  string // the shipped profile lockdrill/CLASS that the animal is made of
	Scene  Scene
	Flag   string // what must turn red: a row of the verdict by its name; "" = nothing may
}

// Name is what --only knows the case by.
func (c *Case) Name() string {
	if c.Animal == "" {
		return c.Class
	}
	return c.Animal
}

// classes are the shipped ones: the controls.
var classes = []string{"critical", "standard", "continuity"}

// Matrix is the whole table: each animal with the fault that reveals it, and each control with every fault.
func Matrix() []Case {
	cases := animals()
	for _, class := range classes {
		for _, s := range scenes() {
			cases = append(cases, Case{Class: class, Scene: s})
		}
	}
	return cases
}

func animals() []Case {
	row := func(animal string, s Scene, flag string) Case {
		return Case{Animal: animal, Class: "critical", Scene: s, Flag: flag}
	}
	byDeadline := func(animal string, s Scene, flag string) Case {
		return Case{Animal: animal, Class: "standard", Scene: s, Flag: flag}
	}
	finding := func(code verdict.FindingCode) string { return findingPrefix + string(code) }
	return []Case{
		row("blind-release", paused, "foreign_releases"),
		row("blind-release", paused, "overlap.work"),
		row("blind-renew", paused, "foreign_renewals"),
		row("setnx-then-expire", killed, finding(verdict.FindingNoExpiry)),
		row("counts-not-owned", keyDeleted, "loss_to_fence"),
		row("endless-release", releasesFail, "blocked"),
		row("watchdog", releasesFail, finding(verdict.FindingRenewedAfterWork)),
		row("one-token", replicaPaused, "duplicate_epochs"),
		row("late-fence", paused, finding(verdict.FindingForeignFence)),
		row("unguarded-release", noRenewals, "foreign_releases"),
		row("re-creates", keyGone, finding(verdict.FindingTokenReuse)),
		row("warn-and-continue", noRenewals, "unowned_work"),
		row("warn-and-continue", noRenewals, "fence_lag"),
		row("count-fence", blackHole, "overlap.belief"),
		byDeadline("early-validity", blackHole, "overlap.belief"),
		byDeadline("reply-validity", slowReplies, "fence_lag"),
		row("release-first", giveUp, "overlap.work"),
		row("forgetful-count", noRenewals, "abandonment.missed"),
		row("no-renewal", slowStore, "overlap.work"),
		row("no-renewal", slowStore, "not_owned.release"),
		row("wall-clock-expiry", clockKill, "takeover.max"),
		row("late-timers", paused, "fence_lag"),
		row("orphans", grantsLost, "orphan_acquires"),
		row("cancelled-clean-up", noRenewals, "lock_debt.max"),
		row("setnx-then-expire", killed, "takeover.max"),
		row("fence-counter", flushed, "fence_regressions"),
		row("unfenced-storage", paused, "duplicate_terminal_states"),
		row("unfenced-storage", paused, "overlap.effect"),

		row("fake-release", killed, finding(verdict.FindingFeignedRelease)),
		row("fake-release", killed, "lock_debt.max"),
		row("fake-keep", killed, finding(verdict.FindingFeignedRenewal)),
		row("ghost-holder", killed, finding(verdict.FindingGhost)),
		row("wrong-token", slowStore, finding(verdict.FindingUnannounced)),
		row("denied-grant", killed, "orphan_acquires"),
		row("shifted-clock", killed, finding(verdict.FindingOutsideCall)),
		row("no-begin", killed, finding(verdict.FindingNoBegin)),
		row("buffered-lines", slowReply, finding(verdict.FindingUnannounced)),
	}
}

// Experiment is the drill of the case, as loaded.
func (c *Case) Experiment() (*experiments.Experiment, error) {
	e, err := experiments.Parse("selftest", c.Scene.file(c.Class))
	if err != nil {
		return nil, err
	}
	if a, known := zoo.Find(c.Animal); known && a.Policy != nil {
		a.Policy(&e.System.Locks[0].Policy)
	}
	return e, nil
}

// Excused are the rows that may turn red all the same: those that the scene's faults redden in any lock and, of a control, those that
// its class does not promise.
func (c *Case) Excused(e *experiments.Experiment) []string {
	var rows []string
	for i := range e.Faults {
		rows = append(rows, e.Faults[i].Traits().Reddens()...)
	}
	if c.Animal == "" && c.Class == "continuity" { // its work goes on without the lock, and says so
		rows = append(rows, "abandonment", "fence_lag", "not_owned", "overlap.work", "unowned_work")
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}
