package experiments

import (
	"cmp"
	"slices"
	"strings"
)

// gap is what keeps a measure from being answered: why, what to do about it ("": nothing that is known), and the lines of a file that
// would add the source that is missing ("": none would). The zero gap: something tells it.
type gap struct{ why, next, adds string }

// teller says what keeps a measure of a lock of an observed system from being answered.
type teller func(*Experiment, *Lock) gap

// told is a measure of an observed lock that something may tell.
type told struct {
	measure     string // as in a file
	loops, jobs bool   // for which locks it is named as one that can be asked instead
	lacks       teller
	from        string // what tells it, in the words of the documents
	by          string // the same in a word or two: keys, keys and effects, effects, keys and belief, belief, signals, probes
}

// tellers are the measures of an observed system that something may tell, in the order in which refusals name them. All others only the
// replicas could tell, by events that an observed system does not send. validate refuses by this table, and a judgement says by it what
// it does not know: nothing else says what can be asked of a system that is somebody's own.
func tellers() []told {
	return []told{
		{"takeover", true, true, always, "the keys, to the next grant; with effects, to the successor's first one", "keys"},
		{"rolling", false, false, always, "the keys, and a `rolling_restart`", "keys"}, // whoever restarts replicas in turn knows
		{"abandonments", true, true, bySignal, "a counter or a log line (`abandoned_by` of the lock)", "signals"},
		{"busy.count", true, true, bySignals("busy.count", "busy", "lock is taken"), "a counter or a log line of refused acquires (`told_by.busy` of the lock)", "signals"},
		{"not_owned.renew", true, true, bySignals("not_owned.renew", "not_owned_renew", "renewal: not yours"), "a counter or a log line of such answers (`told_by.not_owned_renew`); with `of`, as a share", "signals"},
		{"not_owned.release", true, true, bySignals("not_owned.release", "not_owned_release", "release: not yours"), "likewise (`told_by.not_owned_release`)", "signals"},
		{"failed_releases.calls", true, true, bySignals("failed_releases.calls", "failed_releases", "release failed"), "likewise (`told_by.failed_releases`)", "signals"},
		{"wait", false, true, byWaits, "two counters, seconds and waits (`told_by.wait`): its `max` alone", "signals"},
		{"duplicate_epochs", true, true, byTokens, "the keys, where tokens are told: `holder: log` or `map.token`", "keys"},
		{"vanished", true, true, byKeys, "the keys of a Redis or etcd; effects with `map.token`, or `belief` of the lock, make it sure", "keys"},
		{"held", true, true, byKeys, "the keys", "keys"},
		{"leaderless", true, false, always, "`belief` of the lock; without, the keys and the deaths of their holders", "keys"},
		{"overlap.lease", true, true, byKeys, "the keys: a grant before the end of the lease before it", "keys"},
		{"overlap.belief", true, true, byBelief, "`belief` of the lock: a metric, log lines, an endpoint or a command", "belief"},
		{"loss_to_fence", true, true, byBelief, "the keys, and `belief` of the lock", "keys and belief"},
		{"overlap.effect", true, true, byWriters, "the keys, and effects with `map.token` or `map.replica`", "keys and effects"},
		{"stale_writes", true, true, byWriters, "the same", "keys and effects"},
		{"unowned_work", true, true, byWriters, "the same: from the end of the lease to the last effect of the one who had it", "keys and effects"},
		{"lock_debt.max", false, true, byEffects, "the keys, and effects: from the end of the job to the free key", "keys and effects"},
		{"lock_debt.total", false, true, byEffects, "the same", "keys and effects"},
		{"tick_gap", true, false, byEffects, "effects", "effects"},
		{"stranded", false, true, byEffects, "effects", "effects"},
		{"duplicate_terminal_states", false, true, byEveryEnd, "effects of a source that keeps every one; `map.op` or `map.token` tells a retry from a second end", "effects"},
		{"re_executed", false, true, byEveryEnd, "the same", "effects"},
		{"metric", true, true, always, "`probes.metrics`: a scrape or a query", "probes"},
		{"logs", true, true, always, "`probes.logs`", "probes"},
	}
}

// gap is what keeps the measure of l from being answered: effects that come about under no lock tell of their jobs alone.
func (t *told) gap(e *Experiment, l *Lock) gap {
	switch t.measure {
	case "metric", "logs", "duplicate_terminal_states", "re_executed":
	case "stranded":
		if x := e.keyless(l.Name); l.Keyless() && x != nil && x.StrandedAfter == 0 {
			return gap{"nothing says from when on a job is late, as there is no lock", "say stranded_after: 5m in the effects " + x.Name,
				lines("system:", "  effects:", "    - {name: "+x.Name+", stranded_after: 5m}")}
		}
	default:
		if l.Keyless() && e.keyless(l.Name) != nil {
			return gap{why: "the effects " + l.Name + " come about under no lock, and it is a matter of one"}
		}
	}
	return t.lacks(e, l)
}

