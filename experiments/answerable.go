package experiments

import (
	"slices"
	"strings"
)

// teller says why nothing tells a measure of a lock of an observed system, and what would ("": nothing); both are "" where something does.
type teller func(*Experiment, *Lock) (why, next string)

// told is a measure of an observed lock that something may tell.
type told struct {
	measure     string // as in a file
	loops, jobs bool   // for which locks it is named as one that can be asked instead
	lacks       teller
	from        string // what tells it, in the words of the documents
}

// tellers are the measures of an observed system that something may tell, in the order in which refusals name them. All others only the
// replicas could tell, by events that an observed system does not send. validate refuses by this table, and a judgement says by it what
// it does not know: nothing else says what can be asked of a system that is somebody's own.
func tellers() []told {
	return []told{
		{"takeover", true, true, always, "the keys, to the next grant; with effects, to the successor's first one"},
		{"rolling", false, false, always, "the keys, and a `rolling_restart`"}, // whoever restarts replicas in turn knows
		{"abandonments", true, true, bySignal, "a counter or a log line (`abandoned_by` of the lock)"},
		{"busy.count", true, true, bySignals("busy.count", "busy", "{log: PATTERN}"), "a counter or a log line of refused acquires (`told_by.busy` of the lock)"},
		{"not_owned.renew", true, true, bySignals("not_owned.renew", "not_owned_renew", "{log: PATTERN}"), "a counter or a log line of such answers (`told_by.not_owned_renew`); with `of`, as a share"},
		{"not_owned.release", true, true, bySignals("not_owned.release", "not_owned_release", "{log: PATTERN}"), "likewise (`told_by.not_owned_release`)"},
		{"failed_releases.calls", true, true, bySignals("failed_releases.calls", "failed_releases", "{log: PATTERN}"), "likewise (`told_by.failed_releases`)"},
		{"wait", false, true, bySignals("wait", "wait", "{metric: SECONDS, of: {metric: WAITS}}"), "two counters, seconds and waits (`told_by.wait`): its `max` alone"},
		{"duplicate_epochs", true, true, byTokens, "the keys, where tokens are told: `holder: log` or `map.token`"},
		{"vanished", true, true, byKeys, "the keys of a Redis or etcd; effects with `map.token` make it sure"},
		{"held", true, true, byKeys, "the keys"},
		{"overlap.effect", true, true, byWriters, "the keys, and effects with `map.token` or `map.replica`"},
		{"stale_writes", true, true, byWriters, "the same"},
		{"lock_debt.max", false, true, byEffects, "the keys, and effects: from the end of the job to the free key"},
		{"lock_debt.total", false, true, byEffects, "the same"},
		{"tick_gap", true, false, byEffects, "effects"},
		{"stranded", false, true, byEffects, "effects"},
		{"duplicate_terminal_states", false, true, byEveryEnd, "effects of a source that keeps every one; `map.op` or `map.token` tells a retry from a second end"},
		{"re_executed", false, true, byEveryEnd, "the same"},
		{"metric", true, true, always, "`probes.metrics`: a scrape or a query"},
		{"logs", true, true, always, "`probes.logs`"},
	}
}

// lack is why nothing tells the measure of l: effects that come about under no lock tell of their jobs alone.
func (t *told) lack(e *Experiment, l *Lock) (why, next string) {
	switch t.measure {
	case "metric", "logs", "duplicate_terminal_states", "re_executed":
	case "stranded":
		if x := e.keyless(l.Name); l.Keyless() && x != nil && x.StrandedAfter == 0 {
			return "nothing says from when on a job is late, as there is no lock", "say stranded_after: 5m in the effects " + x.Name
		}
	default:
		if l.Keyless() && e.keyless(l.Name) != nil {
			return "the effects " + l.Name + " come about under no lock, and it is a matter of one", ""
		}
	}
	return t.lacks(e, l)
}

const saysNothing = "an observed system does not tell lockdrill when it works, asks and gives up"

// Untold is why nothing tells the measure of a lock, whatever a drill shows, and what would; "" where something may. measure is its name
// in a file, such as lock_debt; of overlap with its level, overlap.effect. A part that is told as its measure is, such as total of lock_debt,
// may stand behind it.
func (e *Experiment) Untold(lock, measure string) (why, next string) {
	if !e.Observed() {
		return e.unleased(lock, measure)
	}
	all := tellers()
	at := slices.IndexFunc(all, func(t told) bool { return t.measure == measure || strings.HasPrefix(measure, t.measure+".") })
	if at < 0 {
		return saysNothing, e.canTell(lock)
	}
	l := e.Lock(lock)
	if l == nil { // that its name is wrong is said elsewhere
		l = &Lock{Name: lock}
	}
	if why, _ = e.unleased(lock, measure); why != "" {
		return why, e.canTell(lock)
	}
	if why, next = all[at].lack(e, l); why != "" && next == "" {
		next = e.canTell(lock)
	}
	return why, next
}

