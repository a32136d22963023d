package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// What of an experiment does not change what is measured: its words, its promises, its guards, and how closely it was watched, which
// the ranges carry. Everything else does.
func indifferent(path string) bool {
	if strings.HasPrefix(path, "system.locks.") && strings.HasSuffix(path, ".profile") { // its values stand beside it
		return true
	}
	for _, p := range []string{"name", "description", "seed", "slos", "allow_overlap", "abort_when", "limits", "windows", "blackouts", "blocked_by", "probes.lock_keys", "probes.ledger",
		"redis.username_env", "redis.password_env", "redis.ca", "redis.allow", "proxy.url",
		"ledger.username_env", "ledger.password_env", "ledger.ca", "kubernetes.context", "probes.leases", "probes.logs"} {
		if path == p || strings.HasPrefix(path, p+".") {
			return true
		}
	}
	return false
}

// environmentOf is what a run stood on and what was done to it: two runs that differ in it do not answer the same question.
func environmentOf[F facts[F]](facts F, rehearsal bool) []experiments.Setting {
	env := []experiments.Setting{
		{Path: "mode", Value: string(map[bool]history.Mode{true: history.Rehearsal, false: history.Live}[rehearsal])},
		{Path: "experiment", Value: facts.Header().Experiment},
		{Path: "tool", Value: facts.Header().Tool},
	}
	if on := facts.Environment(); on != nil {
		env = append(env, []experiments.Setting{
			{Path: "os", Value: on.OS}, {Path: "cpus", Value: fmt.Sprint(on.CPUs)}, {Path: "fleet", Value: on.Fleet},
			{Path: "store.kind", Value: on.Store.Kind}, {Path: "store.version", Value: on.Store.Version},
			{Path: "ledger.kind", Value: on.Ledger.Kind}, {Path: "ledger.version", Value: on.Ledger.Version},
			{Path: "proxy", Value: on.Proxy},
		}...)
		if on.Cluster != "" {
			env = append(env, experiments.Setting{Path: "cluster", Value: on.Cluster})
		}
	}
	for _, s := range experiments.Settings(facts.Experiment()) {
		if !indifferent(s.Path) {
			env = append(env, s)
		}
	}
	return env
}

// differencesAmong lists every setting in which a run of the base or head differs from the base's first. allow names settings that may
// differ, each with all below it; "all" is everything. A rehearsal and a live run are never let pass for one another.
func differencesAmong(base, head []*Observed, allow []string) []Difference {
	var all []Difference
	first := base[0]
	for _, side := range []struct {
		runs []*Observed
		own  bool
	}{{head, false}, {base, true}} {
		for _, o := range side.runs {
			for _, d := range differ(first.Environment, o.Environment) {
				d.Allowed = d.Field != "mode" && slices.ContainsFunc(allow, func(a string) bool {
					return a == "all" || d.Field == a || strings.HasPrefix(d.Field, a+".")
				})
				d.InBase = side.own
				d.Run = o.Run.ID
				if !slices.ContainsFunc(all, func(x Difference) bool { // said once for all runs that share it
					return x.Field == d.Field && x.Base == d.Base && x.Head == d.Head && x.InBase == d.InBase
				}) {
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// orNone is a setting's value in words.
func orNone(value string) string { return cmp.Or(value, "(not set)") }

// differ lists where b is not as a, in the order of a; what only b has comes last.
func differ(a, b []experiments.Setting) []Difference {
	values := func(of []experiments.Setting) map[string]string {
		m := map[string]string{}
		for _, s := range of {
			m[s.Path] = s.Value
		}
		return m
	}
	inA, inB := values(a), values(b)
	var ds []Difference
	for _, s := range a {
		if v, ok := inB[s.Path]; !ok || v != s.Value {
			ds = append(ds, Difference{Field: s.Path, Base: orNone(s.Value), Head: orNone(v)})
		}
	}
	for _, s := range b {
		if _, ok := inA[s.Path]; !ok {
			ds = append(ds, Difference{Field: s.Path, Base: orNone(""), Head: orNone(s.Value)})
		}
	}
	return ds
}