// Answered are measures of an observed lock that one kind of source tells; By "" = nothing tells them yet.
type Answered struct {
	By       string   `json:"by,omitempty"`
	Measures []string `json:"measures"`
}

// Answered is what tells which measures of l, in the order in which a file may ask for them; what nothing tells comes last.
func (e *Experiment) Answered(l *Lock) (all []Answered) {
	add := func(by, measure string) {
		at := slices.IndexFunc(all, func(t Answered) bool { return t.By == by })
		if at < 0 {
			at, all = len(all), append(all, Answered{By: by})
		}
		all[at].Measures = append(all[at].Measures, measure)
	}
	var untold []string
	for _, t := range tellers() {
		by := t.by
		switch {
		case l.Loop() && !t.loops || !l.Loop() && !t.jobs || by == "probes":
			continue
		case e.untold(l.Name, t.measure).why != "":
			untold = append(untold, t.measure)
			continue
		case t.measure == "takeover" && e.EffectsOf(l.Name) != nil:
			by = "keys and effects"
		case t.measure == "leaderless" && l.Belief != nil:
			by = "belief"
		}
		add(by, t.measure)
	}
	for _, measure := range untold {
		add("", measure)
	}
	return all
}

// lines of a file.
func lines(all ...string) string { return strings.Join(all, "\n") }

// logged are lines below system that need the replicas' logs, and what stands before it; "" = nothing.
func (e *Experiment) logged(before, below string) string {
	all := []string{"system:"}
	if p := e.System.Processes; p != nil && p.Log == "" {
		all = append(all, "  processes: {log: '/var/log/{"+p.Known()[0]+"}.log'}")
	}
	all = append(all, "  "+below)
	switch {
	case before != "" && len(all) > 2:
		all = []string{before, "system: {" + strings.TrimSpace(all[1]) + ", " + below + "}"}
	case before != "":
		all = append([]string{before}, all...)
	}
	return lines(all...)
}

const saysNothing = "an observed system does not tell lockdrill when it works, asks and gives up"

// Untold is why nothing tells the measure of a lock, whatever a drill shows, and what would; "" where something may. measure is its name
// in a file, such as lock_debt; of overlap with its level, overlap.effect. A part that is told as its measure is, such as total of lock_debt,
// may stand behind it.
func (e *Experiment) Untold(lock, measure string) (why, next string) {
	g := e.untold(lock, measure)
	return g.why, g.next
}

func (e *Experiment) untold(lock, measure string) gap {
	l := e.Lock(lock)
	if l == nil { // that its name is wrong is said elsewhere
		l = &Lock{Name: lock}
	}
	g := e.unleased(l, measure)
	if !e.Observed() {
		if g.why != "" {
			g.next = cmp.Or(g.next, "loss_to_fence can")
		}
		return g
	}
	if g.why == "" {
		all := tellers()
		at := slices.IndexFunc(all, func(t told) bool { return t.measure == measure || strings.HasPrefix(measure, t.measure+".") })
		if g.why = saysNothing; at >= 0 {
			g = all[at].gap(e, l)
			if l.Loop() && !all[at].loops || !l.Loop() && !all[at].jobs { // it is of the others, whatever is read
				g.adds = ""
			}
		}
	}
	if g.why != "" && g.next == "" {
		g.next = e.canTell(l)
	}
	return g
}

// unleased is why a lock cannot end before its lease does, or be granted before that, where the measure asks for that: it has no lease, or it
// is an object that stays.
func (e *Experiment) unleased(l *Lock, measure string) gap {
	switch {
	case measure != "vanished" && measure != "overlap.lease":
	case measure == "overlap.lease" && !e.Observed():
		return gap{why: "what leases the keys show is asked of a system of somebody's own", next: "of replicas that tell of it, say level: belief"}
	case !e.Leases():
		return gap{why: "a lock of this store is its holder's for as long as the session lasts, and has no lease to end before"}
	case e.OnLease(l):
		return gap{why: "a Lease object stays when its lease is over, and goes on naming its last holder"}
	}
	return gap{}
}

// canTell names the measures that something tells of an observed lock.
func (e *Experiment) canTell(l *Lock) string {
	if e.Lock(l.Name) == nil {
		return "takeover, metric and logs can"
	}
	var can []string
	for _, t := range tellers() {
		if l.Loop() && !t.loops || !l.Loop() && !t.jobs || e.unleased(l, t.measure).why != "" {
			continue
		}
		if t.gap(e, l).why == "" {
			can = append(can, t.measure)
		}
	}
	return strings.Join(can[:len(can)-1], ", ") + " and " + can[len(can)-1] + " can"
}

