package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

// newExportCmd has a subcommand for each kind of document; what it prints is to be kept beside what it is about, and read.
func newExportCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export KIND",
		Short: "Print alerts, a dashboard, CI steps or manifests, with your names",
		Long: "export prints a document on stdout: alerts and a dashboard for the metrics of locks and drills, a CI step that gates on a drill,\n" +
			"or manifests for Kubernetes. If it leaves something out, it says so in the document and on stderr.",
		Example: "  lockdrill export alerts\n  lockdrill export ci github first-drill\n  lockdrill export job pods-job-locks --release 1.4",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.AddCommand(
		newExportAlertsCmd(io), newExportDashboardCmd(io), newExportMappingCmd(io), newExportCICmd(io),
		newExportDeploymentCmd(io), newExportRBACCmd(io), newExportJobCmd(io), newExportCronJobCmd(io), newExportKustomizeCmd(io), newExportHelmCmd(io),
		newExportServerCmd(io), newExportWatchCmd(io), newExportToxiproxyCmd(io))
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, "FILE|NAME") && sub.ValidArgsFunction == nil {
			sub.ValidArgsFunction = completed(scenarioNames)
		}
		if sub.Flags().Lookup("dir") == nil { // of those that write a folder
			fileFlag(sub, io)
		}
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var kinds []string
		for _, sub := range cmd.Commands() {
			kinds = append(kinds, sub.Name())
		}
		if len(args) == 0 {
			return usagef("lockdrill export: which kind? There are %s", strings.Join(kinds, ", "))
		}
		return usagef("lockdrill export: unknown kind %q%s; there are %s", args[0], didYouMean(args[0], kinds), strings.Join(kinds, ", "))
	}
	return cmd
}

// metricsFlag adds --metrics, whose value names a mapping.
func metricsFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("metrics", deploy.MappingNames()[0],
		"whose metrics: "+strings.Join(deploy.MappingNames(), ", ")+", or a mapping FILE of your own (see export mapping)")
}

func newExportAlertsCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "alerts",
		Short:   "Print alerting rules for Prometheus: each stands alone",
		Example: "  lockdrill export alerts\n  lockdrill export alerts --metrics cordum\n  lockdrill export alerts --recording -o rules.yaml",
		Args:    cobra.NoArgs,
	}
	metrics := metricsFlag(cmd)
	form := deploy.RulesForm{}
	recording := cmd.Flags().Bool("recording", false, "with the recording rules that dashboards share, and alerts on them")
	cmd.Flags().BoolVar(&form.Resource, "resource", false, "as a PrometheusRule resource of the Prometheus operator")
	cmd.Flags().Float64Var(&form.TimeScale, "time-scale", 1, "for a drill at this time_scale: multiplies windows, for and thresholds that are times")
	cmd.RunE = func(*cobra.Command, []string) error {
		if form.TimeScale <= 0 || form.TimeScale > 1 {
			return usagef("--time-scale %g: want more than 0 and at most 1, like the time_scale of an experiment", form.TimeScale)
		}
		form.AlertsOnly = !*recording
		return exportFor(io, *metrics, func(m *deploy.Mapping) ([]byte, []deploy.Dropped, error) { return deploy.Rules(m, form) })
	}
	return cmd
}

func newExportDashboardCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dashboard",
		Short:   "Print a Grafana dashboard of locks and drills, with annotations where faults were active",
		Example: "  lockdrill export dashboard",
		Args:    cobra.NoArgs,
	}
	metrics := metricsFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return exportFor(io, *metrics, deploy.Dashboard) }
	return cmd
}

func newExportMappingCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "mapping",
		Short:   "Print a mapping from the signals of the alerts to metric names, to edit for yours",
		Example: "  lockdrill export mapping",
		Args:    cobra.NoArgs,
	}
	from := cmd.Flags().String("metrics", deploy.MappingNames()[0], "which of "+strings.Join(deploy.MappingNames(), ", "))
	cmd.RunE = func(*cobra.Command, []string) error {
		data, ok := deploy.MappingSource(*from)
		if !ok {
			return usagef("lockdrill export mapping: no mapping %q%s; there are %s", *from, didYouMean(*from, deploy.MappingNames()), strings.Join(deploy.MappingNames(), ", "))
		}
		_, err := io.Out.Write(data)
		return err
	}
	return cmd
}

