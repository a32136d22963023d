package analysis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

const (
	adviceOnFences    = "Mint fences that survive a flush and a failover: max(last + 1, the store's clock)."
	adviceOnFailures  = "Repair the connection to the store. A second try with a fresh timeout frees the key where the failure is short."
	adviceOnTrials    = "See which part of the slowest takeover is long: the rest of the lease, the pickup (until the next grant) or the warm-up (until the first accepted effect)."
	adviceOnRefusals  = "Wait longer than the ttl, or shorten the ttl. After a crash, a caller that waits for less than the lease is refused until it ends."
	adviceOnForeigner = "Compare the token in the same script that changes the key. What the client believes may be out of date."
	adviceOnOverlap   = "Stop the work before the lease ends, and fence its effects at the resource."
	adviceOnRolling   = "Release the lock on SIGTERM, once the work has stopped. A leader that keeps it costs a TTL at each restart."
	adviceOnSamples   = "See the samples of the metric, and what its owner did then."
	adviceOnTargets   = "Check the target, the way there, and what it asks of a reader: who it is, a header, a certificate."
	adviceOnSeries    = "Check the name and the labels of the series. Where it has no such series because there is nothing to tell, declare absent_means: zero."
	adviceOnGauges    = "Promise max of it, or name a counter."
	adviceOnPeaks     = "Promise that a counter of such peaks does not rise (delta: 0), or a limit above 0."
	unseenPeak        = "Nobody sees a peak between two scrapes, so a gauge that must be 0 is never a pass"
)

// phrase is what a row of a measure says it saw, of a figure (1) and of how many things (2), and what to do where it fails. "" = each figure of
// the measure says that for itself.
type phrase struct{ saw, next string }

