package main

import (
	"fmt"
	"io"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
)

// lintWarning is a budget lint that does not hold, with the place of its lock.
type lintWarning struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	forecast.Lint
}

func (w lintWarning) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s: %s", w.File, w.Line, w.Column, w.Rule, w.Of(), w.Text, w.Means)
}

// lintWarnings are the budget lints of e that do not hold, in the numbers of its file. Never nil.
func lintWarnings(e *experiments.Experiment) []lintWarning {
	out := []lintWarning{}
	for _, l := range forecast.Lints(e, 0) {
		if !l.OK {
			p := e.System.Locks[0].Place // of the run's lints: nearest to what they are about
			if lock := e.Lock(l.Lock); lock != nil {
				p = lock.Place
			}
			out = append(out, lintWarning{p.File, p.Line, p.Column, l})
		}
	}
	return out
}

// printLints prints the warnings of e, one a line.
func printLints(w io.Writer, e *experiments.Experiment) {
	for _, warning := range lintWarnings(e) {
		fmt.Fprintln(w, "warning:", warning)
	}
}