// Rests says what the answer to a measure rests on: that a fault is fired, since it is counted from there, and that a fault strikes a
// replica or the locks' store. A drill without a fault is a watch, in which what needs no fault is answered of the whole of it.
func Rests(measure string) (onFault, onVictim bool) {
	switch measure {
	case "takeover", "rolling", "alert":
		return true, measure != "alert"
	case "abandonment", "vanished", "held", "wait", "leaderless":
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
		return "what " + e.Faults[0].ID + " strikes is not known, so no fault is known to strike a holder", "say holder_of or replica in it"
	}
	return "", ""
}

func always(*Experiment, *Lock) gap { return gap{} }

func bySignal(e *Experiment, l *Lock) gap {
	if l.AbandonedBy != nil {
		return gap{}
	}
	return gap{saysNothing, "say in the lock which counter or log line tells what it gives up: abandoned_by: {metric: NAME} or {log: PATTERN}",
		e.logged("probes: {logs: {patterns: {gave_up: 'lock lost'}}}", "locks: [{name: "+l.Name+", abandoned_by: {log: gave_up}}]")}
}

// byKeys is of what looks at keys tell: a Lease object is none, and goes on naming its last holder when the lease is over.
func byKeys(e *Experiment, l *Lock) gap {
	if l.Lease != "" {
		return gap{why: saysNothing}
	}
	return gap{}
}

// byTokens is of what the tokens in keys tell: a value that is a name comes back by right.
func byTokens(e *Experiment, l *Lock) gap {
	switch {
	case l.Lease != "":
		return gap{why: saysNothing}
	case e.FreshTokens(l.Name):
		return gap{}
	}
	return gap{"nothing says that the values of its keys are tokens, new for each grant; a name comes back by right",
		"say where the tokens are told: in a log (system.holder, log), or in the effects (map.token)", e.logged("", `holder: [log: {pattern: 'acquired (?P<key>\S+) by (?P<token>\S+)'}]`)}
}

// byBelief is of what replicas say of themselves.
func byBelief(e *Experiment, l *Lock) gap {
	const why, next = "nobody says whether a replica believes that it holds the lock", "say what tells it: belief of the lock"
	p := e.System.Processes
	add := func(source string) gap {
		below := "locks: [{name: " + l.Name + ", belief: {" + source + "}}]"
		if strings.HasPrefix(source, "log:") {
			return gap{why, next, e.logged("", below)}
		}
		return gap{why, next, lines("system:", "  "+below)}
	}
	switch {
	case l.Belief != nil:
		return gap{}
	case !l.Loop() && p == nil:
		return gap{why: why}
	case !l.Loop():
		return add(`log: {gain: 'acquired key=(?P<key>\S+)', lose: 'lost key=(?P<key>\S+)'}`)
	case p == nil:
		return add(`metric: {url: "http://{ip}:9100/metrics", series: is_leader}`)
	case p.Metrics != "":
		return add("metric: {series: is_leader}")
	}
	return add("log: {gain: 'became leader', lose: 'leads no more'}")
}

func byEffects(e *Experiment, l *Lock) gap {
	if e.EffectsOf(l.Name) != nil {
		return gap{}
	}
	return gap{"nobody says where effects under lock " + l.Name + " are read (system.effects)", "", effectsUnder(l, "")}
}

// effectsUnder are the lines that add effects; more is what of them beside the job and its state.
func effectsUnder(l *Lock, more string) string {
	if l.Loop() {
		if more = strings.TrimPrefix(more, ", "); more != "" {
			more = ", map: {" + more + "}"
		}
		return lines("system:", "  effects:", "    - {name: "+l.Name+"-ticks, lock: "+l.Name+", stream: ticks"+more+"}")
	}
	return lines("system:", "  effects:", "    - {name: "+l.Name+"-ends, lock: "+l.Name+", stream: ends, map: {job: id, state: state, terminal: [DONE]"+more+"}}")
}

// byWriters is of what effects tell that say who wrote them, each for itself.
func byWriters(e *Experiment, l *Lock) gap {
	g := byEffects(e, l)
	if g.why != "" {
		g.adds = effectsUnder(l, ", replica: worker")
		return g
	}
	switch x := e.EffectsOf(l.Name); {
	case x.LastOnly():
		return gap{why: "the " + x.Source() + " keeps the last state alone, so a write that came too late may be gone", next: "a stream, a table or a log that is appended to tells"}
	case x.Map.Token == "" && x.Map.Replica == "":
		return gap{"the effects under lock " + l.Name + " do not say who wrote them", "say which field does: map.token (the lock's value) or map.replica",
			lines("system:", "  effects:", "    - {name: "+x.Name+", map: {replica: worker}}")}
	}
	return gap{}
}

func byEveryEnd(e *Experiment, l *Lock) gap {
	if g := byEffects(e, l); g.why != "" {
		return g
	}
	if x := e.EffectsOf(l.Name); x.LastOnly() {
		return gap{why: "the " + x.Source() + " keeps the last state of a job alone, so a second end looks like the first", next: "a stream, a table or a log that is appended to tells"}
	}
	return gap{}
}
