package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// Consent is what an operator says on the command line about targets that are not the run's own.
type Consent struct {
	Environment string   // of targets that do not say so themselves
	Confirm     []string // names of experiments
	Cluster     Cluster
	Summary     string // ConfigMap that the run leaves, whose permissions are asked for as well; "" = none
}

// Guard is one answer to whether a run may start.
type Guard = forecast.PlannedGuard

// environmentWithin bounds asking a target what it is.
const environmentWithin = 5 * time.Second

// guards are the answers, in the order in which they are asked. They touch nothing: of a target, what it says of itself is read, and
// only if no answer of a target before has refused. The error is one of settings without which the target cannot be asked, a usage error.
// With reading, as for a plan, not even a command that changes nothing is sent where it might have: what a target does not tell is left to
// the run. A run that is refused already only reads as well, so that its refusal names every guard that is not met.
func guards(ctx context.Context, e *experiments.Experiment, c Consent, now time.Time, plan bool) ([]Guard, error) {
	cluster, err := c.Cluster.open(e)
	if err != nil {
		return nil, err
	}
	all := []Guard{killSwitchGuard(e), calendarGuard(e, now), thisMachine().guard(experiments.Scale(e)), storeGuard(e), confirmGuard(e, c)}
	if len(e.AbortWhen) > 0 {
		all = append(all, abortGuard(e))
	}
	here, reading := len(all), plan || slices.ContainsFunc(all, refuses)
	ask := []question{{environmentGuardName, func() (Guard, error) { return environmentGuard(ctx, e, c, nil) }}}
	switch {
	case cluster != nil:
		ask = clusterGuards(ctx, e, c, cluster)
	case e.Observed():
		ask = append(ask, question{processesGuardName, func() (Guard, error) { return processesGuard(ctx, e), nil }})
	}
	if len(externals(e)) > 0 {
		ask = append(ask, question{rightsGuardName, func() (Guard, error) { return rightsGuard(ctx, e, reading), nil }})
	}
	if e.Observed() && byNetwork(e.Faults) {
		ask = append(ask, question{routeGuardName, func() (Guard, error) { return routeGuard(ctx, e) }})
	}
	if e.Observed() && e.ViaProxy() {
		ask = append(ask, question{tapGuardName, func() (Guard, error) { return tapGuard(ctx, e) }})
	}
	if byAPIProxy(e) {
		ask = append(ask, question{apiProxyGuardName, func() (Guard, error) { return apiProxyGuard(ctx, e), nil }})
	}
	if len(e.BlockedBy) > 0 && !plan { // last: what it says is soon out of date
		ask = append(ask, question{blockGuardName, func() (Guard, error) { return blockGuard(ctx, e) }})
	}
	for _, a := range ask {
		if slices.ContainsFunc(all[here:], stops) && a.name != blockGuardName {
			all = append(all, Guard{Name: a.name, Says: "not asked: the run is refused already"})
			continue
		}
		g, err := a.ask()
		if err != nil {
			return all, err
		}
		g.Name = a.name
		all, reading = append(all, g), reading || g.Refuses
	}
	return all, nil
}

// question is a guard that asks a target.
type question struct {
	name string
	ask  func() (Guard, error)
}

func refuses(g Guard) bool { return g.Refuses }

// stops reports a refusal that a plan ends with. One that is of this moment, or of what the operator has not said yet, is shown, and the
// rest is asked all the same.
func stops(g Guard) bool { return g.Refuses && !g.Momentary }

// Authorize refuses a run before anything is touched. One that is interrupted there is aborted, not refused.
func Authorize(ctx context.Context, e *experiments.Experiment, c Consent) error {
	if err := Built(e); err != nil {
		return err
	}
	for _, r := range []experiments.Redis{e.Redis, e.Ledger.AsRedis()} {
		if err := redis.Settings(r); err != nil {
			return usagef("%s: %w", e.Name, err)
		}
	}
	all, err := guards(ctx, e, c, time.Now(), false)
	if ctx.Err() != nil { // what a target could not be asked any more is no refusal
		return &Error{verdict.ExitAborted, fmt.Errorf("%s: interrupted: nothing was touched", e.Name)}
	}
	if err != nil {
		return err
	}
	if no := slices.DeleteFunc(all, func(g Guard) bool { return !g.Refuses }); len(no) > 0 {
		return refused(e.Name, no...)
	}
	return nil
}

