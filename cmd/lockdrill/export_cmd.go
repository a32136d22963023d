package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/scenarios"
)

// exportKind is a kind of document. flags declares what it takes, and gives what renders it once that is parsed.
type exportKind struct {
	use, short, long, example string
	flags                     func(io streams, flags *pflag.FlagSet) renderer
}

// renderer makes a document of a command's arguments. What it cannot render is a mistake of whoever asks.
type renderer func(args []string) ([]byte, error)

// exportKinds are all of them; what each prints is to be kept beside what it is about, and read.
func exportKinds() []exportKind {
	return []exportKind{
		{"alerts", "Print alerting rules for Prometheus: each stands alone", "",
			"  lockdrill export alerts\n  lockdrill export alerts --metrics cordum\n  lockdrill export alerts --recording -o rules.yaml", exportAlerts},
		{"dashboard", "Print a Grafana dashboard of locks and drills, with annotations where faults were active", "", "  lockdrill export dashboard", exportDashboard},
		{"mapping", "Print a mapping from the signals of the alerts to metric names, to edit for yours", "", "  lockdrill export mapping", exportMapping},
		{"ci " + strings.Join(deploy.CISystems(), "|") + " [FILE|NAME]", "Print a CI step that gates on a drill's exit status and keeps its report",
			"ci prints a step for a CI system. The step runs the drill FILE|NAME (default first-drill), gates on its exit status, and keeps\n" +
				"the report whatever the status is. It tries again only after status 1 (the tool broke). docs/gating.md says what to adapt.",
			"  lockdrill export ci github\n  lockdrill export ci gitlab first-drill --on-inconclusive pass\n" +
				"  lockdrill export ci github first-drill --schedule \"17 5 * * 1\" --approve production", exportCI},
		{"deployment FILE|NAME", "Print a Deployment of workers for an experiment with kubernetes.pods: use",
			"deployment prints what a run with kubernetes.pods: apply would make for itself: a ServiceAccount without any permission, a\n" +
				"ConfigMap with the experiment, and a Deployment of workers (a StatefulSet with kubernetes.workers: statefulset). They join the fleet of that name over the store of the ledger.",
			"  lockdrill export deployment pods-job-locks", exportDeployment},
		{"rbac FILE|NAME", "Print ServiceAccount, Role and RoleBinding with the permissions that the experiment needs", "", "  lockdrill export rbac pods-job-locks", exportRBAC},
		{"job FILE|NAME", "Print a Job that drills once in the cluster: the gate of a release", "", "  lockdrill export job pods-job-locks --release 1.4", exportJob},
		{"cronjob FILE|NAME --schedule CRON", "Print a CronJob that drills by a schedule: a game day", "",
			`  lockdrill export cronjob pods-job-locks --schedule "0 3 * * 1-5" --time-zone Europe/Berlin`, exportCronJob},
		{"kustomize FILE|NAME --schedule CRON --dir DIR", "Write a kustomize base: CronJob, permissions, claim and NetworkPolicy; your overlays name the namespace", "",
			`  lockdrill export kustomize pods-job-locks --schedule "0 3 * * 1-5" --dir base`, exportFolder("kustomize", "base", deploy.Kustomize)},
		{"helm FILE|NAME --schedule CRON --dir DIR", "Write a Helm chart of the same objects as kustomize; values give image, schedule, storage and what the pod needs", "",
			`  lockdrill export helm pods-job-locks --schedule "0 3 * * 1-5" --dir chart`, exportFolder("helm", "chart", deploy.Helm)},
		{"server", "Print a server that keeps and shows the runs of Jobs when their pods are gone",
			"server prints lockdrill serve for a cluster: a ServiceAccount without any permission, a claim for the runs, a Deployment of one\n" +
				"pod, a Service and a NetworkPolicy. A Secret has the file of tokens under the key tokens; lockdrill serve token writes that file.\n" +
				"Jobs and CronJobs bring their runs there with export job --upload.",
			"  lockdrill export server --image registry.example/lockdrill:1.0.0 --namespace staging", exportServer},
		{"watch", "Print a watch of your locks that runs on, as a target of Prometheus",
			"watch prints lockdrill watch --listen for a cluster: a Deployment of one pod, a Service and a ServiceAccount; for Lease objects\n" +
				"also the Role that reads them. The alerts and the dashboard for its metrics: lockdrill export alerts --metrics watch, and\n" +
				"export dashboard --metrics watch.",
			"  lockdrill export watch --image lockdrill:1.0.0 --redis redis://redis:6379 --keys 'sched:*'\n" +
				"  lockdrill export watch --image lockdrill:1.0.0 -n shop --lease billing-leader", exportWatch},
		{"toxiproxy", "Print a Toxiproxy that stands between workers and Redis, for proxy.mode: external", "",
			"  lockdrill export toxiproxy --image registry.example/toxiproxy:2.12.0", exportToxiproxy},
	}
}

