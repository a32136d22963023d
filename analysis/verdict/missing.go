package verdict

import (
	"fmt"
	"strings"
)

// Missing is evidence without which a question is not reached, and what to do about it. Decisions are made by its code.
type Missing struct {
	Code MissingCode `json:"code,omitempty"` // "" in a verdict.json of an earlier lockdrill
	Why  string      `json:"why"`
	Next string      `json:"next"`
}

// MissingCode says which evidence is missing.
type MissingCode string

// Of the run as a whole.
const (
	MissingEnd           MissingCode = "end"
	MissingCompletion    MissingCode = "completion"     // why it ended, what to do
	MissingSteadyState   MissingCode = "steady_state"   // what was missing, what to do
	MissingTrials        MissingCode = "trials"         // fault, shots that count of those declared, why the others do not, what to do
	MissingConfirmations MissingCode = "confirmations"  // likewise, of a fault that gives no trials
	MissingKind          MissingCode = "kind"           // shot, kind
	MissingFaultEnd      MissingCode = "fault_end"      // shot
	MissingLedger        MissingCode = "ledger_entries" // what was lost, what lost it, what to do
	MissingRecord        MissingCode = "record"         // what contradicts itself
	MissingLiveSystem    MissingCode = "live_system"
)

// Of what watched.
const (
	MissingLooks         MissingCode = "looks"          // probe, for how long, when, max_gap, what to do
	MissingFailedLooks   MissingCode = "failed_looks"   // probe, for how long, when, max_gap, what the looks got
	MissingStoreLooks    MissingCode = "store_looks"    // probe, for how long, when, max_gap, the shot that had the store
	MissingUnread        MissingCode = "unread"         // records, probe
	MissingLedgerRead    MissingCode = "ledger_read"    // at the end
	MissingLockRead      MissingCode = "lock_read"      // likewise, of an observed system
	MissingHorizon       MissingCode = "horizon"        // by how much, what to do
	MissingLines         MissingCode = "lines"          // replica, lines that were not events
	MissingStreamLines   MissingCode = "stream_lines"   // replica, lines that never came
	MissingMetrics       MissingCode = "metrics"        // replica
	MissingSeries        MissingCode = "series"         // target, series
	MissingScrapes       MissingCode = "scrapes"        // metric, for how long, when
	MissingFailedScrapes MissingCode = "failed_scrapes" // likewise, and why
	MissingLastScrape    MissingCode = "last_scrape"    // target, why
	MissingReadings      MissingCode = "readings"       // metric, target, for how long, when, why
	MissingBelief        MissingCode = "belief"         // lock, replica, for how long, when, max_gap, why
	MissingBelievers     MissingCode = "believers"      // lock, who did not say so
	MissingWholeAnswers  MissingCode = "whole_answers"  // metric, for how long, when, what the server says that they lack
	MissingNumber        MissingCode = "number"         // metric, target, what it showed, when
	MissingAgreement     MissingCode = "agreement"      // of metric and events
	MissingLogLines      MissingCode = "log_lines"      // for how long, when
	MissingAlertLooks    MissingCode = "alert_looks"    // alert, for how long, when
	MissingAlertRest     MissingCode = "alert_rest"     // alert, before what
	MissingAlertRoom     MissingCode = "alert_room"     // alert, the next shot

	MissingTeller MissingCode = "teller" // why nothing tells what is asked of an observed system

	MissingAnnouncement MissingCode = "announcement" // key, epoch that nobody claims
	MissingNewToken     MissingCode = "new_token"    // key, epoch that came back
	MissingGrant        MissingCode = "grant"        // key, epoch that the key never carried, who claims it
)

