package deploy_test

import "maps"

func watchSeries() series {
	s := drills()
	maps.Copy(s, series{
		`lockdrill_watch_leases_ended_total{lock="sched:leader",how="ran_out"}`:              "0x100",
		`lockdrill_watch_leases_ended_total{lock="sched:leader",how="released_or_vanished"}`: "0+6x100",
		`lockdrill_watch_holders{lock="sched:leader",holder=""}`:                             "0x100",
	})
	return s
}

func watchScenarios() []scenario {
	const ranOut, holders = `lockdrill_watch_leases_ended_total{lock="sched:leader",how="ran_out"}`, `lockdrill_watch_holders{lock="sched:leader",holder=""}`
	return []scenario{
		{name: "one lease runs out", over: series{ranOut: once}, fires: []string{"LockLeaseRanOut"}},
		{name: "the watch begins anew", over: series{ranOut: restarted}, silent: "LockLeaseRanOut"},
		{name: "its looks fail", over: series{holders: "0x30 stale"}, fires: []string{"LockMetricsMissing"}},
	}
}
