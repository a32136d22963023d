package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/probes/effects"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// openEffects reads the effects of an observed system wherever it keeps them.
func (d *Drill) openEffects(ctx context.Context) error {
	for i := range d.e.System.Effects {
		x := &d.e.System.Effects[i]
		p, lines, err := openSource(ctx, d.e, x, &d.files, d.clock, d.writerOf)
		if err != nil {
			return err
		}
		d.looks = append(d.looks, p.Close)
		if _, err := p.Last(ctx, lastEffects); err != nil {
			return refusedEffects(x, err)
		}
		if lines != nil {
			d.lines = append(d.lines, lines)
		}
		p.Lives, p.Expect = d.livesAs, func(lock, key string) { d.cfg.Watch(lock, key) }
		if l := d.e.Lock(x.Under()); l.Loop() || l.Keyless() {
			p.Expect = nil
		}
		d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{Name: x.Probe(), Source: "probe:" + x.Probe(), Probe: p, ProbeSettings: x.ProbeSettings})
	}
	return nil
}

// lastEffects are looked at before a run, and shown by plan.
const lastEffects = 5

// refusedEffects is the end of a run that could not read its effects.
func refusedEffects(x *experiments.Effects, err error) error {
	err = fmt.Errorf("effects %s (%s): %w", x.Name, x.Source(), err)
	if errors.Is(err, effects.ErrSource) {
		return &Error{verdict.ExitUsage, err}
	}
	return &Error{verdict.ExitRefused, err}
}

// openSource makes the probe of one source. lines are those that somebody else follows: logs of pods.
func openSource(ctx context.Context, e *experiments.Experiment, x *experiments.Effects, bus *follow.Bus, clock func() int64, writer func(path string) (incarnation string, since int64)) (p *effects.Probe, lines *effects.Lines, err error) {
	l := e.Lock(x.Under())
	o := effects.Options{Name: x.Probe(), Lock: l.Name, Map: effects.Map(x.Map), Prefix: l.KeyPrefix, Suffix: l.KeySuffix, Sparse: x.Lines()}
	switch {
	case l.Loop():
		o.Key = l.Key
	case l.Keyless(): // a history files jobs by keys: this is one of no store
		o.Prefix = x.Name + "/"
	}
	var from effects.Reader
	switch {
	case x.InRedis():
		from, err = redisSource(e, x)
	case x.SQL != nil:
		dsn, set := secret(x.SQL.DSNEnv)
		if !set {
			return nil, nil, usagef("effects %s: the environment variable %s, which dsn_env names, is not set or empty", x.Name, x.SQL.DSNEnv)
		}
		from, err = effects.NewSQL(ctx, effects.SQL{Driver: x.SQL.Driver, DSN: dsn, Query: x.SQL.Query, Cursor: x.SQL.Cursor, Start: x.SQL.Start, Overwrites: x.Overwrites})
	case x.HTTP != nil:
		h := x.HTTP
		token, set := secret(h.TokenEnv)
		if !set {
			return nil, nil, usagef("effects %s: the environment variable %s, which token_env names, is not set or empty", x.Name, h.TokenEnv)
		}
		from = effects.NewHTTP(effects.HTTP{URL: h.URL, Param: h.Param, Cursor: h.Cursor, Token: token, Overwrites: x.Overwrites})
	case len(x.Command) > 0:
		from, err = effects.NewCommand(x.Command, x.Pattern)
	case x.File != "":
		from, err = effects.NewFiles(effects.Files{Bus: bus, Globs: []string{x.File}, Pattern: x.Pattern, Clock: clock})
	case e.Kubernetes == nil:
		from, err = effects.NewFiles(effects.Files{Bus: bus, Globs: []string{globOf(e.System.Processes.Log)}, Pattern: x.Pattern, Clock: clock, Writer: writer})
	default:
		lines, err = effects.NewLines(x.Pattern)
		from = lines
	}
	if err != nil {
		return nil, nil, refusedEffects(x, err)
	}
	return effects.New(from, o), lines, nil
}

// secret is the value of a variable; one that nobody names is set.
func secret(name string) (value string, set bool) {
	if name == "" {
		return "", true
	}
	value = os.Getenv(name)
	return value, value != ""
}

