package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/bed"
)

// consent is what an operator says on the command line about targets that are not the run's own.
type consent struct {
	environment string
	confirm     []string
}

func (c *consent) flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.environment, "environment", "", "what a target that does not say so itself is, as the file's environment")
	flags.StringArrayVar(&c.confirm, "confirm", nil, "name of the experiment: needed where the target is not started by the run; may be repeated")
}

// guard is one answer to whether a run may start.
type guard = analysis.PlannedGuard

// environmentWithin bounds asking a target what it is.
const environmentWithin = 5 * time.Second

// guards are the answers, in the order in which they are asked. They touch nothing: at most one key of the target is read, and only
// if no guard before has refused. The error is one of settings without which the target cannot be asked, a usage error.
func guards(ctx context.Context, e *experiments.Experiment, c consent, now time.Time) ([]guard, error) {
	all := []guard{killSwitchGuard(e), calendarGuard(e, now), storeGuard(e), confirmGuard(e, c)}
	if slices.ContainsFunc(all, func(g guard) bool { return g.Refuses }) {
		return append(all, guard{Name: "environment", Says: "not asked: the run is refused already"}), nil
	}
	g, err := environmentGuard(ctx, e, c)
	return append(all, g), err
}

// admit refuses a run before anything is touched.
func admit(ctx context.Context, e *experiments.Experiment, c consent) error {
	if err := bed.Settings(e.Redis); err != nil {
		return usagef("%s: %w", e.Name, err)
	}
	all, err := guards(ctx, e, c, time.Now())
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Refuses {
			return &exitError{code: exitRefused, err: fmt.Errorf("%s: refused: %s: %s", e.Name, g.Name, g.Says)}
		}
	}
	return nil
}

func killSwitchGuard(e *experiments.Experiment) guard {
	g := guard{Name: "kill switch", Says: "none"}
	if path := e.Limits.KillSwitch; path != "" {
		g.Says = path + " is not there"
		g.Refuses = thrown(path)
		if g.Refuses {
			g.Says = path + " is there: nothing starts until it is removed"
		}
	}
	return g
}

// thrown reports whether the kill switch is there. One that cannot be looked at counts as thrown.
func thrown(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

const calendarName = "calendar"

func calendarGuard(e *experiments.Experiment, now time.Time) guard {
	g := guard{Name: calendarName, Says: "no windows, no blackouts: always open"}
	if len(e.Windows)+len(e.Blackouts) == 0 {
		return g
	}
	why, next := e.Shut(now)
	if g.Refuses = why != ""; !g.Refuses {
		g.Says = "open now; a run that leaves it is aborted"
		return g
	}
	g.Says = why + "; it does not open within the next four weeks"
	if !next.IsZero() {
		g.Says = why + "; it opens " + next.Format("Mon 2006-01-02 15:04 MST")
	}
	return g
}

// storeGuard refuses faults that the store which the run would start cannot have.
func storeGuard(e *experiments.Experiment) guard {
	g := guard{Name: "store", Says: "the run starts its own"}
	if e.Redis.Mode == experiments.RedisExternal {
		g.Says = "somebody's own; faults of the store itself that it allows: none"
		if len(e.Redis.Allow) > 0 {
			g.Says = "somebody's own; faults of the store itself that it allows: " + strings.Join(e.Redis.Allow, ", ")
		}
		return g
	}
	if e.Redis.Mode != experiments.RedisAuto {
		return g
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return g
	}
	for i := range e.Faults {
		f := &e.Faults[i]
		if s := f.Store; s != nil && (s.Keep || slices.Contains([]experiments.StoreDo{experiments.StorePause, experiments.StoreFreeze, experiments.StoreFailover}, s.Do)) {
			g.Refuses = true
			g.Says = fmt.Sprintf("fault %s needs a redis-server, and there is none on the PATH: the embedded store has no %s", f.ID, f.Form())
			return g
		}
	}
	return g
}

// foreign names the targets that the run does not start itself, without secrets.
func foreign(e *experiments.Experiment) []string {
	var all []string
	add := func(what, address string) {
		if u, err := url.Parse(address); err == nil {
			all = append(all, what+" "+u.Scheme+"://"+u.Host)
		}
	}
	if e.Redis.Mode == experiments.RedisExternal {
		add("redis", e.Redis.URL)
	}
	if e.Proxy.Mode == experiments.ProxyExternal {
		add("toxiproxy", e.Proxy.URL)
	}
	return all
}

func confirmGuard(e *experiments.Experiment, c consent) guard {
	g := guard{Name: "confirm", Says: "not needed: the run starts all that it touches"}
	targets := strings.Join(foreign(e), ", ")
	switch {
	case targets == "":
	case slices.Contains(c.confirm, e.Name):
		g.Says = "given for " + targets
	default:
		g.Refuses = true
		g.Says = targets + " is not started by the run: it needs --confirm " + e.Name
		if len(c.confirm) > 0 {
			g.Says += ", not " + strings.Join(c.confirm, ", ")
		}
	}
	return g
}

// environmentGuard compares what the file says with what the target says, or, where it says nothing, the operator.
func environmentGuard(ctx context.Context, e *experiments.Experiment, c consent) (guard, error) {
	g := guard{Name: "environment"}
	if len(foreign(e)) == 0 {
		g.Says = ownEnvironment + ": the run starts all that it touches"
		if e.Environment != ownEnvironment {
			g.Refuses, g.Says = true, fmt.Sprintf("the file is for %q, and what a run starts itself is %q", e.Environment, ownEnvironment)
		}
		return g, nil
	}
	is, by, err := declared(ctx, e, c)
	switch {
	case errors.Is(err, bed.ErrSettings):
		return g, usagef("%s: %w", e.Name, err)
	case err != nil:
		g.Refuses, g.Says = true, err.Error()
	case is == "" && e.Redis.Mode != experiments.RedisExternal:
		g.Refuses, g.Says = true, "a Toxiproxy does not say what it is: say --environment "+e.Environment
	case is == "":
		g.Refuses, g.Says = true, fmt.Sprintf("the target does not say what it is: set its key %s, or say --environment %s", bed.EnvironmentKey, e.Environment)
	case is != e.Environment:
		g.Refuses, g.Says = true, fmt.Sprintf("the file is for %q, and the target is %q (%s)", e.Environment, is, by)
	default:
		g.Says = is + ", as " + by + " says"
	}
	return g, nil
}

// declared is what the target is, by its own word or else the operator's, and whose word that is; "" = nobody has said it.
func declared(ctx context.Context, e *experiments.Experiment, c consent) (is, by string, err error) {
	if e.Redis.Mode != experiments.RedisExternal {
		return c.environment, "--environment", nil
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	name, said, err := bed.Environment(ctx, e.Redis)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("the target could not be asked: %w", err)
	case !said:
		return c.environment, "--environment", nil
	case c.environment != "" && c.environment != name:
		return "", "", fmt.Errorf("the target says it is %q, and --environment says %q", name, c.environment)
	}
	return name, "the target's key " + bed.EnvironmentKey, nil
}

// ownEnvironment is the environment of what a run starts itself.
const ownEnvironment = "local"

// mayGoOn is asked every second of the run: a word for run.abort, and why; "" = it may.
func mayGoOn(e *experiments.Experiment, now time.Time) (word, why string) {
	if path := e.Limits.KillSwitch; path != "" && thrown(path) {
		return "kill_switch", "limits.kill_switch " + path + " is there"
	}
	if why, _ := e.Shut(now); why != "" {
		return "window", why
	}
	return "", ""
}
