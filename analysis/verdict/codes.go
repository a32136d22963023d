package verdict

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/history"
)

// Code is a word that verdict.json and pages show in place of a sentence, or a number that a process ends with.
type Code struct{ Name, Kind, Meaning string }

// Codes are those of findings, of missing evidence, of how a run ended, of what an effect was told its epoch by, of abandonments and of
// exit statuses, sorted by name and kind.
func Codes() (all []Code) {
	for code, says := range findingWords {
		all = append(all, Code{string(code), "finding", says})
	}
	for code, says := range words {
		all = append(all, Code{string(code), "missing evidence", says.general()})
	}
	for _, e := range Exits() {
		all = append(all, Code{strconv.Itoa(e.Code), "exit status", e.Name + ": " + e.Meaning})
	}
	all = append(all, stateWords...)
	slices.SortFunc(all, func(a, b Code) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

// stateWords are those that stand in fields of verdict.json.
var stateWords = []Code{
	{StatusCompleted, "end of a run", "the run came to its end"},
	{StatusAborted, "end of a run", "an operator, a signal, a guard or an abort condition ended it early"},
	{StatusError, "end of a run", "it could not go on, and cleaned up"},
	{StatusCutOff, "end of a run", "its history has no end: it was killed, or its record was cut off"},
	{history.AbortSignal, "why a run was aborted", "an operator or a supervisor told it to end"},
	{history.AbortLimit, "why a run was aborted", "limits.max_run was over"},
	{history.AbortCondition, "why a run was aborted", "a condition of abort_when came about"},
	{history.AbortKillSwitch, "why a run was aborted", "the file of limits.kill_switch appeared"},
	{history.AbortWindow, "why a run was aborted", "it left the hours in which it may be in progress"},
	{history.AbortTargetLost, "why a run was aborted", "the pods could not be asked any more, or were another cluster's"},
	{history.AbortStoreLost, "why a run was aborted", "a store was gone for good"},
	{history.AbortReplicasLost, "why a run was aborted", "replicas were gone for good"},
	{history.AbortError, "why a run was aborted", "lockdrill itself could not go on"},
	{string(history.NotReady), "why there is no steady state", "a replica is not ready"},
	{string(history.NoKnownHolder), "why there is no steady state", "nobody is known to hold a lock of the observed system"},
	{string(history.CannotLook), "why there is no steady state", "the keys or replicas of the observed system cannot be looked at"},
	{string(history.OtherwiseUnsteady), "why there is no steady state", "something else lacks, which is said beside it"},
	{string(history.Unparsable), "why a record was not read", "it has not the form that the file declares"},
	{string(history.CutOff), "why a record was not read", "it is too long, or its end never came"},
	{string(history.Passed), "why a record was not read", "the source had dropped it before it was read"},
	{history.GoneExited, "why a target has no sample", "the replica is dead"},
	{history.GoneNoMetrics, "why a target has no sample", "the replica has announced no metrics"},
	{history.GoneTimeout, "why a target has no sample", "it did not answer in time"},
	{history.GoneRefused, "why a target has no sample", "nobody listens there, or the connection broke"},
	{history.GoneUnreadable, "why a target has no sample", "its answer cannot be read as metrics"},
	{history.GoneStale, "why a target has no sample", "the Prometheus server has scraped nothing of it lately"},
	{string(ByToken), "how an effect is told its epoch", "the effect says the epoch's token"},
	{string(ByFence), "how an effect is told its epoch", "it has the fence of an epoch that is known"},
	{string(ByReplica), "how an effect is told its epoch", "its writer held the key, or had held it last"},
	{string(ByHolder), "how an effect is told its epoch", "who held the key then is taken for its writer"},
	{string(Pass), "verdict", "the promise was kept, and the evidence is enough to say so"},
	{string(Fail), "verdict", "the promise was surely broken"},
	{ClassCrash, "class of a takeover", "the victim died without a word"},
	{ClassPause, "class of a takeover", "the victim stood still, or its calls did not get through"},
	{ClassHandOver, "class of a takeover", "the victim gave its lock back before it ended"},
	{ClassRecovery, "class of a takeover", "the victim itself had the lock again"},
	{ClassTheft, "class of a takeover", "the key was taken from a holder that relied on it"},
	{ClassStore, "class of a takeover", "the store had failed"},
	{ClassFalse, "class of a takeover", "the holder was well, and another got the lock all the same"},
	{RestsOnKeys, "what a row rests on", "looks at the keys"},
	{RestsOnEffects, "what a row rests on", "looks at the keys, and the effects that were read"},
	{RestsOnBelief, "what a row rests on", "looks at the keys, and what the replicas say of whether they hold the lock"},
	{RestsOnSignals, "what a row rests on", "metrics, logs or alerts"},
	{Timely, "timing of an abandonment", "the work stopped before the end of the validity"},
	{Late, "timing of an abandonment", "the work ran past the end of its lease"},
	{Missed, "timing of an abandonment", "the lock was not given up, although that was due"},
	{Needed, "need of an abandonment", "the lock could not have been renewed"},
	{Needless, "need of an abandonment", "the lock was given up, although it could still have been renewed"},
	{Undetermined, "timing or need of an abandonment", "what was seen does not decide it"},
}

var parameter = regexp.MustCompile(`%\[\d+\]s`)

// general are the sentences without the values of a run.
func (s sentences) general() string {
	var all []string
	for _, text := range []string{s.why, s.next} {
		if text = parameter.ReplaceAllString(text, "…"); strings.Trim(text, "….") != "" {
			all = append(all, text)
		}
	}
	return Sentences(all...)
}