func killSwitchGuard(e *experiments.Experiment) Guard {
	g := Guard{Name: killSwitchGuardName, Says: "none"}
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

func calendarGuard(e *experiments.Experiment, now time.Time) Guard {
	g := Guard{Name: calendarGuardName, Momentary: true, Says: "no windows, no blackouts: always open"}
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
func storeGuard(e *experiments.Experiment) Guard {
	g := Guard{Name: storeGuardName, Says: "the run starts its own"}
	if !hasStore(e) {
		g.Says = "none: the locks are Lease objects"
		if len(e.System.Locks) == 0 {
			g.Says = "none: there is no lock"
		}
		return g
	}
	if !e.InRedis() {
		return programsGuard(g, e)
	}
	if e.Redis.Mode == experiments.RedisExternal {
		g.Says = "somebody's own; what it allows to be done to it: none"
		if len(e.Redis.Allow) > 0 {
			g.Says = "somebody's own; what it allows to be done to it: " + strings.Join(e.Redis.Allow, ", ")
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
		if f := &e.Faults[i]; f.Traits().NotEmbedded != "" {
			g.Refuses = true
			g.Says = fmt.Sprintf("fault %s needs a redis-server, and there is none on the PATH: the embedded store has no %s", f.ID, f.Form())
			return g
		}
	}
	return g
}

// programsGuard refuses a store of the run's own whose programs are not here.
func programsGuard(g Guard, e *experiments.Experiment) Guard {
	kind, err := kindOf(e)
	if err != nil {
		g.Refuses, g.Says = true, err.Error()
		return g
	}
	if e.Store.Mode == experiments.StoreExternal {
		g.Says = "somebody's own; what may be done to it: none"
		if kind.Later != "" {
			g.Says += "; not known until the run: " + fmt.Sprintf(kind.Later, figures.Spell(shortest(experiments.Scale(e))))
		}
		return g
	}
	for _, program := range kind.Needs {
		if _, err := exec.LookPath(program); err != nil {
			g.Refuses, g.Says = true, fmt.Sprintf("store.kind %s starts %s, and there is none on the PATH: %s", e.StoreKind(), program, kind.Remedy)
			return g
		}
	}
	return g
}

func confirmGuard(e *experiments.Experiment, c Consent) Guard {
	g := Guard{Name: confirmGuardName, Momentary: true, Says: "not needed: the run starts all that it touches"}
	targets := strings.Join(e.Foreign(), ", ")
	switch {
	case targets == "":
	case slices.Contains(c.Confirm, e.Name):
		g.Says = "given for " + targets
	default:
		g.Refuses, g.Flag = true, "--confirm="+e.Name
		g.Says = "the drill would touch what is not lockdrill's own (" + targets + "); to allow that, add --confirm " + e.Name
		if len(c.Confirm) > 0 {
			g.Says += ", not " + strings.Join(c.Confirm, ", ")
		}
	}
	return g
}

// environmentGuard compares what the file says with what each target says, or, where a Redis says nothing, the operator. A namespace
// must say it itself.
func environmentGuard(ctx context.Context, e *experiments.Experiment, c Consent, cluster *kube.Cluster) (Guard, error) {
	g := Guard{}
	if len(e.Foreign()) == 0 {
		g.Says = ownEnvironment + ": the run starts all that it touches"
		if e.Environment != ownEnvironment {
			g.Refuses, g.Says = true, fmt.Sprintf("the file is for %q, and what a run starts itself is %q", e.Environment, ownEnvironment)
		}
		return g, nil
	}
	var words []string
	for _, w := range witnesses(e, c, cluster) {
		is, by, err := w.declared(ctx, c)
		switch {
		case errors.Is(err, stores.ErrSettings):
			return g, usagef("%s: %w", e.Name, err)
		case err != nil:
			g.Refuses, g.Says = true, err.Error()
		case is == "":
			g.Refuses, g.Says, g.Momentary = true, w.silent, !w.alone
			if !w.alone {
				g.Flag = "--environment=" + e.Environment
			}
		case is != e.Environment:
			g.Refuses, g.Says = true, fmt.Sprintf("the file is for %q, and %s is %q (%s)", e.Environment, w.who, is, by)
		}
		if g.Refuses {
			return g, nil
		}
		if !slices.Contains(words, by) {
			words = append(words, by)
		}
	}
	verb := " says"
	if len(words) > 1 {
		verb = " say"
	}
	g.Says = e.Environment + ", as " + strings.Join(words, " and ") + verb
	return g, nil
}

// voice is a target that is asked what it is.
type voice struct {
	who    string
	ask    func(ctx context.Context) (name string, said bool, err error) // nil = it cannot say
	by     string                                                        // where it says so
	alone  bool                                                          // the operator's word does not stand for its own
	silent string                                                        // why the run is refused where nobody says it
}

// witnesses are all targets that the run does not start itself.
func witnesses(e *experiments.Experiment, c Consent, cluster *kube.Cluster) []voice {
	var all []voice
	if cluster != nil {
		for _, one := range cluster.Each() {
			namespace := "namespace " + one.Namespace
			all = append(all, voice{
				who: namespace, by: "the annotation " + kube.EnvironmentAnnotation + " of " + namespace, alone: true,
				ask: func(ctx context.Context) (string, bool, error) { return environmentOf(ctx, e, one) },
				silent: fmt.Sprintf("%s does not say what it is: kubectl annotate namespace %s %s=%s, by whoever answers for it; --environment does not replace that",
					namespace, one.Namespace, kube.EnvironmentAnnotation, e.Environment),
			})
		}
	}
	ask := func(who string, r experiments.Redis) {
		all = append(all, voice{
			who: who, by: who + "'s key " + stores.EnvironmentKey,
			ask: func(ctx context.Context) (string, bool, error) { return redis.Environment(ctx, r) },
			silent: fmt.Sprintf("%s %s does not say what it is: set its key (redis-cli SET %s %s), or say --environment %s", who, r.Target(), stores.EnvironmentKey,
				e.Environment, e.Environment),
		})
	}
	if e.Redis.Mode == experiments.RedisExternal {
		ask("the locks' store", e.Redis)
	}
	if kind, err := kindOf(e); err == nil && kind.Environment != nil && e.Store.Mode == experiments.StoreExternal {
		all = append(all, voice{
			who: "the locks' store", by: "the locks' store",
			ask:    func(ctx context.Context) (string, bool, error) { return kind.Environment(ctx, e.Store) },
			silent: fmt.Sprintf("%s does not say what it is: %s, or say --environment %s", e.Store.Target(), fmt.Sprintf(kind.Says, e.Environment), e.Environment),
		})
	}
	if e.Ledger.URL != "" {
		ask("the ledger's store", e.Ledger.AsRedis())
	}
	if len(all) == 0 {
		what := "what the drill strikes"
		if e.Proxy.Mode == experiments.ProxyExternal {
			what = "a Toxiproxy"
		}
		all = append(all, voice{who: "the target", silent: what + " does not say what it is for: say --environment " + e.Environment})
	}
	return all
}

// declared is what the target is, by its own word or else the operator's, and whose word that is; "" = nobody has said it.
func (w *voice) declared(ctx context.Context, c Consent) (is, by string, err error) {
	if w.ask == nil {
		return c.Environment, "--environment", nil
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	name, said, err := w.ask(ctx)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%s could not be asked: %w", w.who, err)
	case !said && w.alone:
		return "", "", nil
	case !said:
		return c.Environment, "--environment", nil
	case c.Environment != "" && c.Environment != name:
		return "", "", fmt.Errorf("%s says it is %q, and --environment says %q", w.who, name, c.Environment)
	}
	return name, w.by, nil
}

// ownEnvironment is the environment of what a run starts itself.
const ownEnvironment = "local"

// mayGoOn is asked every second of the run: a word for run.abort, and why; "" = it may.
func mayGoOn(e *experiments.Experiment, now time.Time) (word, why string) {
	if path := e.Limits.KillSwitch; path != "" && thrown(path) {
		return history.AbortKillSwitch, "limits.kill_switch " + path + " is there"
	}
	if why, _ := e.Shut(now); why != "" {
		return history.AbortWindow, why
	}
	return "", ""
}

func external(r experiments.Redis) bool { return r.Mode == experiments.RedisExternal }

// externals are somebody's own Redis servers that the drill uses: the locks' and the ledger's.
func externals(e *experiments.Experiment) []experiments.Redis {
	return slices.DeleteFunc([]experiments.Redis{e.Redis, e.Ledger.AsRedis()}, func(r experiments.Redis) bool { return !external(r) })
}

// rightsGuard refuses stores that would not let the run do what it needs, or take no writes now.
func rightsGuard(ctx context.Context, e *experiments.Experiment, reading bool) Guard {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	var keys []string // of somebody's own locks; the run's own have its prefix
	for i := range e.System.Locks {
		switch l := &e.System.Locks[i]; {
		case !e.Observed() || l.Lease != "":
		case l.Loop():
			keys = append(keys, l.Key)
		default:
			keys = append(keys, l.KeyOf("lockdrill-rights"))
		}
	}
	for _, store := range []struct {
		who string
		at  experiments.Redis
		of  []string
	}{{"the locks' store", e.Redis, keys}, {"the ledger's store", e.Ledger.AsRedis(), nil}} {
		if !external(store.at) {
			continue
		}
		switch err := redis.Rights(ctx, store.at, store.of, reading); {
		case errors.Is(err, redis.ErrNotTold):
			return Guard{Says: "not known until the run: " + err.Error()}
		case err != nil:
			return Guard{Refuses: true, Says: store.who + " " + err.Error()}
		}
	}
	return Guard{Says: "the store lets the run do what it needs"}
}
