package reports

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Faults in words: whom they strike, what they do, what was measured of them.

// targets are whom a fault strikes: "r1.1", "r1 r2 r3" (ways belong to names), "the locks' store", and "nobody" where a shot at a replica
// found none.
func targets(kind, via, victim string, victims []string) string {
	switch {
	case victim == history.VictimStore, victim == "" && len(victims) == 0 && (kind == experiments.KindStore || kind == experiments.KindDeleteKey):
		return "the locks' store"
	case victim == "" && len(victims) == 0:
		return "nobody"
	case len(victims) == 0:
		victims = []string{victim}
	}
	var names []string
	for _, v := range victims {
		if onTheWay(kind) || via == experiments.ViaProxy {
			v = history.ReplicaOf(v)
		}
		names = append(names, v)
	}
	return strings.Join(names, " ")
}

// onTheWay reports a fault of the network between replicas and the locks' store.
func onTheWay(kind string) bool {
	switch kind {
	case experiments.KindLatency, experiments.KindJitter, experiments.KindBandwidth, experiments.KindBlackHole, experiments.KindReset,
		experiments.KindSlowClose, experiments.KindDown:
		return true
	}
	return false
}

// operations are what a burst makes fail; "" for any other fault.
func operations(kind string) string {
	return map[string]string{
		experiments.KindRenewFailures: "renewals", experiments.KindAcquireFailures: "acquires", experiments.KindReleaseFailures: "releases",
	}[kind]
}

// action is what a fault does, in the words of a story; victim carries its pid, held is " holding KEY" or "".
func action(e *history.Event, declared *experiments.Fault, victim, held string) string {
	f := e.Fault
	lasts := ""
	if f.Declared > 0 {
		lasts = " for " + figures.Short(f.Declared)
	}
	if held != "" && lasts != "" {
		lasts = "," + lasts
	}
	switch {
	case f.Kind == experiments.KindKill && f.Form == experiments.FormGraceful:
		return "deleted the pod of " + victim + held + ", with its own grace"
	case f.Kind == experiments.KindKill && f.Form == experiments.FormForceDelete:
		return "deleted the pod of " + victim + held + ", with grace 0"
	case f.Kind == experiments.KindKill:
		return "SIGKILL " + victim + held
	case f.Kind == experiments.KindPause:
		return "SIGSTOP " + victim + held + lasts
	case operations(f.Kind) != "":
		return burst(f, victim, held)
	case f.Kind == experiments.KindStore:
		return storeAction(f, declared, lasts)
	case f.Kind == experiments.KindDeleteKey && f.Form == "stranger":
		return fmt.Sprintf("gave %s of %s to a stranger for %s", e.Key, victim, figures.Short(f.Declared))
	case f.Kind == experiments.KindDeleteKey:
		return fmt.Sprintf("deleted %s of %s", e.Key, victim)
	case f.Kind == experiments.KindClock:
		return fmt.Sprintf("wall clock of %s off by %s%s", victim, cmp.Or(f.Configured, "an offset"), lasts)
	case onTheWay(f.Kind):
		return words(f.Kind, f.Configured) + " between " + victim + held + " and the store" + strings.TrimPrefix(lasts, ",")
	}
	return f.Kind + " on " + victim + held + lasts
}

func words(kind, configured string) string {
	return strings.TrimSpace(strings.ReplaceAll(kind, "_", " ") + " " + configured)
}

func burst(f *history.Fault, victim, held string) string {
	bound := "for " + figures.Short(f.Declared)
	if f.Want > 0 {
		bound = figures.Plural(f.Want, strings.TrimSuffix(operations(f.Kind), "s"))
	}
	how := words(f.Form, f.Configured)
	where := " in "
	if f.Via == experiments.ViaProxy {
		where = " on the way of "
	}
	return fmt.Sprintf("%s fail (%s, %s)%s%s%s", operations(f.Kind), how, bound, where, victim, held)
}

func storeAction(f *history.Fault, declared *experiments.Fault, lasts string) string {
	data := ", data lost"
	if declared != nil && declared.Store != nil && declared.Store.Keep {
		data = ", data kept"
	}
	switch experiments.StoreDo(f.Form) {
	case experiments.StorePause:
		return "store answers no write (CLIENT PAUSE)" + lasts
	case experiments.StoreFreeze:
		return "SIGSTOP of the store's server" + lasts
	case experiments.StoreRestart:
		return "store killed and started again" + data
	case experiments.StoreStop:
		return "store killed" + lasts + data
	case experiments.StoreFlush:
		return "store emptied of the run's keys"
	case experiments.StoreFailover:
		lag := ""
		if f.Configured != "" {
			lag = " (" + f.Configured + ")"
		}
		return "store failed over to its replica" + lag + ": what was not replicated is forgotten"
	}
	return words("store "+f.Form, f.Configured) + lasts
}

// felt is what was measured of a fault, in seconds; "" where nothing was.
type felt struct {
	kind, form, via              string
	baseline, expected, observed float64
	hits, want                   int64
}

func feltOf(f *history.Fault) felt {
	s := func(ns int64) float64 { return float64(ns) / 1e9 }
	return felt{f.Kind, f.Form, f.Via, s(f.Baseline), s(f.Expected), s(f.Observed), f.Hits, f.Want}
}

func feltIn(f verdict.FaultResult) felt {
	v := func(p *float64) float64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return felt{f.Kind, f.Form, f.Via, v(f.Baseline), v(f.Expected), v(f.Observed), f.Hits, f.Want}
}

func (f felt) String() string {
	switch {
	case operations(f.kind) != "":
		return f.hit()
	case onTheWay(f.kind):
		return f.way()
	case f.observed == 0:
		return ""
	}
	what := "took"
	switch do := experiments.StoreDo(f.form); {
	case f.kind == experiments.KindPause, f.kind == experiments.KindStore && do == experiments.StoreFreeze:
		what = "stood still for"
	case f.kind == experiments.KindClock:
		what = "off by"
	case f.kind == experiments.KindStore && do == experiments.StorePause:
		what = "a write was kept waiting for"
	case f.kind == experiments.KindStore:
		what = "nobody answered for"
	}
	text := what + " " + roughly(f.observed)
	if f.expected != 0 {
		text += ", " + roughly(f.expected) + " expected"
	}
	return text
}

// hit is how many operations a burst hit, and where they were counted.
func (f felt) hit() string {
	of, where := "", ""
	if f.want > 0 {
		of = " of " + figures.Count(f.want)
	}
	switch f.via {
	case experiments.ViaProxy:
		where = ", counted on the way to the store"
	case experiments.ViaWorker:
		where = ", counted in the replica"
	}
	return fmt.Sprintf("hit %s%s %s%s", figures.Count(f.hits), of, operations(f.kind), where)
}

// way is what a connection of our own saw on the way.
func (f felt) way() string {
	if f.baseline == 0 && f.observed == 0 && f.expected == 0 {
		return ""
	}
	what := map[string]string{experiments.KindBandwidth: "an echo of some data took", experiments.KindSlowClose: "closing took",
		experiments.KindJitter: "the slowest round trip was"}[f.kind]
	expected, observed := "at least "+roughly(f.expected)+" expected", roughly(f.observed)+" observed"
	if f.expected == 0 {
		expected = "no answer expected"
	}
	if f.observed == 0 {
		observed = "no answer observed"
	}
	return fmt.Sprintf("%s %s before, %s, %s", cmp.Or(what, "round trip"), roughly(f.baseline), expected, observed)
}
