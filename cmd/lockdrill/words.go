package main

import (
	"strings"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// word is one entry of the vocabulary; docs/judging.md and docs/policies say the rest.
type word struct{ name, kind, meaning string }

// words is the vocabulary of verdicts, lints and policies: what each measure of an SLO, each budget lint and each value of a policy
// means, in a sentence or two.
func words() []word {
	const measure, lint, term, class, release, loop, backoff = "measure", "lint", "word", "renewal class", "release", "loop mode", "back-off"
	const form, mode, store, guard, compared = "form of a kill", "failure mode", "store fault", "guard", "comparison"
	all := []word{
		{"takeover", measure, "from the fault that hits a holder to the first accepted effect of a later epoch of its key; it splits into residual, pickup and warm-up"},
		{"tick_gap", measure, "of a loop: from the last accepted tick before the fault to anybody's next"},
		{"overlap", measure, "mutual exclusion broken: seconds with more than one holder (level belief or work), or a count of stale and unowned effects (level effect)"},
		{"duplicate_terminal_states", measure, "accepted terminal writes of a job beyond its first; what the ledger refused was prevented, and is not counted"},
		{"abandonments", measure, "how often a lock was given up; a safe policy must do so under some faults"},
		{"abandonment", measure, "how it was given up: missed and late count work that ran past its lease end, needless counts locks that could still have been renewed"},
		{"fence_lag", measure, "work stop minus validity end, on the worker's own clock; above 0 is unsafe even where nobody was there to collide with"},
		{"unowned_work", measure, "seconds of work past the lease end, in all"},
		{"busy", measure, "acquires refused while the holder was dead, or had stopped relying on the lock without giving it back"},
		{"stranded", measure, "jobs without a terminal state at the horizon"},
		{"fence_regressions", measure, "grants whose fence is not above that of an epoch surely granted before"},
		{"re_executed", measure, "executions of a job after an earlier epoch had executed it"},
		{"lock_debt", measure, "from the end of the work to the instant at which its key is free; effective while somebody waits for it"},
		{"not_owned", measure, "the share of answered renewals and releases that were told: not yours"},
		{"failed_releases", measure, "the share of release calls that failed, and that of locks left to their TTL because every try failed"},
		{"orphan_acquires", measure, "acquires that took effect and that nobody used, because their reply was lost or came too late"},
		{"foreign_releases", measure, "releases that succeeded after the key had been granted to another"},
		{"foreign_renewals", measure, "renewals that succeeded after the key had been granted to another"},
		{"duplicate_epochs", measure, "grants whose token had been granted before: nothing tells the two holds apart"},
		{"loss_to_fence", measure, "how long a holder relied on a key that had been taken from it before the lease was over"},
		{"blocked", measure, "how long after its work a worker was still giving its key back"},
		{"held", measure, "how long a lock was held, by job class"},
		{"wait", measure, "how long a job waited for its lock, by job class"},
		{"metric", measure, "a Prometheus series: its change, its rate or its maximum during the drill; a series that does not exist is not 0 unless absent_means says so"},
		{"logs", measure, "lines in the pods' logs that match a named pattern; where a log was not followed, there is no count"},

		{"L1", lint, "acquire + failures * interval * (1 + jitter) + op timeout + drift + stop budget <= ttl: the holder gives up before the store gives the key to another"},
		{"L2", lint, "at least two renewal attempts fit into a lease"},
		{"L3", lint, "a promised takeover lies above the band that ttl, renewal and pickup allow; inside it, it holds by luck"},
		{"L4", lint, "who waits for less than a lease is told busy after a crash"},
		{"L5", lint, "a ttl_hold loop runs every poll * ceil(ttl / poll); an exact multiple races the key's expiry"},
		{"L6", lint, "contenders / pause = requests a second on one key; the pause is the poll of a loop, every of a back-off, or cap where waiters stand in line (wake)"},
		{"L7", lint, "where nothing renews, ttl >= p99 of the work + jitter"},
		{"L8", lint, "a quantile takes enough independent kills: 29, 59 and 299 clean ones for p90, p95 and p99"},
		{"L9", lint, "a key_prefix ends with a separator; else it runs into the job's id: sched:job + job-1 = sched:jobjob-1"},
		{"L10", lint, "the run comes to its end within limits.max_run, by its steady state, faults, takeovers, horizon and jobs"},
		{"L11", lint, "a fault that is aimed at the holder of a job lock comes while jobs run; when the last job has ended nobody holds the lock"},

		{"epoch", term, "one acquisition of a key that succeeded, or may have: it has a token and a fence of its own"},
		{"incarnation", term, "one life of a replica: r1.2 is the second of r1"},
		{"fence", term, "a number that the store mints with the epoch and that only grows; the ledger refuses lower ones"},
		{"ledger", term, "the resource that the lock protects: it puts all effects in one order, and no fault touches it"},
		{"effect", term, "an entry of the ledger: begin, a state of a job, or a tick of a loop"},
		{"lease_end", term, "the instant at which the store frees the key: last applied renewal + ttl, or its deletion"},
		{"validity_end", term, "how long a client may rely on the lock: send time of its last success + ttl - drift"},
		{"belief", term, "from the answer granted until the first of: release sent, loss noticed, death"},
		{"work", term, "from work.enter to work.exit or death, less confirmed pauses"},
		{"exposed", term, "an epoch that surely owned its key when the fault hit its holder"},
		{"residual", term, "of a takeover: from the fault to the lease end"},
		{"pickup", term, "of a takeover: from the lease end to the next grant"},
		{"late machine", term, "the runner's machine kept replicas or stores waiting for a processor; so much is taken off a takeover, a tick gap, a wait or a debt before it is called a breach, and what it decides is inconclusive"},
		{"warm-up", term, "of a takeover: from the grant to the first accepted effect"},
		{"settled", term, "the fault is over, every exposed key has its successor, and the steady state holds again"},
		{"horizon", term, "how long the final reads wait for a breach to be seen: the larger of band and limit, and one redelivery period"},
		{"hand-over", term, "a takeover after the victim gave its lock back: the speed of a release, not of a death"},
		{"jeopardy", term, "an epoch whose work still ran at lease end, or that had to be given up"},
		{"claim", term, "what a replica says of itself; evidence is what the ledger and the probes saw"},
		{"min", term, "the figure is at least this; of several trials the least must be. Too little is a fail only where it would have been seen"},
		{"exactly", term, "max and min in one"},
		{"at_most", term, "a limit that is a share of what another lock (of) of the same run measured; at_least is its counterpart"},
		{"expect", term, "what each confirmed fault must provoke for the drill to mean anything; if it does not, the run is inconclusive"},
		{"inconclusive", term, "nothing wrong was seen, and the question was not reached; never a pass"},

		{"breaks", term, "at most x% of such faults break the promise, with 95% confidence, as none of n did: 1 - 0.05^(1/n)"},
		{"possible", term, "the band of takeovers that TTL, renewal, pickup and timeouts allow (L3); a limit inside it can be met by luck alone"},
		{"predicted", term, "the least and the greatest takeover in the rehearsals that a live run begins with; one outside of it is a finding"},
		{"margin", term, "what the worst observed value leaves to the limit, and its share of the limit"},
		{"rehearsal", term, "the same drill in virtual time: what rules, policy and timings come to; it satisfies no SLO"},

		{"regressed", compared, "a row is worse, or correctness broke in the head and not in the base"},
		{"worse", compared, "of a row of compare: significant over all rows that were tested, and beyond the tolerance"},
		{"tolerance", compared, "change, as a share of the base's median, that does not count"},
		{"shift", compared, "the median of all differences between a value of the head and one of the base (Hodges-Lehmann)"},
		{"too_few", compared, "no difference could be significant with so many values: neither worse nor unchanged"},

		{"critical", class, "given up after N failed renewals or before the validity ends, whichever is first; for work that must never run twice"},
		{"standard", class, "given up before the validity ends; for idempotent or fenced work"},
		{"continuity", class, "never given up, visibly unowned past the validity; for idempotent and fenced work that must not stop"},
		{"legacy_count", class, "given up after N failed renewals of any kind and by nothing else; the published scheduler policy"},
		{"legacy_warn", class, "never given up: failures are logged; the published workflow policy"},
		{"none", release, "the key is left to its ttl"},
		{"single", release, "one call; if it fails, the key is left to its ttl"},
		{"bounded_retry", release, "a few calls, each on a fresh context with its own timeout; then the key is left to its ttl"},
		{"fixed", backoff, "who waits asks again at the same pause, and no later than the holder's lease ends"},
		{"decorrelated", backoff, "who waits asks again after random pauses from every up to cap, each at most three times the last"},
		{"wake", backoff, "who waits stands in line at the store, first come first served, and is told when the turn has come; else it asks every cap only"},
		{"crash", form, "the process of a pod dies at once, without a word, and its container is started again"},
		{"graceful", form, "a process gets SIGTERM, and SIGKILL when its grace is over; a pod is deleted with its own grace, which is the same; who releases its lock hands it over"},
		{"force_delete", form, "the pod is deleted with grace 0, which is no SIGKILL: its object goes at once, its process may live on for 2s or more beside the replacement"},
		{"error", mode, "refused at once, surely without effect"},
		{"timeout", mode, "never sent on; no answer"},
		{"delay", mode, "held back, then sent on"},
		{"lost_reply", mode, "executed; no answer"},
		{"freeze", store, "SIGSTOP of the server for a while"},
		{"restart", store, "the server is killed and started again at once; keep: its data survives"},
		{"stop", store, "the server is killed, and started again after a while"},
		{"flush", store, "every key of the run is gone: FLUSHALL, but on somebody's Redis only the run's own"},
		{"failover", store, "the primary is killed, and a replica that lags becomes the primary"},
		{"environment", guard, "what the target must say it is: a file for staging never runs against production"},
		{"confirm", guard, "a target that the run does not start needs --confirm with the experiment's name"},
		{"windows", guard, "a run may be in progress only within one of them, and within no blackout; one that leaves them is aborted"},
		{"kill_switch", guard, "a file: where it exists nothing starts, and a run that goes on is aborted within a second"},
		{"max_targets", guard, "replicas that faults other than kills may strike in all; each life counts"},
		{"max_kills", guard, "kills in all, whatever the faults ask for"},
		{"ttl_hold", loop, "after a tick the key is left to its ttl; it is renewed, if at all, only while the tick runs"},
		{"explicit", loop, "the key is released after each tick"},
		{"renewed", loop, "the key is kept and renewed between ticks, until death or loss"},
	}
	for _, kind := range fault.Kinds() {
		all = append(all, word{kind, "fault", fault.Meaning(kind)})
	}
	return all
}

func wordNames() []string {
	var names []string
	for _, w := range words() {
		names = append(names, w.name)
	}
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
