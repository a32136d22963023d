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
		"takeover":                  func(j *judging, s slo) rows { return j.seriesRows(s.Lock, "takeover", s.Takeover) },
		"tick_gap":                  func(j *judging, s slo) rows { return j.seriesRows(s.Lock, "tick_gap", s.TickGap) },
		"duplicate_terminal_states": func(j *judging, s slo) rows { return j.counted(s.Lock, s.DuplicateTerminalStates, j.duplicates) },
		"abandonments": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.Abandonments.Bound, j.abandonments)
		},
		"abandonment":  func(j *judging, s slo) rows { return j.abandonmentRows(s.Lock, s.Abandonment) },
		"overlap":      func(j *judging, s slo) rows { return j.overlapRows(s.Lock, s.Overlap) },
		"fence_lag":    func(j *judging, s slo) rows { return bounded(j, s.Lock, s.FenceLag, j.fenceLag) },
		"unowned_work": func(j *judging, s slo) rows { return bounded(j, s.Lock, s.UnownedWork, j.unownedWork) },
		"busy":         func(j *judging, s slo) rows { return j.busyRows(s.Lock, s.Busy) },
		"stranded":     func(j *judging, s slo) rows { return j.counted(s.Lock, s.Stranded, j.stranded) },
		"fence_regressions": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.FenceRegressions.Bound, j.fenceRegressions)
		},
		"re_executed":     func(j *judging, s slo) rows { return j.counted(s.Lock, s.ReExecuted, j.reExecutions) },
		"lock_debt":       func(j *judging, s slo) rows { return j.debtRows(s.Lock, s.LockDebt) },
		"not_owned":       func(j *judging, s slo) rows { return j.notOwnedRows(s.Lock, s.NotOwned) },
		"failed_releases": func(j *judging, s slo) rows { return j.failedReleaseRows(s.Lock, s.FailedReleases) },
		"orphan_acquires": func(j *judging, s slo) rows { return j.counted(s.Lock, s.OrphanAcquires, j.orphanAcquires) },
		"foreign_releases": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.ForeignReleases.Bound, named(j.foreign, "release"))
		},
		"foreign_renewals": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.ForeignRenewals.Bound, named(j.foreign, "renewal"))
		},
		"duplicate_epochs": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.DuplicateEpochs.Bound, j.duplicateEpochs)
		},
		"loss_to_fence": func(j *judging, s slo) rows { return bounded(j, s.Lock, s.LossToFence, j.lossesToFence) },
		"blocked":       func(j *judging, s slo) rows { return bounded(j, s.Lock, s.Blocked, j.blockedWorkers) },
		"held":          func(j *judging, s slo) rows { return j.distributionRows(s.Lock, measureHeld, s.Held) },
		"wait":          func(j *judging, s slo) rows { return j.distributionRows(s.Lock, measureWait, s.Wait) },
		"rolling":       func(j *judging, s slo) rows { return j.rollingRows(s.Lock, s.Rolling) },
		"metric":        func(j *judging, s slo) rows { return j.metricRows(s.Lock, s.Metric) },
		"alert":         func(j *judging, s slo) rows { return j.alertRows(s) },
		"logs": func(j *judging, s slo) rows {
			return bounded(j, s.Lock, &s.Logs.Bound, named(j.logMatches, s.Logs.Pattern))
		},
	}
}

// named is the figure of that name, of those that one function measures.
func named(figure func(lock, name string) measured, name string) func(lock string) measured {
	return func(lock string) measured { return figure(lock, name) }
}

// counted gives the rows of a count that asks for a number of finished jobs.
func (j *judging) counted(lock string, limit *experiments.CountLimit, figure func(lock string, minJobs int) measured) []verdict.SLOResult {
	return bounded(j, lock, &limit.Bound, func(lock string) measured { return figure(lock, limit.MinJobs) })
}
