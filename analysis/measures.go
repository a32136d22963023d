package analysis

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// measure gives the rows of a promise about it.
type measure func(*judging, *experiments.SLO) []verdict.SLOResult

// measures is the table of what can be promised, by the measure's name in the file: one row and one file each.
func measures() map[string]measure {
	type slo = *experiments.SLO
	type rows = []verdict.SLOResult
	return map[string]measure{
		"takeover": func(j *judging, s slo) rows { return j.takeoverRows(s.Lock, s.Takeover) },
		"tick_gap": func(j *judging, s slo) rows { return j.tickRows(s.Lock, s.TickGap) },
		"duplicate_terminal_states": func(j *judging, s slo) rows {
			return j.count(s.Lock, s.DuplicateTerminalStates.Max, j.duplicates(s.Lock, s.DuplicateTerminalStates.MinJobs))
		},
		"abandonments": func(j *judging, s slo) rows { return j.count(s.Lock, s.Abandonments.Max, j.rawAbandonments(s.Lock)) },
		"abandonment":  func(j *judging, s slo) rows { return j.abandonmentRows(s.Lock, s.Abandonment) },
		"overlap":      func(j *judging, s slo) rows { return j.overlapRows(s.Lock, s.Overlap) },
		"fence_lag":    func(j *judging, s slo) rows { return j.durations(s.Lock, s.FenceLag, j.fenceLag(s.Lock)) },
		"unowned_work": func(j *judging, s slo) rows { return j.durations(s.Lock, s.UnownedWork, j.unownedWork(s.Lock)) },
		"busy":         func(j *judging, s slo) rows { return j.busyRows(s.Lock, s.Busy) },
		"stranded": func(j *judging, s slo) rows {
			return j.count(s.Lock, s.Stranded.Max, j.stranded(s.Lock, s.Stranded.MinJobs))
		},
		"fence_regressions": func(j *judging, s slo) rows {
			return j.count(s.Lock, s.FenceRegressions.Max, j.fenceRegressions(s.Lock))
		},
		"re_executed": func(j *judging, s slo) rows {
			return j.count(s.Lock, s.ReExecuted.Max, j.reExecutions(s.Lock, s.ReExecuted.MinJobs))
		},
		"lock_debt": func(j *judging, s slo) rows { return j.debtRows(s.Lock, s.LockDebt) },
		"not_owned": func(j *judging, s slo) rows { return j.notOwnedRows(s.Lock, s.NotOwned) },
		"orphan_acquires": func(j *judging, s slo) rows {
			return j.count(s.Lock, s.OrphanAcquires.Max, j.orphanAcquires(s.Lock, s.OrphanAcquires.MinJobs))
		},
		"held":   func(j *judging, s slo) rows { return j.distributionRows(s.Lock, measureHeld, s.Held) },
		"wait":   func(j *judging, s slo) rows { return j.distributionRows(s.Lock, measureWait, s.Wait) },
		"metric": func(j *judging, s slo) rows { return j.metricRows(s.Lock, s.Metric) },
		"logs":   func(j *judging, s slo) rows { return j.count(s.Lock, s.Logs.Max, j.logMatches(s.Lock, s.Logs.Pattern)) },
	}
}