// Of what happened at a lock.
const (
	MissingEvents       MissingCode = "events"         // lock
	MissingHits         MissingCode = "hits"           // lock, what to do
	MissingStrikes      MissingCode = "strikes"        // effects under no lock, what to do
	MissingTakeovers    MissingCode = "takeovers"      // lock, class, what to do
	MissingContenders   MissingCode = "contenders"     // lock, what to do
	MissingHolders      MissingCode = "holders"        // lock, what to do
	MissingEffects      MissingCode = "effects"        // lock
	MissingOperations   MissingCode = "operations"     // lock
	MissingWriters      MissingCode = "writers"        // lock
	MissingAuthors      MissingCode = "authors"        // lock, effects that are not known to be their holder's
	MissingOrder        MissingCode = "order"          // key
	MissingRequests     MissingCode = "requests"       // lock
	MissingOffers       MissingCode = "offers"         // lock
	MissingOpenJobs     MissingCode = "open_jobs"      // effects under no lock
	MissingForeignJobs  MissingCode = "foreign_jobs"   // lock, source of its effects
	MissingForeignEnds  MissingCode = "foreign_ends"   // lock, terminal states
	MissingFences       MissingCode = "fences"         // lock
	MissingFinishedJobs MissingCode = "finished_jobs"  // lock
	MissingMinJobs      MissingCode = "min_jobs"       // finished, at least
	MissingWork         MissingCode = "work"           // lock
	MissingRolls        MissingCode = "rolls"          // lock
	MissingRolled       MissingCode = "rolled"         // fault, replicas restarted, of how many, one that was not
	MissingReturn       MissingCode = "return"         // which replica did not come back, and for how long, what to do
	MissingJeopardy     MissingCode = "jeopardy"       // lock, what to do
	MissingLosses       MissingCode = "losses"         // lock
	MissingWorkEnds     MissingCode = "work_ends"      // lock
	MissingDoneHolders  MissingCode = "done_holders"   // lock
	MissingAnswers      MissingCode = "answers"        // operation, lock
	MissingValues       MissingCode = "values"         // what of, whose
	MissingCleanTrials  MissingCode = "clean_trials"   // trials, quantile, how many it takes, what to do
	MissingMoreRepeats  MissingCode = "more_repeats"   // what was seen and needed, what to do
	MissingMoreTrials   MissingCode = "more_trials"    // trials that missed, quantile, how many it takes, how many clean, what to do
	MissingMoreValues   MissingCode = "more_values"    // values that missed, of, quantile, how many it takes
	MissingProvoked     MissingCode = "provoked"       // what, in how many shots, what to do
	MissingReference    MissingCode = "reference"      // the other lock
	MissingMarginToLuck MissingCode = "margin_to_luck" // worst, sum, what to do
	MissingLateMachine  MissingCode = "late_machine"   // value, how late the machine was, limit
)

// Unknown is a measure of which there may be more at a lock than counts and lists say, and why: a 0 there says nothing.
type Unknown struct {
	Lock    string  `json:"lock"`    // "" = there is no lock at all
	Measure string  `json:"measure"` // without the names of its figures: lock_debt, overlap, abandonments ...
	Missing Missing `json:"lacks"`
}

// OfMachine reports evidence that is missing because the machine that drills was too slow.
func (c MissingCode) OfMachine() bool { return c.is(machine) }

// OfLooks reports evidence that is missing because of a probe's looks.
func (c MissingCode) OfLooks() bool { return c.is(looking) }

// OfWatching reports evidence without which there may be more than was seen.
func (c MissingCode) OfWatching() bool { return c.is(watching | looking | record) }

// OfRecord reports a record of the run that is not whole, whatever is asked of it.
func (c MissingCode) OfRecord() bool { return c.is(record) }

// ApartFromLooks reports evidence that would be missing just the same if each probe had looked in time.
func (c MissingCode) ApartFromLooks() bool { return c.is(apart) }

// CountsAllTheSame reports what keeps a row of one run from an answer, and not its kills from being counted.
func (c MissingCode) CountsAllTheSame() bool { return c.is(tally) }

// Lacking is the missing evidence of a code with its parameters: the only place where its sentences are made.
func Lacking(code MissingCode, parameters ...any) Missing {
	said, known := words[code]
	if !known {
		panic("verdict: no words for " + string(code))
	}
	return Missing{Code: code, Why: fill(said.why, parameters), Next: fill(said.next, parameters)}
}

// fill puts parameters into the places of a sentence, not all of which need have one.
func fill(sentence string, parameters []any) string {
	if !strings.Contains(sentence, "%[") {
		parameters = nil
	}
	return fmt.Sprintf(sentence, parameters...)
}