// phrases are those of all measures. Nothing is decided by them.
func phrases() map[string]phrase {
	return map[string]phrase{
		"takeover":                         {"", adviceOnTrials},
		"tick_gap":                         {"", adviceOnTrials},
		"tick_gap" + ofWatch:               {"%[2]s without a tick, the longest %[1]s", "See what the leader did then: it may hold its lock, and not work."},
		"re_executed":                      {"", "Make the work idempotent, or write its result sooner."},
		"stranded":                         {"%[1]s of %[2]s were still unfinished at the final reads", "Redeliver unfinished work, and let more than one replica want it."},
		"abandonments":                     {"%[1]s of %[2]s that worked were given up", "See which of them were needed. An abandonment SLO tells a safe policy from a hasty one."},
		"abandonments" + bySignal:          {"", "See which of them were needed: the signal tells how often the lock was given up, not why."},
		"busy.count" + bySignal:            {"", adviceOnRefusals},
		"not_owned.renew" + bySignal:       {"", "Renew sooner, and stop relying on the lock before its lease ends: the key was lost or deleted while it was held."},
		"not_owned.release" + bySignal:     {"", "Stop the work before the lease ends: the key no longer belonged to the holder when it was released."},
		"failed_releases.calls" + bySignal: {"", adviceOnFailures},
		"wait" + bySignal:                  {"", adviceOnRefusals},
		"overlap.belief":                   {"More than one holder for %[1]s in all (each holder beyond the first counts for itself), in %[2]s", adviceOnOverlap},
		"overlap.work":                     {"More than one at work for %[1]s in all (each beyond the first counts for itself), in %[2]s", adviceOnOverlap},
		"overlap.effect":                   {"", "Let the resource compare fences (fenced: true)."},
		"stale_writes":                     {"", "Let the resource compare fences (fenced: true)."},
		"fence_lag":                        {"Work went on past the validity end in %[2]s, at worst for %[1]s", "Stop the work earlier: set the deadline to validity end - stop budget, with a stop budget that the work keeps."},
		"unowned_work":                     {"Work went on for %[1]s after the lease had ended, in %[2]s", ""},
		"loss_to_fence":                    {"Holders relied on a lost key for up to %[1]s, in %[2]s", "Give the lock up at once when the store answers \"not yours\", and renew more often: a loss is noticed at the next renewal."},
		"blocked":                          {"Workers took up to %[1]s to give a key back, in %[2]s", "Bound the release (release: {mode: bounded_retry, attempts: 2}), and leave the rest to the ttl."},
		"busy.count":                       {"", adviceOnRefusals},
		"busy.time":                        {"", adviceOnRefusals},
		"busy.each":                        {"", "See acquire in the policy: its timeout, and the budget of waiters."},
		"not_owned.renew":                  {"", "Renew sooner, and stop relying on the lock before its lease ends: the key was lost or deleted while it was held."},
		"not_owned.release":                {"", "Stop the work before the lease ends: the key no longer belonged to the holder when it was released."},
		"failed_releases.calls":            {"", adviceOnFailures},
		"failed_releases.given_up":         {"", adviceOnFailures},
		"foreign_releases":                 {"%[1]s of %[2]s succeeded although the key belonged to another epoch", adviceOnForeigner},
		"foreign_renewals":                 {"%[1]s of %[2]s succeeded although the key belonged to another epoch", adviceOnForeigner},
		"duplicate_epochs":                 {"%[1]s of %[2]s carried a token that had been granted before", "Make a new token for each acquire, not one for each process."},
		"vanished":                         {"", "Find out who deleted the key, or what the store evicted: its slow log, its eviction policy, a script that deletes by pattern. Let the holder look at its key before each effect."},
		"fence_regressions":                {"", adviceOnFences},
		"held":                             {"%[2]s, the longest %[1]s", "Shorten the work under the lock, or raise the limit."},
		"wait":                             {"%[2]s, the longest %[1]s", "Shorten the holds, or free keys sooner that nobody needs: see debts."},
		"rolling.handovers":                {"", "Restart the leader last: each restart of a leader is a hand-over."},
		"rolling.without_leader":           {"%[2]s, at worst %[1]s without a leader", adviceOnRolling},
		"rolling.longest":                  {"%[2]s, at worst %[1]s without a leader at a stretch", adviceOnRolling},
		"metric":                           {"", adviceOnSamples},
		"logs":                             {"", "Read the lines: each is an event logmatch of the history."},
		"alert.fires":                      {"", "See whether the fault raised what the rule counts (docs/alerts.md). Then compare within with the rule's window, its `for`, and its evaluation interval."},
		"alert.goes_away":                  {"", "Compare resolves_within with the window of the rule, which looks back."},
		"alert.fired":                      {"", "See what the alert says, and the fault at that time: the fault does more than it should, or the rule is too sensitive."},
		"overlap.lease":                    {"Two leases of one key for %[1]s in all, in %[2]s", "See what the store did: a fail-over, a roll-back, or somebody who deleted the key."},
		"leaderless":                       {"Nobody led for %[1]s in all, with %[2]s", "Shorten the lease and the poll, and release the lock on SIGTERM. See the takeovers for which of them it was."},
	}
}

// says words a row: the only place where its sentences are put together.
func (a *answer) says(r *verdict.SLOResult) (why, next string) {
	saw := a.sees()
	switch {
	case a.word == verdict.Fail && r.Verdict == verdict.Inconclusive:
		return verdict.Reasons(r.Missing)
	case a.word == verdict.Fail && a.tooLittle():
		return verdict.Sentences(saw, a.asks()), cmp.Or(a.few, "Check that the faults struck this lock as intended, or ask for less.")
	case a.word == verdict.Fail:
		return verdict.Sentences(saw, a.why, a.broken), a.advises()
	case a.unfit != "":
		return a.unfit, a.advises()
	case len(r.Missing) > 0 && a.word == verdict.Inconclusive && len(a.unsure) == len(r.Missing) && len(a.lacks) == 0:
		why, next = verdict.Reasons(r.Missing)
		return verdict.Sentences(saw, why), next
	case len(r.Missing) > 0:
		return verdict.Reasons(r.Missing)
	case a.word == verdict.Pass:
		return saw, ""
	case a.held.Hi == facts.Open:
		return verdict.Sentences(saw, cmp.Or(a.unseen, "The end was not seen, so the figure may be larger")), cmp.Or(a.unended, "Let the run go on to its final reads, and keep the probes within max_gap.")
	case a.against != nil:
		return verdict.Sentences(saw, fmt.Sprintf("%s may be more or less than %g of what lock %s had", a.text(a.held.Dur), a.against.Share, a.against.Lock)),
			cmp.Or(a.closer, "Measure closer (a shorter probe period, a larger time_scale), or choose another share.")
	}
	return verdict.Sentences(saw, fmt.Sprintf("The limit %s lies within the measured range %s", a.exact(a.sure()), a.text(a.held.Dur))),
		cmp.Or(a.closer, "Measure closer (a shorter probe period, a larger time_scale), or choose a limit outside that range.")
}

