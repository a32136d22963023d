package main

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// word is one entry of the vocabulary; docs/judging.md and docs/policies.md say the rest.
type word struct{ name, kind, meaning string }

// words is the vocabulary of verdicts, lints and policies: what each measure of an SLO, each budget lint and each value of a policy
// means, in a sentence or two. What a field of an experiment file says of itself or of its values is not said again.
func words() []word {
	const measure, lint, term, class, backoff = "measure", "lint", "word", "renewal class", "back-off"
	const form, store, guard, compared = "form of a kill", "store fault", "guard", "comparison"
	all := []word{
		{"takeover", measure, "from the fault that hits a holder to the first accepted effect of a later epoch of its key; it splits into left of the lease, pickup and warm-up"},
		{"tick_gap", measure, "of a loop: the longest stretch without an accepted tick, from the last one before the fault on; without a fault, of the whole watch"},
		{"overlap", measure, "mutual exclusion broken: seconds with more than one holder (level belief or work) or lease (level lease, of an observed lock), those with three counted twice, or a count of stale and unowned effects (level effect)"},
		{"duplicate_terminal_states", measure, "accepted terminal writes of a job beyond its first; what the ledger refused was prevented, and is not counted"},
		{"abandonments", measure, "how often a lock was given up; a safe policy must do so under some faults"},
		{"abandonment", measure, "how it was given up: missed and late count work that ran past its lease end, needless counts locks that could still have been renewed"},
		{"fence_lag", measure, "work stop minus validity end, on the worker's own clock; above 0 is unsafe even where nobody was there to collide with"},
		{"unowned_work", measure, "seconds of work past the lease end, in all"},
		{"busy", measure, "acquires refused while the holder was dead, or had stopped relying on the lock without giving it back"},
		{"stranded", measure, "jobs without a terminal state at the final reads"},
		{"fence_regressions", measure, "grants whose fence is not above that of an epoch surely granted before"},
		{"re_executed", measure, "executions of a job after an earlier epoch had executed it"},
		{"lock_debt", measure, "from the end of the work to the instant at which its key is free; effective while somebody waits for it"},
		{"not_owned", measure, "the share of answered renewals and releases that were told: not yours"},
		{"failed_releases", measure, "the share of release calls that failed, and that of locks left to their TTL because every try failed"},
		{"orphan_acquires", measure, "acquires that took effect and that nobody used, because their reply was lost or came too late"},
		{"foreign_releases", measure, "releases that succeeded after the key had been granted to another"},
		{"foreign_renewals", measure, "renewals that succeeded after the key had been granted to another"},
		{"duplicate_epochs", measure, "grants whose token had been granted before: nothing tells the two holds apart"},
		{"stale_writes", measure, "writes that took effect after one of a later holder of the lock"},
		{"vanished", measure, "keys that ended before their lease did, by no release and no fault; sure where the holder acted on as if it had the lock"},
		{"loss_to_fence", measure, "how long a holder relied on a key that had been taken from it before the lease was over; of an observed lock, how long it said that it held what it had lost"},
		{"leaderless", measure, "of an observed loop: the time in which nobody led, by what the replicas say (belief of the lock), else by the keys and the deaths of their holders"},
		{"blocked", measure, "how long after its work a worker was still giving its key back"},
		{"held", measure, "how long a lock was held, by job class"},
		{"wait", measure, "how long a job waited for its lock, by job class"},
		{"metric", measure, "a Prometheus series: its change, its rate or its maximum during the drill; a series that does not exist is not 0 unless absent_means says so"},
		{"logs", measure, "lines in the pods' logs that match a named pattern; where a log was not followed, there is no count"},

		{"L1", lint, "acquire + failures * interval * (1 + jitter) + op timeout + drift + stop budget <= ttl: the holder gives up before the store gives the key to another"},
		{"L2", lint, "at least two renewal attempts fit into a lease"},
		{"L3", lint, "a promised takeover lies above the band that ttl, renewal and pickup allow; inside it, not every fault meets it, and below it none"},
		{"L4", lint, "who waits for less than a lease is told busy after a crash"},
		{"L5", lint, "a ttl_hold loop runs every poll * ceil(ttl / poll); an exact multiple races the key's expiry"},
		{"L6", lint, "contenders / pause = requests a second on one key; the pause is the poll of a loop, every of a back-off, or cap where waiters stand in line (wake)"},
		{"L7", lint, "where nothing renews, ttl >= p99 of the work + jitter"},
		{"L8", lint, "a quantile takes enough independent kills: 29, 59 and 299 clean ones for p90, p95 and p99; 36, 72 and 367 where kills repeat until answered"},
		{"L9", lint, "a key_prefix ends with a separator; else it runs into the job's id: sched:job + job-1 = sched:jobjob-1"},
		{"L10", lint, "the run comes to its end within limits.max_run, by its steady state, faults, takeovers, the wait for late violations and jobs"},
		{"L11", lint, "a fault that is aimed at the holder of a job lock comes while jobs run; when the last job has ended nobody holds the lock"},
		{"L12", lint, "a promised takeover needs a second replica: of one alone it is the time until it has been started again"},

		{"game_day", term, "several drills and the steps of people between them, in the order of a sheet, with one log and one report; lockdrill run leads through it"},
		{"hypothesis", term, "of a game day: what it is to show"},
		{"owner", term, "of a game day: who decides"},
		{"stop_criterion", term, "of a game day: when people end it early; stop_when says which ends of a drill do so by themselves"},
		{"ended_early", term, "of a game day: why it did not come to its last step; what was left out is not run, and the day is no pass"},
		{"observation", term, "what somebody has written down on a game day, with name and time"},
		{"skipped", term, "of a step of a game day: people or a missing terminal have left it out; the day is inconclusive at best"},
		{"epoch", term, "one acquisition of a key that succeeded, or may have: it has a token and a fence of its own"},
		{"incarnation", term, "one life of a replica: r1.2 is the second of r1"},
		{"fence", term, "a number that the store mints with the epoch and that only grows; the ledger refuses lower ones"},
		{"ledger", term, "the resource that the lock protects: it puts all effects in one order, and no fault touches it"},
		{"rolling", measure, "what one rolling restart costs at a leader loop: hand-overs, the time without a leader in all, and the longest stretch of it"},
		{"effect", term, "an entry of the ledger: begin, a state of a job, or a tick of a loop"},
		{"superseded", term, "of an epoch: a later epoch of its key has an effect in the ledger already, so its holder no longer had the lock"},
		{"stale", term, "an effect of a superseded epoch; of a duplicate terminal state: a superseded holder wrote it. A fence refuses such effects"},
		{"repeated", term, "of a duplicate terminal state: each of its writers held the lock, and the later one did not look at the job's state"},
		{"unattributed", term, "of a duplicate terminal state: it is not known whether its writers held the lock"},
		{"conflicting", term, "of a duplicate terminal state: it is another state than the first"},
		{"lease_end", term, "the instant at which the store frees the key: last applied renewal + ttl, or its deletion"},
		{"validity_end", term, "how long a client may rely on the lock: send time of its last success + ttl - drift"},
		{"lease", term, "for how long the store owes a holder its key: until the last extension's end, or until the key is given back"},
		{"belief", term, "from the answer granted until the first of: release sent, loss noticed, death; of an observed lock, as long as the replica says that it holds it"},
		{"work", term, "from work.enter to work.exit or death, less confirmed pauses"},
		{"exposed", term, "an epoch that surely owned its key when the fault hit its holder"},
		{"residual", term, "of a takeover: what is left of the lease, from the fault to its end"},
		{"left of the lease", term, "of a takeover, residual in verdict.json: what is left of the lease, from the fault to its end"},
		{"pickup", term, "of a takeover: from the lease end to the next grant"},
		{"victim", term, "the replica that a fault strikes"},
		{"successor", term, "the replica that takes a lock over from a victim"},
		{"trial", term, "one lock that a fault hit while it was held: it gives one takeover, or shows that none came"},
		{"renewal", term, "the call by which a holder extends its lease"},
		{"redelivery", term, "an unfinished job is offered again so often (redeliver): for a job lock it stands where a loop has its poll"},
		{"in flight", term, "of L3: a renewal that was under way when the holder died can still extend the lease, by one op timeout at most"},
		{"band", term, "from the shortest to the longest takeover that TTL, renewal, pickup and timeouts allow (L3)"},
		{"breach", term, "a figure that is over, or under, what was promised"},
		{"percentile", term, "p95 of 2s: 95 of 100 values are at most 2s; a promised one is held against an upper bound with 95% confidence, so it needs many kills"},
		{"median", term, "half of the values are at most this (p50)"},
		{"late machine", term, "the runner's machine kept replicas or stores waiting for a processor; so much is taken off a takeover, a tick gap, a wait or a debt before it is called a breach, and what it decides is inconclusive"},
		{"warm-up", term, "of a takeover: from the grant to the first accepted effect"},
		{"settled", term, "the fault is over, every exposed key has its successor, and the steady state holds again"},
		{"horizon", term, "for how long a run reads on after its last fault, so that a late breach would still be seen: the longest takeover that is possible or promised, and one redelivery period"},
		{"burst", term, "a fault that makes the renewals, acquires or releases of a victim fail, by their number, their share or for a time"},
		{"hand-over", term, "a takeover after the victim gave its lock back: the speed of a release, not of a death"},
		{"jeopardy", term, "an epoch whose work still ran at lease end, or that had to be given up"},
		{"claim", term, "what a replica says of itself; evidence is what the ledger and the probes saw"},
		{"min", term, "the figure is at least this; of several trials the least must be. Too little is a fail only where it would have been seen"},
		{"at_most", term, "a limit that is a share of what another lock (of) of the same run measured; at_least is its counterpart"},
		{"expect", term, "what each confirmed fault must provoke for the drill to mean anything; if it does not, the run is inconclusive"},
		{"inconclusive", term, "nothing wrong was seen, and the question was not reached; never a pass"},

		{"could break", term, "up to x%: none of n faults broke the promise, so with 95% confidence at most x% of such faults do: 1 - 0.05^(1/n). More faults lower it"},
		{"possible", term, "the band of takeovers that TTL, renewal, pickup and timeouts allow (L3); a limit inside it can be met by luck alone"},
		{"predicted", term, "the least and the greatest takeover in the rehearsals that a live run begins with; one outside of it is a finding"},
		{"margin", term, "what the worst observed value leaves to the limit, and its share of the limit"},
		{"rehearsal", term, "the same drill in virtual time: what rules, policy and timings come to; it satisfies no SLO"},

		{"regressed", compared, "a row is worse, or correctness broke in the head and not in the base"},
		{"worse", compared, "of a row of compare: significant over all rows that were tested, and beyond the tolerance"},
		{"tolerance", compared, "change, as a share of the base's median, that does not count"},
		{"shift", compared, "the median of all differences between a value of the head and one of the base (Hodges-Lehmann)"},
		{"same", compared, "no row changed by more than chance and the tolerance allow; that is no proof that nothing changed"},
		{"too_few", compared, "no difference could be significant with so many values: neither worse nor unchanged"},

		{"critical", class, "given up after N failed renewals or before the validity ends, whichever is first; for work that must never run twice"},
		{"standard", class, "given up before the validity ends; for idempotent or fenced work"},
		{"continuity", class, "never given up, visibly unowned past the validity; for idempotent and fenced work that must not stop"},
		{"legacy_count", class, "given up after N failed renewals of any kind and by nothing else; the published scheduler policy"},
		{"legacy_warn", class, "never given up: failures are logged; the published workflow policy"},
		{"fixed", backoff, "who waits asks again at the same pause, and no later than the holder's lease ends"},
		{"decorrelated", backoff, "who waits asks again after random pauses from every up to cap, each at most three times the last"},
		{"wake", backoff, "who waits stands in line at the store, first come first served, and is told when the turn has come; else it asks every cap only"},
		{"crash", form, "the process of a pod dies at once, without a word, and its container is started again"},
		{"graceful", form, "a process gets SIGTERM, and SIGKILL when its grace is over; a pod is deleted with its own grace, which is the same; who releases its lock hands it over"},
		{"evict", form, "a pod ends as by graceful, if its PodDisruptionBudgets allow it; one that blocks makes the shot void, and is named"},
		{"drain", "what is done to a node", "the node of a holder takes no pods for a while, and the drill's pods are evicted from it, within their PodDisruptionBudgets"},
		{"cordon", "what is done to a node", "the node of a holder takes no pods for a while; those on it stay"},
		{"force_delete", form, "the pod is deleted with grace 0, which is no SIGKILL: its object goes at once, its process may live on for 2s or more beside the replacement"},
		{"freeze", store, "SIGSTOP of the server for a while"},
		{"restart", store, "the server is killed and started again at once; keep: its data survives"},
		{"stop", store, "the server is killed, and started again after a while"},
		{"flush", store, "every key of the run is gone: FLUSHALL, but on somebody's Redis only the run's own"},
		{"failover", store, "the primary is killed, and a replica that lags becomes the primary"},
		{"environment", guard, "what the target must say it is: a file for staging never runs against production"},
		{"kill switch", guard, "a file: while it is there no run starts, and a run that goes on is aborted within a second (limits.kill_switch)"},
		{"calendar", guard, "whether windows and blackouts let a run go on now"},
		{"confirm", guard, "a target that the run does not start needs --confirm with the experiment's name"},
	}
	all = append(all, outputWords()...)
	for _, e := range verdict.Exits() {
		if !slices.ContainsFunc(all, func(w word) bool { return w.name == e.Name }) {
			all = append(all, word{e.Name, "verdict", e.Meaning})
		}
	}
	for _, kind := range fault.Kinds() {
		all = append(all, word{kind, "fault", fault.Meaning(kind)})
	}
	return all
}

