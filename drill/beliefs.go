package drill

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/probes/holders"
)

// findPrograms refuses a program that is to say who holds, or believes to hold, a lock, and is not there: only a run would find out, by
// nobody's answer.
func (d *Drill) findPrograms(context.Context) error {
	missing := func(what string, words []string) error {
		_, err := exec.LookPath(words[0])
		if err == nil || strings.Contains(words[0], "{") {
			return nil
		}
		return usagef("%s: %s cannot be run: %w", what, words[0], reason(errors.Unwrap(err)))
	}
	for i := range d.e.System.Locks {
		l := &d.e.System.Locks[i]
		if b := l.Belief; b != nil && b.Command != nil {
			at := l.Place
			if err := missing(fmt.Sprintf("%s:%d:%d: belief of lock %s", at.File, at.Line, at.Column, l.Name), b.Command.Run); err != nil {
				return err
			}
		}
	}
	for _, h := range d.e.System.Holder {
		if h.Command != nil {
			if err := missing("system.holder", h.Command.Run); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchBeliefs makes a probe for each lock of which the file says what tells whether a replica believes that it holds it.
func (d *Drill) watchBeliefs() {
	a := &asking{e: d.e, replicas: d.replicas, clock: d.clock}
	for i := range d.e.System.Locks {
		l := &d.e.System.Locks[i]
		if l.Belief == nil {
			continue
		}
		probe, end := a.belief(l, func(key string) bool { return d.lockOf(key) == l.Name })
		if end != nil {
			d.looks = append(d.looks, end)
		}
		if log, ok := probe.(*holders.BeliefLog); ok && d.e.Kubernetes != nil {
			d.lines = append(d.lines, log)
		}
		d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{
			Name: history.BeliefProbe(l.Name), Source: "probe:" + history.BeliefProbe(l.Name), Live: l.Belief.Log == nil, Probe: probe,
			ProbeSettings: experiments.ProbeSettings{Every: l.Belief.Every, MaxGap: l.Belief.MaxGap},
		})
	}
}

// belief is the probe of a lock, and what ends it; nil = there is nothing to end.
func (a *asking) belief(l *experiments.Lock, of func(key string) bool) (runner.Probe, func() error) {
	b := l.Belief
	if b.Log != nil {
		o := holders.BeliefLogOptions{
			Lock: l.Name, Gain: regexp.MustCompile(b.Log.Gain), Lose: regexp.MustCompile(b.Log.Lose),
			Of: of, Loop: l.Loop(), Lives: a.lives, Clock: a.clock,
		}
		if p := a.e.System.Processes; p != nil {
			o.Glob = follow.Glob(p.Log)
		}
		probe := holders.NewBeliefLog(o)
		return probe, probe.Close
	}
	o := holders.BeliefOptions{Lock: l.Name, By: b.Word(), Every: b.Every, Lives: a.lives, Clock: a.clock}
	var end func() error
	o.Ask, end = a.tellers(l)
	return holders.NewBeliefs(o), end
}

// tellers ask replicas themselves.
func (a *asking) tellers(l *experiments.Lock) (ask holders.Teller, end func() error) {
	switch b := l.Belief; {
	case b.Metric != nil:
		return a.metric(b.Metric).Tell(holders.Question{Lock: l.Name, Key: l.Key}), nil
	case b.HTTP != nil:
		e := &holders.Endpoint{URL: func(l holders.Life) string {
			url, _ := experiments.FillIn(b.HTTP.URL, l.Known)
			return url
		}}
		if b.HTTP.Leads != "" {
			e.Leads = regexp.MustCompile(b.HTTP.Leads)
		}
		return e.Tell, e.Close
	default:
		return holders.Listed(command.Command{Words: b.Command.Run, Within: b.Command.Within}), nil
	}
}
