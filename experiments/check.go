package experiments

import (
	"cmp"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// checker finds what is wrong with values that are right one by one. It names values by their path in the file.
type checker struct {
	*vocab.File
	e     *Experiment
	sheet *sheet // the policy sheet, where the file names one
}

// ask answers what rules ask of the file as a whole, and which names there are.
func (c *checker) ask() {
	if c.sure("system.mode") {
		c.Facts = map[string]bool{"observed": c.e.Observed(), "embedded": !c.e.Observed()}
	}
	c.Refs = func(list string) (names []string, known bool) {
		switch list {
		case "lock":
			return c.lockNames()
		case "fault":
			ids := c.faultIDs()
			return ids, len(ids) > 0 && !lost(ids)
		case "metric":
			return c.metricNames(false)
		case "counter":
			return c.metricNames(!c.Stored)
		case "pattern":
			return c.patternNames(), c.sure("probes.logs.preset")
		case "processes", "replicas":
			p := c.e.System.Processes
			return c.e.replicaWords(), (p != nil || list == "replicas") && (p == nil || NoPattern(p.Match, "") == "") && c.sure("system.processes")
		}
		return nil, false
	}
}

// bases decide what a file is about: where one cannot be used, each value is right or wrong by itself alone.
var bases = []string{"system.mode", "redis.mode", "store.kind", "time_scale", "limits.max_run"}

// sure reports that all that stands at some places could be used: what is said of others may rest on it.
func (c *checker) sure(places ...string) bool { return !slices.ContainsFunc(places, c.Invalid) }

// entries are those of a list, each with its path in the file.
func entries[T any](path string, list []T) iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for i := range list {
			if !yield(vocab.At(path, i), &list[i]) {
				return
			}
		}
	}
}

func (c *checker) all() {
	c.ask()
	known := c.sure(bases...)
	if known {
		c.redis()
		c.store()
		c.ledger()
		c.proxy()
		c.pods()
		c.observed()
		c.calendar()
		c.locks()
	}
	c.sheet.withdraw(c.e)
	if c.CheckRules("", c.e); !known {
		return
	}
	for path, l := range entries("system.locks", c.e.System.Locks) { // the lock core has the last word; what is found before is said at its line
		if err := l.Policy.Validate(); err != nil && c.Problems() == 0 {
			c.Check(path, "%v", err)
		}
	}
	c.work()
	c.holders()
	for path, l := range entries("system.locks", c.e.System.Locks) {
		c.belief(path, l)
		c.toldSignals(path, l.ToldBy)
	}
	c.effects()
	c.faults()
	c.overlaps(c.order())
	c.caps()
	c.timing()
	c.metrics()
	c.logs()
	if a := c.e.Probes.Alerts; a != nil {
		a.check(c.File, "probes.alerts", a.URL)
	}
	for path, s := range entries("slos", c.e.SLOs) {
		c.slo(path, s)
		c.Refuse(s.Fault != "" && s.Alert == nil, path+".fault", "a promise is of the whole run: what one fault brings about belongs under expect")
	}
	for path, x := range entries("expect", c.e.Expect) {
		c.expectation(path, x)
	}
	c.together()
}

func (c *checker) locks() {
	names, keys := map[string]int{}, map[string]string{}
	for i := range c.e.System.Locks {
		l, path := &c.e.System.Locks[i], vocab.At("system.locks", i)
		if first, twice := names[l.Name]; c.Refuse(twice && l.Name != "", path+".name", "a second lock called %q: the first is system.locks[%d]", l.Name, first) {
			continue
		}
		names[l.Name] = i
		if c.Invalid(path) {
			continue
		}
		c.key(path, l)
		key := cmp.Or(l.Key, l.Pattern())
		other, twice := keys[key]
		c.Refuse(twice, path, "has the same key %q as lock %s: they would shut each other out", key, other)
		keys[key] = l.Name
		c.policy(path, l)
		c.Refuse(!l.Loop() && !c.e.Observed() && !c.served(l.Name), path, "lock %s is taken per job, and system.work has no jobs for it", l.Name)
	}
}

// tag is what decides about a key's slot in a cluster. It may be that of each job: a pattern has it around its star.
var tag = regexp.MustCompile(`\{[^{}]+\}`)

// key refuses what is no key of a Redis, or no pattern of keys.
func (c *checker) key(path string, l *Lock) {
	for _, part := range [][2]string{{"key", l.Key}, {"key_prefix", l.KeyPrefix}, {"key_suffix", l.KeySuffix}} {
		if name, text := part[0], part[1]; c.Refuse(strings.ContainsFunc(text, inNoKey), c.keyField(path, name), "%q is no part of a lock's key: no spaces or stars, no control characters", text) {
			return
		}
	}
	whole, name := l.Key, "key"
	if !l.Loop() {
		whole, name = l.Pattern(), "key_prefix"
	}
	c.Refuse(strings.ContainsAny(tag.ReplaceAllString(whole, ""), "{}"), c.keyField(path, name), "%q has a brace that is of no hash tag: braces stand around a text, as in {orders}:lock", whole)
}

// keyField is where a part of a lock's keys stands.
func (c *checker) keyField(path, name string) string {
	for _, other := range []string{name, "key_pattern", "key_suffix"} {
		if c.Node(path+"."+other) != nil {
			return path + "." + other
		}
	}
	return path + "." + name
}