// unleased is why a lock cannot end before its lease does, where the measure asks for that: it has no lease, or it is an object that stays.
func (e *Experiment) unleased(lock, measure string) (why, next string) {
	l := e.Lock(lock)
	switch {
	case measure != "vanished":
		return "", ""
	case !e.Leases():
		return "a lock of this store is its holder's for as long as the session lasts, and has no lease to end before", "loss_to_fence can"
	case l != nil && e.OnLease(l):
		return "a Lease object stays when its lease is over, and goes on naming its last holder", "loss_to_fence can"
	}
	return "", ""
}

// canTell names the measures that something tells of an observed lock.
func (e *Experiment) canTell(lock string) string {
	l := e.Lock(lock)
	if l == nil {
		return "takeover, metric and logs can"
	}
	var can []string
	for _, t := range tellers() {
		if l.Loop() && !t.loops || !l.Loop() && !t.jobs {
			continue
		}
		if why, _ := t.lack(e, l); why == "" {
			can = append(can, t.measure)
		}
	}
	return strings.Join(can[:len(can)-1], ", ") + " and " + can[len(can)-1] + " can"
}

// Rests says what the answer to a measure rests on: that a fault is fired, since it is counted from there, and that a fault strikes a
// replica or the locks' store. A drill without a fault is a watch, in which what needs no fault is answered of the whole of it.
func Rests(measure string) (onFault, onVictim bool) {
	switch measure {
	case "takeover", "tick_gap", "rolling", "alert":
		return true, measure != "alert"
	case "abandonment", "vanished", "held", "wait":
		return false, false
	}
	return false, true
}

// unstruck says why no fault of the file can bring an answer to the measure about, and what would; "" where one may.
func (e *Experiment) unstruck(measure string) (why, next string) {
	onFault, onVictim := Rests(measure)
	switch {
	case len(e.Faults) == 0 && onFault:
		return "it is counted from a fault, and the file has none", "add a fault, or leave the row out"
	case len(e.Faults) > 0 && onVictim && !slices.ContainsFunc(e.Faults, func(f Fault) bool { return !f.Traits().Elsewhere }):
		return "what the commands of " + e.Faults[0].ID + " strike is not known, so no fault is known to strike a holder", "say holder_of or replica in the hook"
	}
	return "", ""
}

func always(*Experiment, *Lock) (why, next string) { return "", "" }

func bySignal(_ *Experiment, l *Lock) (why, next string) {
	if l.AbandonedBy != nil {
		return "", ""
	}
	return saysNothing, "say in the lock which counter or log line tells what it gives up: abandoned_by: {metric: NAME} or {log: PATTERN}"
}

// byKeys is of what looks at keys tell: a Lease object is none, and goes on naming its last holder when the lease is over.
func byKeys(e *Experiment, l *Lock) (why, next string) {
	if l.Lease != "" {
		return saysNothing, ""
	}
	return "", ""
}

// byTokens is of what the tokens in keys tell: a value that is a name comes back by right.
func byTokens(e *Experiment, l *Lock) (why, next string) {
	switch {
	case l.Lease != "":
		return saysNothing, ""
	case !e.FreshTokens(l.Name):
		return "nothing says that the values of its keys are tokens, new for each grant; a name comes back by right",
			"say where the tokens are told: in a log (system.holder, log), or in the effects (map.token)"
	}
	return "", ""
}

func byEffects(e *Experiment, l *Lock) (why, next string) {
	if e.EffectsOf(l.Name) != nil {
		return "", ""
	}
	return "nobody says where effects under lock " + l.Name + " are read (system.effects)", ""
}

// byWriters is of what effects tell that say who wrote them, each for itself.
func byWriters(e *Experiment, l *Lock) (why, next string) {
	if why, next = byEffects(e, l); why != "" {
		return why, next
	}
	switch x := e.EffectsOf(l.Name); {
	case x.LastOnly():
		return "the " + x.Source() + " keeps the last state alone, so a write that came too late may be gone", "a stream, a table or a log that is appended to tells"
	case x.Map.Token == "" && x.Map.Replica == "":
		return "the effects under lock " + l.Name + " do not say who wrote them", "say which field does: map.token (the lock's value) or map.replica"
	}
	return "", ""
}

func byEveryEnd(e *Experiment, l *Lock) (why, next string) {
	if why, next = byEffects(e, l); why != "" {
		return why, next
	}
	if x := e.EffectsOf(l.Name); x.LastOnly() {
		return "the " + x.Source() + " keeps the last state of a job alone, so a second end looks like the first", "a stream, a table or a log that is appended to tells"
	}
	return "", ""
}
