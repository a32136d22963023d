package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/upload"
)

// manifestFlags are those of every export that is about pods.
type manifestFlags struct {
	namespace, image, secret string

	nowhere bool // in no namespace, whatever the file says
}

func (f *manifestFlags) flags(flags *pflag.FlagSet) {
	f.place(flags)
	flags.StringVar(&f.image, "image", "", "image with lockdrill (default: the file's)")
	flags.StringVar(&f.secret, "secret", "", "Secret with the names, passwords and tokens that the file names, each under the name of its variable (default: the file's, else "+deploy.DefaultSecret+")")
}

func (f *manifestFlags) place(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", "", "of the manifests (default: the file's, else none)")
}

// podDrill is an experiment whose replicas are pods, and the files that it names.
type podDrill struct {
	e        *experiments.Experiment
	resolved []byte
	files    map[string][]byte
}

// load reads an experiment for a cluster: flags win over the file, and what lies beside the file is read, because a pod has no such
// folder. Problems are usage errors.
func (f *manifestFlags) load(arg string) (*podDrill, error) {
	e, _, err := parseExperiment(arg)
	if err != nil {
		return nil, err
	}
	d := &podDrill{e: e, files: map[string][]byte{}}
	if e.Kubernetes == nil {
		return nil, usagef("%s: %w: add a section kubernetes, such as kubernetes: {namespace: staging}; docs/kubernetes.md has more", arg, deploy.ErrNoPods)
	}
	e.Kubernetes.Context = "" // a pod has one cluster: its own
	if f.namespace != "" || f.nowhere {
		e.Kubernetes.Namespace = f.namespace
	}
	if f.secret != "" {
		e.Kubernetes.Secret = f.secret // in the file of a Job too: the workers that its run makes need it
	}
	if f.image != "" && !e.Observed() { // observed pods have their own: it is that of the runner alone
		e.Kubernetes.Image = f.image
	}
	for _, path := range e.Own() {
		return nil, usagef("%s: %s is a certificate of the runner's own, or its key: no manifest has one", arg, *path)
	}
	for i, path := range e.Authorities() {
		from, name := *path, fmt.Sprintf("ca-%d.pem", i+1)
		switch path {
		case &e.Redis.CA:
			name = deploy.RedisCA
		case &e.Ledger.CA:
			name = deploy.LedgerCA
		}
		if !filepath.IsAbs(from) {
			from = filepath.Join(filepath.Dir(arg), from)
		}
		if d.files[name], err = drill.Authority(from); err != nil {
			return nil, err
		}
		*path = deploy.FilesDir + "/" + name
	}
	if d.resolved, err = experiments.Marshal(e); err != nil {
		return nil, fmt.Errorf("%s: %w", arg, err)
	}
	if _, err := experiments.Parse(arg+" with the flags of export", d.resolved); err != nil {
		return nil, usagef("%w", err)
	}
	return d, nil
}

func exportDeployment(io streams, flags *pflag.FlagSet) renderer {
	var f manifestFlags
	f.flags(flags)
	return func(args []string) ([]byte, error) {
		d, err := f.load(args[0])
		if err != nil {
			return nil, err
		}
		if d.e.Kubernetes.Pods == experiments.PodsApply {
			fmt.Fprintf(io.Err, "%s: kubernetes.pods is apply: its runs make workers of their own, and leave these idle; they are for pods: use\n", args[0])
		}
		o, err := deploy.WorkersFor(d.e, d.e.Name)
		if err != nil {
			return nil, err
		}
		o.Experiment, o.Files = d.resolved, d.files
		return joined(deploy.Workers(o))
	}
}

// joined are documents as one.
func joined(docs [][]byte, err error) ([]byte, error) { return deploy.Join(docs), err }

func exportRBAC(_ streams, flags *pflag.FlagSet) renderer {
	var f manifestFlags
	f.place(flags)
	account := flags.String("service-account", "", "one that exists (default: a new one)")
	return func(args []string) ([]byte, error) {
		d, err := f.load(args[0])
		if err != nil {
			return nil, err
		}
		if d.e.Kubernetes.Namespace == "" {
			return nil, errors.New("a RoleBinding names the namespace of its ServiceAccount: set kubernetes.namespace, or --namespace")
		}
		return joined(deploy.Role(deploy.RoleOptions{
			Name: deploy.RunnerName(d.e.Name), Namespace: d.e.Kubernetes.Namespace, ServiceAccount: *account, Rules: roleRules(d.e),
		}))
	}
}

// roleRules permit a run, and the summary that its runner leaves.
func roleRules(e *experiments.Experiment) []deploy.Rule {
	var all []deploy.Rule
	for _, r := range drill.Rules(e, deploy.SummaryName(e.Name)) {
		all = append(all, deploy.Rule(r))
	}
	return all
}

// jobFlags are those of a Job and of a CronJob.
type jobFlags struct {
	manifestFlags
	asked                             deploy.JobOptions
	environment, pushgateway, metrics string
	onInconclusive                    inconclusiveAs
}

func (f *jobFlags) flags(flags *pflag.FlagSet) {
	f.manifestFlags.flags(flags)
	flags.StringVar(&f.asked.Account, "service-account", "", "of the run (default: that of export rbac)")
	flags.StringVar(&f.asked.Claim, "claim", "", "PersistentVolumeClaim that keeps the runs' folders (default: a new one)")
	flags.StringVar(&f.asked.Storage, "storage", "1Gi", "size of the new claim")
	flags.BoolVar(&f.asked.Ephemeral, "ephemeral", false, "no claim: the runs' folders, undo journals among them, are gone with the pod")
	flags.StringVar(&f.environment, "environment", "", "what the Redis is, where it does not say so itself")
	flags.StringVar(&f.pushgateway, "pushgateway", "", "URL of a Pushgateway that gets the metrics of each run")
	flags.StringVar(&f.asked.Upload, "upload", "", "address of a lockdrill serve that gets each run, as export server makes one; the Secret has its token as "+deploy.UploadTokenEnv)
	flags.StringVar(&f.metrics, "metrics-file", "", "metrics for a textfile collector: a path in the pod; a relative one is on the claim, beside runs")
	f.onInconclusive.flag(flags)
}

// scheduled adds when a game day is.
func (f *jobFlags) scheduled(flags *pflag.FlagSet) {
	flags.StringVar(&f.asked.Schedule, "schedule", "", `when: five fields of cron, "0 3 * * 1-5" (needed)`)
	flags.StringVar(&f.asked.TimeZone, "time-zone", "Etc/UTC", "of the schedule, as in the tz database")
}

func (f *jobFlags) checkSchedule(kind string) error {
	if f.asked.Schedule == "" {
		return usagef(`lockdrill export %s: when? Say --schedule, such as --schedule "0 3 * * 1-5"`, kind)
	}
	if _, err := time.LoadLocation(f.asked.TimeZone); err != nil || f.asked.TimeZone == "Local" {
		return usagef("--time-zone %q: want a name of the tz database, such as Europe/Berlin", f.asked.TimeZone)
	}
	return nil
}

// options are what was asked, and what the experiment says.
func (f *jobFlags) options(arg string) (o deploy.JobOptions, e *experiments.Experiment, err error) {
	if err := f.onInconclusive.check(); err != nil {
		return o, nil, err
	}
	if f.asked.Claim != "" && f.asked.Ephemeral {
		return o, nil, usagef("--claim and --ephemeral exclude each other: either the folders are kept, or they are not")
	}
	if u, err := url.Parse(f.pushgateway); f.pushgateway != "" && (err != nil || u.Host == "" || u.User != nil) {
		return o, nil, usagef("--pushgateway: want the URL of a Pushgateway, without a user: everybody who may read the Job reads its arguments")
	}
	if err := (&upload.Target{URL: f.asked.Upload}).Check(); f.asked.Upload != "" && err != nil {
		return o, nil, usagef("--upload: %w", err)
	}
	d, err := f.load(arg)
	if err != nil {
		return o, nil, err
	}
	o = f.asked
	if err := o.Drill(d.e); err != nil {
		return o, nil, usagef("%s: %w", arg, err)
	}
	o.Image, o.Resolved, o.Files = cmp.Or(f.image, o.Image), d.resolved, d.files
	for _, add := range [][2]string{{"--pushgateway", f.pushgateway}, {"--metrics-file", f.metrics}, {"--environment", f.environment}, {"--on-inconclusive", string(f.onInconclusive)}} {
		if add[1] != "" {
			o.Flags = append(o.Flags, add[:]...)
		}
	}
	return o, d.e, nil
}

func exportJob(_ streams, flags *pflag.FlagSet) renderer {
	var f jobFlags
	f.flags(flags)
	flags.StringVar(&f.asked.Release, "release", "", "what it is the gate of: part of the Job's name, so that each release has a Job of its own")
	flags.BoolVar(&f.asked.Suspend, "suspend", false, "made suspended: the drill begins when somebody whom RBAC lets change the Job sets spec.suspend to false")
	flags.StringVar(&f.asked.Plan, "plan", "", "run only what has this hash, as lockdrill plan --hash prints it; anything else is refused")
	flags.BoolVar(&f.asked.Recover, "recover", false, "no drill: lockdrill recover for what runs on the claim have left")
	return func(args []string) ([]byte, error) {
		o, _, err := f.options(args[0])
		if err != nil {
			return nil, err
		}
		if o.Recover && (o.Suspend || o.Plan != "") {
			return nil, usagef("--recover drills nothing: --suspend and --plan are for a drill")
		}
		return joined(deploy.Job(o))
	}
}

func exportCronJob(_ streams, flags *pflag.FlagSet) renderer {
	var f jobFlags
	f.flags(flags)
	f.scheduled(flags)
	return func(args []string) ([]byte, error) {
		if err := f.checkSchedule("cronjob"); err != nil {
			return nil, err
		}
		o, _, err := f.options(args[0])
		if err != nil {
			return nil, err
		}
		return joined(deploy.CronJob(o))
	}
}

// exportFolder writes scheduled drills as the files of a folder, in no namespace, and gives their names.
func exportFolder(kind, folder string, render func(deploy.KustomizeOptions) (map[string][]byte, error)) func(streams, *pflag.FlagSet) renderer {
	return func(_ streams, flags *pflag.FlagSet) renderer {
		f := jobFlags{manifestFlags: manifestFlags{nowhere: true}} // a Role permits what it says in its own namespace only, so the rule about it needs no name
		f.flags(flags)
		_ = flags.MarkHidden("namespace") // an overlay names it, or the release
		f.scheduled(flags)
		dir := flags.String("dir", "", "folder of the "+folder+", which must be empty or not there yet (needed)")
		return func(args []string) ([]byte, error) {
			switch {
			case f.namespace != "":
				return nil, usagef("lockdrill export %s: a %s is in no namespace: whoever installs it names theirs", kind, folder)
			case *dir == "":
				return nil, usagef("lockdrill export %s: where? Say --dir, such as --dir %s", kind, folder)
			}
			if err := f.checkSchedule(kind); err != nil {
				return nil, err
			}
			o, e, err := f.options(args[0])
			if err != nil {
				return nil, err
			}
			network, err := deploy.NetworkFor(e)
			if err != nil {
				return nil, err
			}
			network.Reach(f.pushgateway, o.Upload)
			files, err := render(deploy.KustomizeOptions{Job: o, Network: network, Rules: roleRules(e)})
			if err != nil {
				return nil, err
			}
			return writeFolder(*dir, files)
		}
	}
}

// writeFolder writes files into a folder that holds nothing yet, and says which.
func writeFolder(dir string, files map[string][]byte) (said []byte, err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, usagef("%s: the folder is not empty; export never writes over what is there", dir)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, usagef("%s: make its folder: %w", path, reason(err))
		}
		if err := writeAtomically(path, files[name]); err != nil {
			return nil, &exitError{code: verdict.ExitError, err: err}
		}
		said = fmt.Appendln(said, path)
	}
	return said, nil
}