// exportFor prints what render makes of a mapping, and says on stderr what it had to leave out.
func exportFor(out streams, metrics string, render func(*deploy.Mapping) ([]byte, []deploy.Dropped, error)) error {
	m, err := loadMapping(metrics)
	if err != nil {
		return err
	}
	text, dropped, err := render(m)
	if err != nil {
		return usagef("%w", err)
	}
	for _, d := range dropped {
		fmt.Fprintf(out.Err, "%s: %s\n", metrics, d)
	}
	_, err = out.Out.Write(text)
	return err
}

// maxMapping bounds the file of a mapping.
const maxMapping = 1 << 20

// loadMapping reads what --metrics names: a shipped mapping, whatever lies in the working directory, else a file.
func loadMapping(arg string) (*deploy.Mapping, error) {
	data, ok := deploy.MappingSource(arg)
	if !ok {
		f, err := os.Open(arg)
		if err != nil {
			hint := ""
			if !strings.ContainsAny(arg, "./") {
				hint = fmt.Sprintf("; shipped mappings are %s%s", strings.Join(deploy.MappingNames(), ", "), didYouMean(arg, deploy.MappingNames()))
			}
			return nil, usagef("%s: read: %w%s", arg, reason(err), hint)
		}
		defer f.Close()
		if data, err = io.ReadAll(io.LimitReader(f, maxMapping+1)); err != nil {
			return nil, usagef("%s: read: %w", arg, reason(err))
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

func newExportCICmd(out streams) *cobra.Command {
	systems := strings.Join(deploy.CISystems(), "|")
	cmd := &cobra.Command{
		Use:   "ci " + systems + " [FILE|NAME]",
		Short: "Print a CI step that gates on a drill's exit status and keeps its report",
		Long: "ci prints a step for a CI system. The step runs the drill FILE|NAME (default first-drill), gates on its exit status, and keeps\n" +
			"the report whatever the status is. It tries again only after status 1 (the tool broke). docs/gating.md says what to adapt.",
		Example: "  lockdrill export ci github\n  lockdrill export ci gitlab first-drill --on-inconclusive pass\n" +
			"  lockdrill export ci github first-drill --schedule \"17 5 * * 1\" --approve production",
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completed(deploy.CISystems)(cmd, args, begun)
		}
		return completed(scenarioNames)(cmd, args, begun)
	}
	onInconclusive := cmd.Flags().String("on-inconclusive", "fail", "what an inconclusive drill does to the job: fail or pass")
	schedule := cmd.Flags().String("schedule", "", `when (github, gitlab, jenkins): five fields of cron in numbers, "17 5 * * 1"`)
	approve := cmd.Flags().String("approve", "", "ask first (github, gitlab, jenkins): a job prints the plan and its hash, the next, in this protected environment, runs that hash")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !slices.Contains(deploy.CISystems(), args[0]) {
			return usagef("lockdrill export ci: unknown system %q%s; there are %s", args[0], didYouMean(args[0], deploy.CISystems()), strings.Join(deploy.CISystems(), ", "))
		}
		if *onInconclusive != "fail" && *onInconclusive != "pass" {
			return usagef("--on-inconclusive %q: want fail or pass", *onInconclusive)
		}
		o := deploy.CIOptions{Experiment: "first-drill", InconclusivePasses: *onInconclusive == "pass", Schedule: *schedule, Approve: *approve}
		if len(args) == 2 {
			o.Experiment = args[1]
		}
		return exportCI(out, args[0], o)
	}
	return cmd
}

// exportCI prints the step for a drill that is known to be valid: a gate that refuses every time gates nothing.
func exportCI(out streams, system string, o deploy.CIOptions) error {
	name := o.Experiment
	e, data, err := parseExperiment(name)
	if err != nil {
		return err
	}
	if _, ok := scenarios.Get(name); !ok {
		if !filepath.IsLocal(name) {
			return usagef("%s: a CI job knows the files of its checkout only: give a path inside it, from its root", name)
		}
		o.File = data
	}
	o.Redis = e.Redis.Mode
	if o.Redis == experiments.RedisExternal {
		fmt.Fprintf(out.Err, "%s: uses a Redis that exists: add --confirm %s, and --environment where it is needed, to DRILL_FLAGS, or every run is refused (13)\n", name, e.Name)
	}
	text, err := deploy.CI(system, o)
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	_, err = out.Out.Write(text)
	return err
}
