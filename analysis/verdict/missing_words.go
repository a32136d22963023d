package verdict

// sentences are why it matters and what to do about it, with the places of the parameters.
func (c MissingCode) sentences() (why, next string) {
	switch c {
	case MissingEnd:
		return "the history has no end: the run was killed, or its record was cut off",
			"run it again"
	case MissingCompletion:
		return "the run did not come to its end (%[1]s)",
			"%[2]s"
	case MissingSteadyState:
		return "the steady state was not reached before the first fault%[1]s",
			"%[2]s"
	case MissingTrials:
		return "fault %[1]s: %[2]d of %[3]d shots were confirmed and gave a trial%[4]s",
			"%[5]s"
	case MissingConfirmations:
		return "fault %[1]s: %[2]d of %[3]d shots were confirmed%[4]s",
			"%[5]s"
	case MissingKind:
		return "fault %[1]s is of kind %[2]s, which this lockdrill does not know",
			"judge the run with the lockdrill that ran it, or a later one"
	case MissingFaultEnd:
		return "fault %[1]s was not seen to end before the final reads",
			"check the clean-up of the run"
	case MissingLedger:
		return "%[1]s: a ledger that lost entries proves nothing",
			"keep the ledger in a store of its own, and run again"
	case MissingLiveSystem:
		return "this is a rehearsal in virtual time",
			"run it live"
	case MissingLooks:
		return "probe %[1]s was blind for %[2]s at %[3]s, max_gap is %[4]s",
			"keep the machine less busy, probe less often, or allow a larger max_gap"
	case MissingStoreLooks:
		return "probe %[1]s was blind for %[2]s at %[3]s, max_gap is %[4]s: fault %[5]s had the locks' store",
			"under a fault of the store ask what the ledger shows (takeover, duplicates, overlap at level effect), or keep it within max_gap"
	case MissingLedgerRead:
		return "the ledger was not read to its end after the last fault",
			"let the run go on to its final reads"
	case MissingLockRead:
		return "the locks were not looked at a last time after the last fault",
			"let the run go on to its final reads"
	case MissingHorizon:
		return "the final reads came %[1]s before the horizon: a late breach would not have been seen",
			"%[2]s"
	case MissingLines:
		return "%[1]s wrote %[2]s that could not be read as events: what it claimed is not whole",
			"repair the worker; the first such line is in its replica.exit event"
	case MissingStreamLines:
		return "%[1]s wrote %[2]s to its log that never came through the stream: what it claimed is not whole",
			"see what stands between the pods and the ledger's store"
	case MissingMetrics:
		return "replica %[1]s serves no metrics",
			"announce them in replica.ready (docs/worker-protocol.md)"
	case MissingSeries:
		return "%[1]s has no series %[2]s, and that does not make it 0",
			"check the name and the labels, or declare absent_means: zero"
	case MissingScrapes:
		return "metric %[1]s was not scraped for %[2]s at %[3]s",
			"keep the machine less busy"
	case MissingLastScrape:
		return "%[1]s did not answer in the end (%[2]s)",
			"check the target"
	case MissingAgreement:
		return "%[1]s",
			"one of the two is wrong: see the findings"
	case MissingEvents:
		return "lock %[1]s has no events at all",
			"check that somebody uses the lock: its loop's key, or jobs under `work`"
	case MissingHits:
		return "no confirmed fault hit a holder of lock %[1]s",
			"%[2]s"
	case MissingTakeovers:
		return "no trial of lock %[1]s is a %[2]s that others took over",
			"%[3]s"
	case MissingContenders:
		return "nobody else asked for lock %[1]s while its holder was hit",
			"let at least two replicas want the lock"
	case MissingHolders:
		return "nobody claims to have held lock %[1]s",
			"check that the worker reports its calls and its work"
	case MissingEffects:
		return "the ledger has no effect of lock %[1]s",
			"check that the worker writes to the ledger"
	case MissingOrder:
		return "key %[1]s: the store lost data or a fence went back, so fences no longer tell who is stale",
			"see fence_regressions"
	case MissingRequests:
		return "nobody is known to have asked for lock %[1]s",
			"check that the worker reports its acquires"
	case MissingOffers:
		return "no job was ever offered under lock %[1]s",
			"declare `work` for it"
	case MissingFences:
		return "fewer than two grants of lock %[1]s carry a fence",
			"check that the lock mints fences and that the worker reports them"
	case MissingFinishedJobs:
		return "no job of lock %[1]s ever finished",
			"check that the replicas do the work, and that it fits into the run"
	case MissingMinJobs:
		return "%[1]s of at least %[2]s finished (min_jobs)",
			"offer more jobs, or run longer"
	case MissingWork:
		return "nobody worked under lock %[1]s",
			"check that the replicas do the work"
	case MissingJeopardy:
		return "nothing surely had to be given up: no work of lock %[1]s was surely in jeopardy",
			"add a fault that outlasts the lease: renew_failures for longer than the ttl"
	case MissingWorkEnds:
		return "no stretch of work of lock %[1]s has a known end and validity",
			"check that the worker reports work.exit"
	case MissingDoneHolders:
		return "no holder of lock %[1]s was ever done with its key",
			"check that the replicas do the work and report work.exit"
	case MissingAnswers:
		return "no %[1]s of lock %[2]s was answered",
			"check that the policy asks for it, and that the worker reports it"
	case MissingValues:
		return "no %[1]s of %[2]s was seen to its end",
			"offer more jobs of it, or run longer"
	case MissingCleanTrials:
		return "%[1]s without a miss: too few, %[2]s at 95%% confidence takes %[3]d",
			"%[4]s"
	case MissingMoreTrials:
		return "%[1]s: %[2]s at 95%% confidence takes %[3]d then, %[4]d with no miss",
			"%[5]s"
	case MissingMoreValues:
		return "%[1]s of %[2]s may have missed it: %[3]s at 95%% confidence takes %[4]d of them then",
			"offer more jobs, or promise a max"
	case MissingMarginToLuck:
		return "it passed by luck: worst %[1]s, but %[2]s",
			"%[3]s"
	}
	panic("verdict: no sentences for " + string(c))
}