// outputWords are the words that only outputs use: the labels of lines, the heads of columns, and why a shot counts for nothing.
func outputWords() []word {
	const void, line, column, load = "void reason", "line", "column", "outcome of a comparison"
	return []word{
		{"blind", line, "a probe did not look for longer than its max_gap. Reports say that the probe was delayed. A row whose evidence may have passed meanwhile is inconclusive"},
		{"delayed", line, "a probe looked later than its max_gap allows. A row that needs the missed looks is inconclusive; others do not suffer"},
		{"valid", line, "whether the drill itself can be believed: the steady state held, every declared shot was confirmed, and the clean-up was verified"},
		{"scale", line, "time_scale: all durations of the file are multiplied by it, the limits too. Figures are real seconds against scaled limits"},
		{"steady state", line, "before the first fault every replica is ready, locks are held and jobs finish. Without it nothing after it means anything"},
		{"confirmed", line, "the fault was seen to have happened, from outside: only such a shot counts"},
		{"void", line, "a shot that counts for nothing, because it hit nobody, hit another, or was not seen to work. It is repeated, up to twice the declared count"},
		{"shot", line, "one injection of a fault: kill-leader#3 is the third of fault kill-leader"},
		{"probe", line, "what looks at the keys, the ledger, metrics or logs while the drill runs"},
		{"watching", line, "what looking at the keys of an observed system has cost its Redis"},
		{"MONITOR", line, "Redis's command of that name, in short windows: it tells which connection uses a key"},
		{"holder by", line, "which sources named the holder of a lock of an observed system, and how often"},
		{"machine", line, "how late the machine was that runs the drill, by a timer that waits for nobody (late machine)"},
		{"clean-up", line, "whether every fault was undone and every process ended; not verified is dirty"},
		{"calibration", line, "how fast this machine and its stores are without a fault: round trip, timers, expiry"},
		{"jobs", line, "jobs offered and finished, terminal states accepted, duplicates, re-executions and stranded jobs"},
		{"stale writes", line, "writes of a holder whose lock had gone to another: applied by the resource, or refused by its fence"},
		{"caps", line, "the most that a run may kill, strike and last (limits)"},
		{"failures", line, "how many renewals in a row may fail before the lease is unsafe, and when the policy gives up"},
		{"cadence", line, "how often a loop really runs whose key is left to its ttl"},
		{"strikes", line, "whom a fault would hit"},
		{"undone", line, "how a fault is ended and its traces are removed"},
		{"stores and fleet", line, "where locks and ledger live, and how many replicas of which kind there are"},
		{"strained", load, "a figure that was measured while the machine was late, or that stands on few faults: not compared as if it were sound"},
		{"pooled", load, "several runs of one experiment taken together, where each had too few faults for a percentile"},
		{"promise", column, "a limit that the file gives to a measure (slos), such as takeover max <= 30s; a verdict answers it"},
		{"observed", column, "what was measured of a promise, with its unit; a range contains the truth"},
		{"based on", line, "how much a figure stands on: the kills, jobs or calls that were counted"},
		{"may be more", line, "counts that are known in part: there may be more that no source could tell"},
		{"declared", column, "what the file says, before anything is measured"},
		{"in effect", column, "from when to when a fault really lasted, as it was observed"},
		{"too many", column, "accepted terminal states of a job beyond its first"},
		{"counted as", column, "what the figure beside it consists of"},
		{"more than one holder", column, "seconds of holders beside the first, or effects of holders who no longer owned the lock"},
		{"cause", column, "why a key stayed taken: release_failed, kept_after_work (of a system that is not ours, which tells nothing of its releases), release_skipped_after_abandon, orphan_acquire, renew_after_exit"},
		{"debt", column, "how long a key stayed taken after its work had ended (lock_debt)"},
		{"effective", column, "the part of a lock debt during which somebody waited for the key"},
		{"waiter-seconds", column, "the waiting of all waiters together during a lock debt"},
		{"absent", column, "\"not yours\", because the key was gone"},
		{"other", column, "\"not yours\", because the key carried another token"},
		{"answered", column, "calls that the store answered, with yes or with \"not yours\""},
		{"class", column, "of a takeover: crash, pause, hand-over, recovery, theft, store or false, by what the victim suffered; of a job: its class of work"},
		{"ended by", column, "what showed the end of a takeover: effect, grant, renewal, or censored where the run ended first"},
		{"censored", column, "the end was not seen: the figure is at least this"},
		{"open", column, "the upper end of a range that was not seen"},
		{"timing", column, "of an abandonment: timely, late, missed, undetermined"},
		{"need", column, "of an abandonment: needed, needless, undetermined"},
		{"unowned", column, "worked or written without owning the lock"},
		{"call", column, "the request that was to end a pod"},
		{"object gone", column, "when the API object of a pod was gone, which does not mean that its process was"},
		{"last sign of life", column, "when the process was last surely alive"},
		{"process ended", column, "by when the process had surely ended, and what showed it"},
		{"means", column, "how a process is ended: by the API, by its worker, by a command in its container, by a signal"},
		{"base", column, "the runs that a comparison starts from; head are those held against them"},
		{"change", column, "shift of the head against the base, with its confidence interval"},
		{"nearest to its limit", column, "the row with the least margin"},
		{"head", column, "the runs that a comparison holds against its base"},
		{"count", column, "how many values a figure is of"},
		{"by chance", column, "of a comparison: how likely such a difference is where nothing has changed, 0 to 1; 1 says that it tells nothing"},
		{"mean", column, "the average"},
		{"worst", column, "the figure that comes closest to its limit, or goes furthest beyond"},
		{"max", column, "the greatest value; a limit max is broken by a single one"},
		{"p95", column, "percentile: 95 of 100 values are at most this; a clean answer needs 59 kills"},
		{"p99", column, "percentile: 99 of 100 values are at most this; a clean answer needs 299 kills"},
		{"at least", column, "the lower end of what was measured"},
		{"before the first fault", column, "the samples of a signal until the first fault; during and after are those that follow"},
		{"job", column, "one piece of work that is done under a lock of its own"},
		{"kinds", column, "of a duplicate: stale (by a superseded holder), repeated (the same state again), conflicting (another state)"},
		{"expected", line, "how long a run would take, before it runs"},
		{"alert", line, "an alert of a Prometheus that had to fire after a fault, and to go away, or to stay silent"},
		{"no_target", void, "nobody held the lock, or the victim was gone, when the shot was due"},
		{"ended", void, "somebody else ended the victim while the fault lasted"},
		{"moved", void, "the victim no longer held the lock, or had ended, when it was hit"},
		{"unconfirmed", void, "the fault was not seen to have its effect"},
		{"no_time", void, "the run ended before the fault could be confirmed"},
		{"holder_unknown", void, "no source could say who holds the lock"},
		{"holder_disputed", void, "sources named different holders"},
		{"unknown", void, "this lockdrill does not know the kind of fault"},
		{"never_applied", void, "the fault was announced and did not come about"},
		{"nothing_owed", void, "the victim had finished all work under its keys, so nobody had to take over"},
		{"no_demand", void, "no other replica wanted the key"},
		{"not_returned", void, "nobody took the place of the replica that was restarted before it"},
		{"budget", void, "a PodDisruptionBudget did not let the pod be evicted; it was left as it is"},
		{"jobs_ended", void, "all jobs had ended, so nobody held the lock"},
		{"wrong_victim", void, "the lease was extended after the victim had died, so another replica held the lock"},
		{"undecided", void, "the lock changed hands early, and nothing shows whether its holder gave it back"},
	}
}

// wordNames are all words, sorted.
func wordNames() []string {
	var names []string
	for _, w := range words() {
		names = append(names, w.name)
	}
	slices.Sort(names)
	return names
}

// wordOf finds a word, however it is capitalised and joined: "fence lag" and "fence-lag" are fence_lag.
func wordOf(name string) (word, bool) {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	for _, w := range words() {
		if plain(w.name) == plain(name) {
			return w, true
		}
	}
	return word{}, false
}