// placeOf is where the value at path stands.
func placeOf(f *vocab.File, path string) Place {
	n := f.Place(path)
	return Place{File: f.Name, Line: n.Line, Column: n.Column}
}

func inNoKey(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == '*'
}

func (c *checker) work() {
	for i := range c.e.System.Work {
		if c.e.Observed() { // which is said
			return
		}
		w, path := &c.e.System.Work[i], vocab.At("system.work", i)
		l := c.e.Lock(w.Lock)
		c.Refuse(l != nil && l.Loop(), path+".lock", "%s is a leader loop: its work is its ticks, it takes no jobs", w.Lock)
		c.hold(path+".hold", &w.Hold)
		c.classes(path+".classes", w.Classes)
	}
}

func (c *checker) hold(path string, h *Hold) {
	if h != nil {
		c.Refuse(h.P99 < h.P50, path, "p99 %s is under p50 %s", figures.Spell(h.P99), figures.Spell(h.P50))
	}
}

// classes checks the classes of a stream's jobs.
func (c *checker) classes(path string, classes []JobClass) {
	shares, sum := 0, 0.0
	for j := range classes {
		class := &classes[j]
		c.hold(vocab.At(path, j)+".hold", class.Hold)
		if sum += class.Share; class.Share > 0 {
			shares++
		}
	}
	_ = shares == 0 || c.Invalid(path) ||
		c.Refuse(shares < len(classes), path, "%d of %d classes have a share: give each of them one, or none of them", shares, len(classes)) ||
		c.Refuse(math.Abs(sum-1) > 1e-6, path, "the shares come to %g: together they are 1", math.Round(sum*1e6)/1e6)
}

// served reports whether a lock has jobs, or may have them but for a stream that names no lock, or for a list that is none.
func (c *checker) served(name string) bool {
	return c.Node("system.work") != nil && len(c.e.System.Work) == 0 || slices.ContainsFunc(c.e.System.Work, func(w Work) bool {
		return w.Lock == name || c.e.Lock(w.Lock) == nil
	})
}

// lockNames are the names of the locks; not known where one may have been lost to another problem.
func (c *checker) lockNames() (names []string, known bool) {
	for _, l := range c.e.System.Locks {
		names = append(names, l.Name)
	}
	gone := lost(names) || c.Invalid("system.effects") || c.e.System.PolicySheet.File != "" || c.Invalid("system.policy_sheet") // a sheet that is not right
	alone := slices.ContainsFunc(c.e.System.Effects, func(x Effects) bool { return x.Lock == "" })                              // and no lock is needed
	return names, (len(names) > 0 || alone && c.Node("system.locks") == nil) && !gone
}

// lost reports that one of some names may have been another one: it did not decode, or it is there twice.
func lost(names []string) bool {
	return slices.Contains(names, "") || len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names)
}

// lock finds a lock by name, or says at path that there is none.
func (c *checker) lock(path, name string) *Lock {
	l := c.e.Lock(name)
	if names, known := c.lockNames(); l == nil && known {
		for i := range c.e.System.Effects {
			if x := &c.e.System.Effects[i]; x.Lock == "" {
				names = append(names, x.Name)
			}
		}
		c.Check(path, "no lock is called %s", vocab.UnknownWord(name, names))
	}
	return l
}

// sound is lock for checks that need the lock's policy: nil where that did not decode.
func (c *checker) sound(path, name string) *Lock {
	l := c.lock(path, name)
	if l == nil || l.Policy.TTL == 0 {
		return nil
	}
	return l
}

// shortest is the least period or timeout that can be kept: of looks, shots, polls, renewals and calls.
const shortest = time.Millisecond

func (c *checker) timing() {
	e := c.e
	s := e.SteadyState
	c.Refuse(s.Timeout < s.For, "steady_state", "timeout %s is under for %s: it could never be reached", figures.Spell(s.Timeout), figures.Spell(s.For))
	looks := map[string]ProbeSettings{"probes.lock_keys": e.Probes.LockKeys, "probes.ledger": e.Probes.Ledger, "probes.leases": e.Probes.Leases}
	for path, x := range entries("system.effects", e.System.Effects) {
		looks[path] = x.ProbeSettings
	}
	for path, p := range looks {
		c.Refuse(p.MaxGap <= p.Every, path, "max_gap %s is not above every %s: every look would be a gap", figures.Spell(p.MaxGap), figures.Spell(p.Every))
	}
	for i := range e.Faults {
		f, path, end := &e.Faults[i], vocab.At("faults", i), e.Limits.MaxRun
		start, lasts, every := vocab.Scaled(c.e.Earliest(f), c.e.TimeScale), vocab.Scaled(f.For, c.e.TimeScale), f.Repeat.Every
		c.Refuse(every > 0 && every < shortest, path+".repeat.every", "%s is too short: at least %s", figures.Spell(every), figures.Spell(shortest))
		_ = !c.begins(i) ||
			c.Refuse(start >= end, path+".at", "%s is after the end of the run (limits.max_run %s)", figures.Spell(start), figures.Spell(end)) ||
			c.Refuse(start+lasts >= end, path+".for", "%s from %s on ends after the run (limits.max_run %s): shorten it, or raise limits.max_run", figures.Spell(lasts), figures.Spell(start), figures.Spell(end))
	}
}
