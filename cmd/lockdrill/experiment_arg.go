package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

// loadExperiment reads what FILE|NAME stands for: a word without a separator and without .yaml is a shipped scenario,
// whatever lies in the working directory; anything else is a path. A problem is a usage error.
func loadExperiment(arg string, values ...string) (*experiments.Experiment, []byte, error) {
	e, data, err := parseExperiment(arg, values...)
	if err != nil {
		return nil, nil, err
	}
	if err := placeFiles(e, arg); err != nil {
		return nil, nil, err
	}
	return e, data, placeWorker(e, arg)
}

// setFlag overrides values of the experiment file, each given as PATH=VALUE.
func setFlag(flags *pflag.FlagSet) *[]string {
	return flags.StringArray("set", nil, "override a field of the file, as PATH=VALUE (system.locks.leader.poll=2s, slos.0.takeover.max=3s); may be given more than once")
}

// overridden are the values as a command that is to do the same has them, after the name of the file.
func overridden(values []string) string {
	var b strings.Builder
	for _, v := range values {
		if strings.ContainsFunc(v, func(r rune) bool {
			return !strings.ContainsRune("=./:_-@%+,", r) && (r > 'z' || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		}) {
			v = "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
		}
		b.WriteString(" --set " + v)
	}
	return b.String()
}

// parseExperiment is loadExperiment for whoever runs nothing: paths stay as the file has them.
func parseExperiment(arg string, values ...string) (*experiments.Experiment, []byte, error) {
	data, err := experimentSource(arg)
	if err != nil {
		return nil, nil, err
	}
	e, err := experiments.ParseWith(arg, data, values)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	if e.Kubernetes != nil {
		if err := deploy.CheckPod(e.Kubernetes.Pod); err != nil {
			return nil, nil, usagef("%s: %w", arg, err)
		}
	}
	return e, data, nil
}

// placeFiles makes the paths that an experiment names, if they are relative, ones below its own folder.
func placeFiles(e *experiments.Experiment, file string) error {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("%s: place its files: %w", file, err)
	}
	paths := []*string{&e.Redis.CA, &e.Ledger.CA, &e.Limits.KillSwitch}
	if e.Store != nil {
		paths = append(paths, &e.Store.CA)
	}
	if p := e.System.Processes; p != nil {
		paths = append(paths, &p.PIDFiles, &p.Log)
	}
	for i := range e.Probes.Metrics {
		paths = append(paths, &e.Probes.Metrics[i].CA)
	}
	for i := range e.Probes.PromQL {
		paths = append(paths, &e.Probes.PromQL[i].CA)
	}
	if a := e.Probes.Alerts; a != nil {
		paths = append(paths, &a.CA)
	}
	if l := e.Probes.Logs; l != nil {
		for i := range l.Files {
			paths = append(paths, &l.Files[i])
		}
	}
	for i := range e.BlockedBy {
		b := &e.BlockedBy[i]
		if paths = append(paths, &b.File); b.PromQL != nil {
			paths = append(paths, &b.PromQL.CA)
		}
	}
	for i := range e.System.Effects {
		paths = append(paths, &e.System.Effects[i].File, &e.System.Effects[i].Redis.CA)
	}
	for _, path := range paths {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return nil
}

// placeWorker makes a worker command that is a relative path one below the experiment's folder, so that the file can be run from
// anywhere. A command that cannot be executed is a usage error: nothing has to be started to know it.
func placeWorker(e *experiments.Experiment, file string) error {
	if len(e.System.Worker) == 0 {
		return nil
	}
	command := &e.System.Worker[0]
	if *command == "lockdrill" { // this very program, wherever it lies
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("%s: system.worker: find the own binary: %w", file, err)
		}
		*command = self
	}
	if strings.ContainsRune(*command, filepath.Separator) && !filepath.IsAbs(*command) {
		dir, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return fmt.Errorf("%s: place system.worker: %w", file, err)
		}
		*command = filepath.Join(dir, *command)
	}
	if _, err := exec.LookPath(*command); err != nil {
		return usagef("%s: system.worker: %w", file, err)
	}
	return nil
}

// useWorker puts a worker of the user's in place of the experiment's own. A relative path is one below the working directory.
func useWorker(e *experiments.Experiment, arg string, worker []string) error {
	switch {
	case e.Observed():
		return usagef("%s: -- %s: observed replicas are there already; a worker can be given where lockdrill starts the replicas", arg, worker[0])
	case e.Kubernetes != nil:
		return usagef("%s: -- %s: the replicas are pods, which run what is in their image; a worker can be given where they are processes", arg, worker[0])
	}
	path, err := exec.LookPath(worker[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return usagef("%s: -- %s: %w", arg, worker[0], err)
	}
	e.System.Worker = append([]string{path}, worker[1:]...)
	return nil
}

func experimentSource(arg string) ([]byte, error) {
	ext := filepath.Ext(arg)
	if filepath.Base(arg) == arg && ext != ".yaml" && ext != ".yml" {
		if data, ok := scenarios.Get(arg); ok {
			return data, nil
		}
		var names []string
		for _, s := range scenarios.List() {
			names = append(names, s.Name)
		}
		if isDir(arg) {
			return nil, aFolder(arg)
		}
		if meant := didYouMean(arg, names); meant != "" {
			return nil, usagef("%s: no such scenario%s A file is named with its .yaml or a path; lockdrill list shows the scenarios", arg, meant)
		}
		return nil, usagef("%s: no such scenario (shipped: %s; a file is named with its .yaml or a path)", arg, strings.Join(names, ", "))
	}
	if isDir(arg) {
		return nil, aFolder(arg)
	}
	data, err := experiments.ReadRegular(arg, experiments.MaxFile) // a byte more, and Parse says that it is too large
	if err != nil {
		return nil, usagef("%s: read: %w", arg, reason(err))
	}
	return data, nil
}

func aFolder(arg string) error {
	return usagef("%s: this is a folder; name an experiment file in it, such as %s", arg, filepath.Join(arg, "NAME.lockdrill.yaml"))
}

// listDoc is the document of `list -o json`.
type listDoc struct {
	SchemaVersion int           `json:"schemaVersion"`
	Scenarios     []listedDrill `json:"scenarios"`
}

type listedDrill struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Summary string `json:"summary"`
	Expect  int    `json:"expect"`          // the exit status that a run of it ends with
	Needs   string `json:"needs,omitempty"` // beyond this machine
}

func newListCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the shipped scenarios", Example: "  lockdrill list\n  lockdrill list -o json", Args: cobra.NoArgs}
	format := outputFlag(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		doc := listDoc{SchemaVersion: 1, Scenarios: []listedDrill{}}
		for _, s := range scenarios.List() {
			doc.Scenarios = append(doc.Scenarios, listedDrill(s))
		}
		if *format == outputJSON {
			return writeJSON(io.Out, doc)
		}
		w := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tENDS WITH\tWHAT IT SHOWS")
		for _, s := range doc.Scenarios {
			fmt.Fprintf(w, "%s\t%d %s\t%s\n", s.Name, s.Expect, verdict.ExitName(s.Expect), s.Summary)
			if s.Needs != "" {
				fmt.Fprintf(w, "\t\tneeds %s\n", s.Needs)
			}
		}
		return w.Flush()
	}
	return cmd
}