// sees is what was seen.
func (a *answer) sees() string {
	if a.saw != "" {
		return a.saw
	}
	return fmt.Sprintf(a.m.phrase.saw, a.text(a.held.Dur), figures.Plural(a.n, a.of))
}

// advises is what to do about a breach.
func (a *answer) advises() string { return cmp.Or(a.next, a.m.phrase.next) }

// asks says what was asked, where there was less of it.
func (a *answer) asks() string {
	if a.against != nil {
		return fmt.Sprintf("The SLO asks for at least %g of what lock %s had, %s", a.against.Share, a.against.Lock, a.exact(a.limit.Lo))
	}
	return "The SLO asks for " + map[experiments.Side]string{experiments.SideLeast: "at least ", experiments.SideExact: "exactly "}[a.l.Side] + a.exact(a.limit.Lo)
}

// bound says what is expected of a fault.
func (a *answer) bound() string {
	side := map[experiments.Side]string{experiments.SideMost: "at most", experiments.SideLeast: "at least", experiments.SideExact: "exactly"}[a.l.Side]
	return fmt.Sprintf("%s of lock %s of %s %s", verdict.MeasureWords(a.l.Name()), a.l.Lock, side, a.exact(a.sure()))
}

// exact is a limit.
func (f *figure) exact(x int64) string {
	if f.unit == verdict.UnitSeconds {
		return figures.Exact(x)
	}
	return fmt.Sprint(f.number(x))
}

// text is a range.
func (f *figure) text(d facts.Dur) string {
	switch {
	case f.unit == verdict.UnitSeconds:
		return d.String()
	case f.unit == verdict.UnitRatio:
		return percent(d)
	case d.Lo == d.Hi:
		return figures.Count(d.Lo)
	case d.Hi == facts.Open:
		return "at least " + figures.Count(d.Lo)
	}
	return fmt.Sprintf("%s to %s", figures.Count(d.Lo), figures.Count(d.Hi))
}

// percent is a range of billionths.
func percent(d facts.Dur) string {
	lo := fmt.Sprintf("%.3g%%", float64(d.Lo)/1e7)
	switch {
	case d.Lo == d.Hi:
		return lo
	case d.Hi == facts.Open:
		return "at least " + lo
	}
	return strings.TrimSuffix(lo, "%") + fmt.Sprintf(" to %.3g%%", float64(d.Hi)/1e7)
}

// epochTook names an epoch and how long it took.
func epochTook(e *facts.Epoch, d facts.Dur) string {
	return fmt.Sprintf("Key %s, epoch %s, granted at %s: %s", e.Key, e.ID, figures.Clock(e.Granted.To), d)
}

// tooFew says how many trials it takes to claim the quantile, when so many of them missed it.
func (a *answer) tooFew(file advice) verdict.Missing {
	claim, name, things := a.claim(), a.l.Bound(), figures.Plural(a.n, a.of)
	need := claim.Needed()
	if a.growing {
		return verdict.Lacking(verdict.MissingMoreRepeats, claim.Says(), file.repeats(a.l.Lock, need))
	}
	missed := facts.Tally{Lo: claim.Surely, Hi: claim.Maybe}
	next := file.trials(a.l.Lock, need)
	switch {
	case !a.m.kills:
		return verdict.Lacking(verdict.MissingMoreValues, figures.Count(missed.Hi), things, name, need)
	case missed.Hi == 0:
		return verdict.Lacking(verdict.MissingCleanTrials, things, name, need, next)
	case missed.Lo == a.n:
		next = "Raise the limit or shorten the lease: every " + a.of + " missed the limit."
	case missed.Hi == a.n:
		next = "Raise the limit or shorten the lease: every " + a.of + " may have missed the limit."
	}
	return verdict.Lacking(verdict.MissingMoreTrials, missed.Of(a.n, a.of, "missed the limit", "may have missed it"), name, need, stats.TrialsNeeded(a.l.Quantile, 0), next)
}
