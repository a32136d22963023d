package verdict

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
