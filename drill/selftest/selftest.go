// Package selftest shows that a drill can tell: it drills locks that are wrong on purpose, of which each must be found out by the measure
// that is named for it, and locks that are right, of which none may be accused.
//
// It makes no judgement of its own: what was seen is read off the verdict of the very judge. Its one invariant: a case counts only where
// its faults were confirmed.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Player drills the case and judges what happened, once or several times.
type Player interface {
	Play(ctx context.Context, c *Case, e *experiments.Experiment) ([]*verdict.Judgement, error)
}

// NotPlayed is the error of a case that this machine could not play: it shows nothing, and the others go on.
type NotPlayed struct{ Why string }

func (n *NotPlayed) Error() string { return n.Why }

// Outcome of a case.
type Outcome string

// What became of a case.
const (
	Right   Outcome = "ok"
	Silent  Outcome = "silent"  // an animal was not found out
	Accused Outcome = "accused" // a control was, or an animal of what does not follow from its mistake
	Void    Outcome = "void"    // its faults did not take place, or its measure was not answered, and so it shows nothing
)

// Result is one row of the table.
type Result struct {
	Animal   string   `json:"animal"` // or the class of a control
	Control  bool     `json:"control"`
	Fault    string   `json:"fault"`
	Measure  string   `json:"measure"` // that must turn red; "" of a control
	Expected string   `json:"expected"`
	Seen     string   `json:"seen"`
	Evidence string   `json:"evidence"`
	Excused  []string `json:"excused"` // what the fault turns red in any lock
	Outcome  Outcome  `json:"outcome"`

	reds []string // what a control is accused of
}

// played is what a drill depends on: cases that differ in the measure alone share one.
type played struct{ animal, class, scene string }

func (c *Case) played() played { return played{c.Animal, c.Class, c.Scene.Name} }

// liveTries is how often a case is played that shows nothing: a machine that was late once may be in time.
const liveTries = 3

// Run plays the cases one after another. told, which may be nil, hears of each result.
func Run(ctx context.Context, cases []Case, p Player, told func(Result)) ([]Result, error) {
	var all []Result
	known := map[played][]*verdict.Judgement{}
	for i := range cases {
		r, err := one(ctx, &cases[i], p, known)
		if _, same := p.(Rehearsed); !same {
			for try := 1; try < liveTries && err == nil && r.Outcome == Void; try++ {
				delete(known, cases[i].played())
				r, err = one(ctx, &cases[i], p, known)
			}
		}
		if err != nil {
			return all, fmt.Errorf("%s, %s: %w", cases[i].Name(), cases[i].Scene.Name, err)
		}
		all = append(all, r)
		if told != nil {
			told(r)
		}
	}
	return all, nil
}

func one(ctx context.Context, c *Case, p Player, known map[played][]*verdict.Judgement) (Result, error) {
	e, err := c.Experiment()
	if err != nil {
		return Result{}, err
	}
	of := c.played()
	js := known[of]
	if js == nil {
		js, err = p.Play(ctx, c, e)
		known[of] = js
	}
	r := Result{Animal: c.Name(), Control: c.Animal == "", Fault: c.Scene.Name, Measure: c.Flag, Excused: c.Excused(e)}
	why := unconfirmed(js, r.Control)
	if not := new(NotPlayed); errors.As(err, &not) {
		why = not.Why
	} else if err != nil {
		return Result{}, err
	}
	if why != "" {
		r.Outcome, r.Seen = Void, why
	}
	if r.Control {
		r.control(js)
	} else {
		r.animal(js)
		if _, exact := p.(Rehearsed); exact && r.Outcome == Right { // real time brings more
			r.beyond(js, c.follow)
		}
	}
	if late, call := lateBy(js), experiments.Scale(e).System.Locks[0].Policy.OpTimeout; late >= call {
		r.starved(late, call)
	}
	return r, nil
}

// animal must be found out each time.
func (r *Result) animal(js []*verdict.Judgement) {
	r.Expected = "red"
	n := 0
	for _, j := range js {
		for _, x := range red(j) {
			if x.name == r.Measure {
				n++
				if r.Evidence == "" {
					r.Evidence = x.text
				}
				break
			}
		}
	}
	if r.Outcome == Void {
		return
	}
	r.Outcome, r.Seen = Silent, times("red", n, len(js))
	if n == len(js) {
		r.Outcome = Right
	} else if why := cmp.Or(unconfirmed(js, true), unanswered(js, r.Measure)); why != "" {
		r.Outcome, r.Seen = Void, why
	}
}

// unanswered says why a drill could not answer the measure, as where the machine was late; "" = each did.
func unanswered(js []*verdict.Judgement, measure string) string {
	for _, j := range js {
		for i := range j.SLOs {
			if s := &j.SLOs[i]; s.Measure == measure && s.Verdict == verdict.Inconclusive {
				return measure + " was not answered: " + s.Why
			}
		}
	}
	return ""
}