// redisSource reads a key of the Redis that the source names, else of the locks'.
func redisSource(e *experiments.Experiment, x *experiments.Effects) (effects.Reader, error) {
	r := e.Redis
	if x.Redis.URL != "" {
		r = x.Redis.AsRedis()
	}
	o, err := redis.OptionsOf(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", effects.ErrSource, err)
	}
	switch {
	case x.Stream != "":
		return effects.NewStream(o, x.Stream), nil
	case x.List != "":
		return effects.NewList(o, x.List), nil
	}
	return effects.NewHash(o, x.Hash), nil
}

// globOf is the pattern that all paths of a template match.
func globOf(template string) string {
	all := map[string]string{}
	for _, word := range experiments.Placeholders(template) {
		all[word] = "*"
	}
	glob, _ := experiments.FillIn(template, all)
	return glob
}

// livesAs is the incarnation that a replica's name means now: as locks name holders, or as its owner calls it.
func (d *Drill) livesAs(named string) string {
	fleet, ok := d.cfg.Fleet.(observedFleet)
	if !ok {
		return ""
	}
	if who := fleet.HolderOf(named); who != "" {
		return who
	}
	return d.living(func(l testbed.Living) bool { return l.Name == named }).Incarnation
}

// writerOf is the incarnation whose log a path is now.
func (d *Drill) writerOf(path string) (incarnation string, since int64) {
	l := d.living(func(l testbed.Living) bool { return l.Log != "" && filepath.Clean(l.Log) == filepath.Clean(path) })
	return l.Incarnation, l.Since
}

// living is the life of which that is so; the zero one where there is none.
func (d *Drill) living(is func(testbed.Living) bool) testbed.Living {
	all := d.replicas()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return testbed.Living{}
}

// lookUpEffects shows the last effects of each source, as the map reads them.
func lookUpEffects(ctx context.Context, e *experiments.Experiment, c Consent, plan *forecast.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for i := range e.System.Effects {
		x := &e.System.Effects[i]
		shown := forecast.PlannedEffects{Name: x.Name, Lock: x.Lock, Source: x.Source()}
		p, lines, err := openSource(ctx, e, x, nil, monotime.Now, func(string) (string, int64) { return "", 0 })
		if err != nil {
			return err
		}
		if lines != nil && len(plan.Pods) > 0 {
			err = linesNow(ctx, e, c, lines)
		}
		var last []history.Event
		if err == nil {
			last, err = p.Last(ctx, lastEffects)
		}
		_ = p.Close() // it has only read
		switch {
		case errors.Is(err, effects.ErrSource):
			return refusedEffects(x, err)
		case err != nil:
			shown.Why = "cannot be read now: " + err.Error()
		case len(last) == 0:
			shown.Why = "there are none yet: nothing shows that the map is right"
		}
		for _, ev := range last {
			shown.Last = append(shown.Last, effectText(x, ev))
		}
		plan.Effects = append(plan.Effects, shown)
	}
	return nil
}

// linesNow hands over what pods' logs have by now.
func linesNow(ctx context.Context, e *experiments.Experiment, c Consent, lines *effects.Lines) error {
	var now replicasNow
	if err := now.pods(ctx, e, c); err != nil {
		return err
	}
	now.eachLine(ctx, e, history.Span{}, lines.Line)
	return nil
}

// effectText says what the map makes of an entry.
func effectText(x *experiments.Effects, ev history.Event) string {
	text := "tick of " + ev.Lock
	if b := ev.Entry; !b.Loop {
		text = "job " + b.Subject + ": " + b.State
		switch {
		case b.Terminal:
			text += " (ends it)"
		case x.Map.Begins(b.State):
			text += " (at work)"
		}
		if x.Lock != "" {
			text += ", key " + ev.Key
		}
	}
	for _, f := range []struct{ name, value string }{{"by", ev.Entry.Writer}, {"op", ev.Op}, {"token", ev.Epoch}, {"fence", strconv.FormatInt(ev.Fence, 10)}} {
		if f.value != "" && f.value != "0" {
			text += ", " + f.name + " " + f.value
		}
	}
	if due := ev.Entry.Due; due != nil {
		text += ", due " + time.Unix(0, due.From/2+due.To/2).UTC().Format(time.RFC3339)
	}
	return text
}