// command is the subcommand of a kind.
func (k *exportKind) command(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: k.use, Short: k.short, Long: k.long, Example: k.example, Args: cobra.NoArgs}
	render := k.flags(io, cmd.Flags())
	switch {
	case strings.Contains(k.use, "[FILE|NAME]"):
		cmd.Args, cmd.ValidArgsFunction = cobra.RangeArgs(1, 2), completedCI
	case strings.Contains(k.use, "FILE|NAME"):
		cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), completed(scenarioNames)
	}
	if cmd.Flags().Lookup("dir") == nil { // of those that write a folder
		fileFlag(cmd, io)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := render(args)
		if err != nil {
			return wrongIn(append(args, cmd.CommandPath())[0], err)
		}
		_, err = io.Out.Write(text)
		return err
	}
	return cmd
}

// wrongIn is a mistake of whoever asks, with its place, unless the error has a status of its own.
func wrongIn(place string, err error) error {
	if errors.As(err, new(*exitError)) || errors.As(err, new(*drill.Error)) {
		return err
	}
	return usagef("%s: %w", place, err)
}

func newExportCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export KIND",
		Short: "Print alerts, a dashboard, CI steps or manifests, with your names",
		Long: "export prints a document on stdout: alerts and a dashboard for the metrics of locks and drills, a CI step that gates on a drill,\n" +
			"or manifests for Kubernetes. If it leaves something out, it says so in the document and on stderr.",
		Example: "  lockdrill export alerts\n  lockdrill export ci github first-drill\n  lockdrill export job pods-job-locks --release 1.4",
		Args:    cobra.ArbitraryArgs,
	}
	for _, kind := range exportKinds() {
		cmd.AddCommand(kind.command(io))
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var kinds []string
		for _, sub := range cmd.Commands() {
			kinds = append(kinds, sub.Name())
		}
		if len(args) == 0 {
			return usagef("lockdrill export: which kind? There are %s", strings.Join(kinds, ", "))
		}
		meant := didYouMean(args[0], kinds)
		if args[0] == "rules" { // as they are called with Prometheus
			meant = ", did you mean \"alerts\"?"
		}
		return usagef("lockdrill export: unknown kind %q%s; there are %s", args[0], meant, strings.Join(kinds, ", "))
	}
	return cmd
}

// metricsFlag adds --metrics, whose value names a mapping.
func metricsFlag(flags *pflag.FlagSet) *string {
	return flags.String("metrics", deploy.MappingNames()[0], "whose metrics: "+strings.Join(deploy.MappingNames(), ", ")+", or a mapping FILE of your own (see export mapping)")
}

func exportAlerts(io streams, flags *pflag.FlagSet) renderer {
	metrics, form := metricsFlag(flags), deploy.RulesForm{}
	recording := flags.Bool("recording", false, "with the recording rules that dashboards share, and alerts on them")
	flags.BoolVar(&form.Resource, "resource", false, "as a PrometheusRule resource of the Prometheus operator")
	flags.Float64Var(&form.TimeScale, "time-scale", 1, "for a drill at this time_scale: multiplies windows, for and thresholds that are times")
	return func([]string) ([]byte, error) {
		if form.TimeScale <= 0 || form.TimeScale > 1 {
			return nil, usagef("--time-scale %g: want more than 0 and at most 1, like the time_scale of an experiment", form.TimeScale)
		}
		form.AlertsOnly = !*recording
		return mapped(io, *metrics, func(m *deploy.Mapping) ([]byte, []deploy.Dropped, error) { return deploy.Rules(m, form) })
	}
}

func exportDashboard(io streams, flags *pflag.FlagSet) renderer {
	metrics := metricsFlag(flags)
	return func([]string) ([]byte, error) { return mapped(io, *metrics, deploy.Dashboard) }
}