// beyond accuses a mutant of what does not follow from its mistake: a measure that turns red for it tells of something else.
func (r *Result) beyond(js []*verdict.Judgement, follow []string) {
	for _, j := range js {
		for _, x := range red(j) {
			if !excused(r.Excused, x.name) && !slices.Contains(follow, x.name) {
				r.Outcome, r.Seen, r.Evidence = Accused, "red, and "+x.name+" as well", x.text
				return
			}
		}
	}
}

// control must never be accused of anything but what the fault does to any lock.
func (r *Result) control(js []*verdict.Judgement) {
	r.Expected = "nothing red"
	if len(r.Excused) > 0 {
		r.Expected = "no other than " + strings.Join(r.Excused, " ")
	}
	var names []string
	n := 0
	for _, j := range js {
		before := len(names)
		for _, x := range red(j) {
			if excused(r.Excused, x.name) {
				continue
			}
			names = append(names, x.name)
			if r.Evidence == "" {
				r.Evidence = x.text
			}
		}
		if len(names) > before {
			n++
		}
	}
	if r.Outcome == Void {
		return
	}
	r.Outcome, r.Seen = Right, "nothing"
	if n > 0 {
		slices.Sort(names)
		r.Outcome, r.Seen = Accused, times(strings.Join(slices.Compact(names), " "), n, len(js))
		r.reds = names
	}
}

// starved takes back what is said on a machine that was late for as long as a call may take: calls then time out and holders stand still, on
// their way to any store, and what should befall an animal comes at another moment of its work.
func (r *Result) starved(late, call time.Duration) {
	if r.Outcome == Silent || r.Outcome == Accused && !slices.ContainsFunc(r.reds, neverLateness) {
		r.Outcome, r.Seen = Void, fmt.Sprintf("%s, but the machine was late by %s, and a call has %s", r.Seen, figures.Short(int64(late)), call)
	}
}

// lateBy is how late the machine was at its worst.
func lateBy(js []*verdict.Judgement) (worst time.Duration) {
	for _, j := range js {
		if j.Machine != nil {
			worst = max(worst, time.Duration(figures.Nanoseconds(j.Machine.Worst)))
		}
	}
	return worst
}

// neverLateness reports that no late machine turns the row red.
func neverLateness(row string) bool {
	return strings.HasPrefix(row, findingPrefix) || excused([]string{"duplicate_epochs", "duplicate_terminal_states", "fence_regressions",
		"foreign_releases", "foreign_renewals", "overlap", "stale_writes", "vanished"}, row)
}

func times(what string, n, of int) string {
	if of == 1 && n == 1 {
		return what
	}
	return fmt.Sprintf("%s, %d of %d times", what, n, of)
}

// excused reports whether a row is among those, or begins with the name of one.
func excused(rows []string, name string) bool {
	return slices.ContainsFunc(rows, func(row string) bool { return name == row || strings.HasPrefix(name, row+".") })
}

// findingPrefix stands before the code of a contradiction, where rows of a verdict have their name.
const findingPrefix = "finding:"

// finding is something that a verdict holds against the lock.
type finding struct{ name, text string }

// red is what a verdict holds against the lock: rows that failed, and contradictions.
func red(j *verdict.Judgement) []finding {
	var out []finding
	for i := range j.SLOs {
		if s := &j.SLOs[i]; s.Verdict == verdict.Fail {
			out = append(out, finding{s.Measure, value(s) + ": " + s.Why})
		}
	}
	for _, f := range j.Findings {
		out = append(out, finding{findingPrefix + string(f.Code), f.What})
	}
	return out
}

// value is what was measured, held against the limit.
func value(s *verdict.SLOResult) string {
	write := func(v float64) string {
		if s.Unit == verdict.UnitSeconds {
			return figures.Short(figures.Nanoseconds(v))
		}
		return fmt.Sprintf("%.3g", v)
	}
	hi := "open"
	if s.Hi != nil {
		hi = write(*s.Hi)
	}
	got := write(s.Lo)
	if got != hi {
		got = "[" + got + ", " + hi + "]"
	}
	return got + " > " + write(s.Limit)
}

// unconfirmed says which fault never took place, in one of the drills, or, where that counts, gave no valid shot; "" = each did.
func unconfirmed(js []*verdict.Judgement, counts bool) string {
	for _, j := range js {
		took := map[string]bool{}
		for _, f := range j.Faults {
			took[f.ID] = took[f.ID] || f.Confirmed && (!f.Void || !counts)
		}
		for _, f := range j.Faults {
			if !took[f.ID] {
				return "fault " + f.ID + " did not take place: " + f.Why
			}
		}
		if len(took) == 0 {
			return "no fault was made"
		}
	}
	return ""
}

// Verdict is the exit status of a matrix.
func Verdict(rs []Result) int {
	code := verdict.ExitPass
	for _, r := range rs {
		switch r.Outcome {
		case Silent, Accused:
			code = verdict.WorstExit(code, verdict.ExitSLOFailed)
		case Void:
			code = verdict.WorstExit(code, verdict.ExitInconclusive)
		}
	}
	return code
}
