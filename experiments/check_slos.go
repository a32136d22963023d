package experiments

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/lockcore"
)

func (c *checker) slo(path string, s *SLO) {
	measures := vocabulary.Given(s)
	if c.Refuse(len(measures) == 0, path, "asks nothing: a row has one measure, such as takeover: {max: 30s}") ||
		c.Refuse(len(measures) > 1, path, "has %s: a row has exactly one measure", strings.Join(measures, " and ")) {
		return
	}
	if s.Alert != nil {
		c.alert(path, s, strings.HasPrefix(path, "expect"))
		return
	}
	at := path + "." + s.Measure()
	for _, part := range s.parts() {
		if !c.sure(path+".lock", "system.locks", "system.effects", "system.holder", "system.processes") {
			break
		}
		if g := c.e.untold(s.Lock, dotted(s.Measure(), part)); g.why != "" && !c.Stored {
			if s.Overlap != nil {
				part = ""
			}
			if g.adds != "" {
				g.next += "; these lines of the file would add it:\n      " + strings.ReplaceAll(g.adds, "\n", "\n      ")
			}
			c.Check(dotted(at, part), "cannot be answered: %s; %s", g.why, g.next)
			return
		}
	}
	if why, next := c.e.unstruck(s.Measure()); why != "" && !c.Stored && (len(c.e.Faults) > 0 || c.faultless()) {
		c.Check(at, "cannot be answered: %s; %s", why, next)
		return
	}
	c.toldWait(at, s)
	c.limits(at, s)
	l := c.sound(path+".lock", s.Lock)
	if l == nil {
		return
	}
	c.Refuse(s.asks("loops") && !l.Loop(), at, "is of leader loops; lock %s is taken per job", l.Name)
	c.Refuse(s.asks("jobs") && l.Loop(), at, "is of jobs; lock %s is a leader loop", l.Name)
	if s.asks("rolling") {
		c.Refuse(!l.Loop() || l.Policy.Loop.Mode != lockcore.LoopRenewed, at, "is of leader loops that hold their lock from tick to tick (loop: {mode: renewed}); lock %s does not", l.Name)
		c.Refuse(!slices.ContainsFunc(c.e.Faults, func(f Fault) bool { return f.Traits().Rolls }), at, "is of rolling restarts, and there is none: add a fault with rolling_restart: {}")
	}
	if c.reference(at, s, l); !c.sure("system.work") {
		return
	}
	switch _, section := s.measure(); of := section.Addr().Interface().(type) {
	case *ClassLimits:
		c.Refuse(of.Class != "" && !c.dealt(l, of.Class), at+".class", "no job of lock %s is of class %q: see classes under work", l.Name, of.Class)
	case *CountLimit:
		c.Refuse(of.MinJobs > 0 && l.Loop(), at+".min_jobs", "lock %s is a leader loop: it has no jobs", l.Name)
		if w := c.e.WorkUnder(l.Name); w != nil {
			c.Refuse(of.MinJobs > w.Jobs, at+".min_jobs", "%d finished jobs are asked for, and only %d are offered", of.MinJobs, w.Jobs)
		}
	}
}

// dealt reports whether the work under l deals jobs of the class.
func (c *checker) dealt(l *Lock, class string) bool {
	w := c.e.WorkUnder(l.Name)
	return w != nil && slices.ContainsFunc(w.Classes, func(k JobClass) bool { return k.Name == class })
}

// together checks what all rows say of one figure. A limit that two of them give is refused: the looser one would promise nothing, and
// nobody could tell the two apart in a verdict.
func (c *checker) together() {
	first, all := map[string]string{}, map[string][]limit{}
	row := func(path, fault string, s *SLO) {
		if c.Invalid(path) || len(vocabulary.Given(s)) != 1 {
			return
		}
		if s.Alert != nil {
			key := fault + s.Fault + " " + s.alertName()
			if other, ok := first[key]; ok {
				c.Check(path+".alert", "%s limits the same: keep the one that counts", other)
			}
			first[key] = path
		}
		for _, l := range s.promised(path) {
			key := fault + " " + s.subject() + " " + l.what
			if other, ok := first[key]; ok && other != path {
				c.Check(l.at(), "%s limits the same: keep the one that counts", other)
				continue
			}
			first[key] = path
			if l.word != "" {
				figure := strings.TrimSuffix(key, l.word)
				all[figure] = append(all[figure], l)
			}
		}
	}
	for path, s := range entries("slos", c.e.SLOs) {
		row(path, "", s)
	}
	for path, x := range entries("expect", c.e.Expect) {
		row(path, "of "+x.Fault, x)
	}
	for _, limits := range all {
		c.ordered(limits)
	}
}