func exportMapping(_ streams, flags *pflag.FlagSet) renderer {
	from := flags.String("metrics", deploy.MappingNames()[0], "which of "+strings.Join(deploy.MappingNames(), ", "))
	return func([]string) ([]byte, error) {
		data, ok := deploy.MappingSource(*from)
		if !ok {
			return nil, fmt.Errorf("no mapping %q%s; there are %s", *from, didYouMean(*from, deploy.MappingNames()), strings.Join(deploy.MappingNames(), ", "))
		}
		return data, nil
	}
}

// mapped is what render makes of a mapping. It says on stderr what had to be left out.
func mapped(out streams, metrics string, render func(*deploy.Mapping) ([]byte, []deploy.Dropped, error)) ([]byte, error) {
	m, err := loadMapping(metrics)
	if err != nil {
		return nil, err
	}
	text, dropped, err := render(m)
	if err != nil {
		return nil, usagef("%w", err)
	}
	for _, d := range dropped {
		fmt.Fprintf(out.Err, "%s: %s\n", metrics, d)
	}
	return text, nil
}

// maxMapping bounds the file of a mapping.
const maxMapping = 1 << 20

// loadMapping reads what --metrics names: a shipped mapping, whatever lies in the working directory, else a file.
func loadMapping(arg string) (*deploy.Mapping, error) {
	data, ok := deploy.MappingSource(arg)
	if !ok {
		var err error
		if data, err = regular.ReadMost(arg, maxMapping); err != nil {
			hint := ""
			if !strings.ContainsAny(arg, "./") {
				hint = fmt.Sprintf("; shipped mappings are %s%s", strings.Join(deploy.MappingNames(), ", "), didYouMean(arg, deploy.MappingNames()))
			}
			return nil, usagef("%s: read: %w%s", arg, reason(err), hint)
		}
		if len(data) > maxMapping {
			return nil, usagef("%s: larger than 1 MiB: not a mapping", arg)
		}
	}
	m, err := deploy.ParseMapping(arg, data)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return m, nil
}

// completedCI completes a system of CI, and then a scenario.
func completedCI(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completed(deploy.CISystems)(cmd, args, begun)
	}
	return completed(scenarioNames)(cmd, args, begun)
}

// exportCI renders the step for a drill that is known to be valid: a gate that refuses every time gates nothing.
func exportCI(io streams, flags *pflag.FlagSet) renderer {
	o := deploy.CIOptions{Experiment: "first-drill"}
	onInconclusive := flags.String("on-inconclusive", "fail", "what an inconclusive drill does to the job: fail or pass")
	flags.StringVar(&o.Schedule, "schedule", "", `when (github, gitlab, jenkins): five fields of cron in numbers, "17 5 * * 1"`)
	flags.StringVar(&o.Approve, "approve", "", "ask first (github, gitlab, jenkins): a job prints the plan and its hash, the next, in this protected environment, runs that hash")
	return func(args []string) ([]byte, error) {
		if !slices.Contains(deploy.CISystems(), args[0]) {
			return nil, usagef("lockdrill export ci: unknown system %q%s; there are %s", args[0], didYouMean(args[0], deploy.CISystems()), strings.Join(deploy.CISystems(), ", "))
		}
		if *onInconclusive != "fail" && *onInconclusive != "pass" {
			return nil, usagef("--on-inconclusive %q: want fail or pass", *onInconclusive)
		}
		o.InconclusivePasses = *onInconclusive == "pass"
		if len(args) == 2 {
			o.Experiment = args[1]
		}
		name := o.Experiment
		e, data, err := parseExperiment(name)
		if err != nil {
			return nil, err
		}
		if _, ok := scenarios.Get(name); !ok {
			if !filepath.IsLocal(name) {
				return nil, usagef("%s: a CI job knows the files of its checkout only: give a path inside it, from its root", name)
			}
			o.File = data
		}
		o.Redis = e.Redis.Mode
		if o.Redis == experiments.RedisExternal {
			fmt.Fprintf(io.Err, "%s: uses a Redis that exists: add --confirm %s, and --environment where it is needed, to DRILL_FLAGS, or every run is refused (13)\n", name, e.Name)
		}
		text, err := deploy.CI(args[0], o)
		if err != nil {
			return nil, usagef("%s: %w", name, err)
		}
		return text, nil
	}
}