// ordered refuses a limit above one that bounds it already, such as that of a higher quantile.
func (c *checker) ordered(limits []limit) {
	slices.SortFunc(limits, func(a, b limit) int { return cmp.Compare(slices.Index(ladder, a.word), slices.Index(ladder, b.word)) })
	for i := range max(0, len(limits)-1) {
		low, high := limits[i], limits[i+1]
		if low.value <= high.value || low.row == high.row && !besides(low, high) {
			continue
		}
		there, why := high.word+" "+high.figure.spell(high.value), ", which bounds it already: lower it, or leave it out"
		if high.row != low.row {
			there += " of " + high.row
		}
		if low.word == "min" {
			why = ": nothing keeps both"
		}
		c.Check(low.at(), "%s is above %s%s", low.figure.spell(low.value), there, why)
	}
}

// besides reports limits that may stand in one row; of others bound says what is wrong with them.
func besides(low, high limit) bool {
	exact := strings.HasSuffix(low.path, "exactly") || strings.HasSuffix(high.path, "exactly")
	return !exact && (low.word != "min" || high.word == "max")
}

// expectation checks a row that is counted for each shot of a fault.
func (c *checker) expectation(path string, x *SLO) {
	if c.faultless() {
		c.Check(path, "is what a fault brings about, and the file has none: add a fault, or say it under slos")
		return
	}
	c.slo(path, x)
	if len(vocabulary.Given(x)) != 1 {
		return
	}
	measure := path + "." + x.Measure()
	c.Refuse(x.asks("whole") || x.asks("rolling"), measure, "cannot be counted for each shot of a fault: it belongs under slos")
	for _, f := range x.figures() {
		quantile := f.quantile()
		_ = c.Refuse(quantile != "", measure+"."+f.at(quantile), "a quantile is of the whole run: it belongs under slos") ||
			c.Refuse(f.of != "", measure+"."+f.at("of"), "locks are compared over the whole run: it belongs under slos")
	}
	if x.Alert == nil {
		c.faultNamed(path, x.Fault, "is counted for each shot of which fault?")
	}
}

// faultNamed asks for the fault that a row is about; it may be left out where there is one.
func (c *checker) faultNamed(path, name, which string) {
	ids := c.faultIDs()
	c.Refuse(name == "" && len(ids) > 1 && !slices.Contains(ids, ""), path, "%s Say fault: and one of %s", which, strings.Join(ids, ", "))
}

// parts are what somebody has to tell of the row's measure: the level of overlap, each figure of what is told one by one; of others "", all
// of it.
func (s *SLO) parts() (all []string) {
	switch {
	case s.Overlap != nil:
		return []string{s.Overlap.Level}
	case s.LockDebt != nil, s.Busy != nil, s.NotOwned != nil, s.FailedReleases != nil:
		for _, f := range s.figures() {
			all = append(all, f.name)
		}
	}
	if len(all) == 0 {
		all = []string{""}
	}
	return all
}

// subject is what the row is about.
func (s *SLO) subject() string {
	subject := s.Lock + " " + s.Measure()
	switch {
	case s.Overlap != nil:
		return subject + " " + s.Overlap.Level
	case s.Logs != nil:
		return subject + " " + s.Logs.Pattern
	case s.Metric != nil:
		return subject + " " + s.Metric.Name
	case s.Held != nil:
		return subject + " " + s.Held.Class
	case s.Wait != nil:
		return subject + " " + s.Wait.Class
	}
	return subject
}
