package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/regular"
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

// given are those flags of these names that a command line has, word by word, for a command that is to do the same.
func given(flags *pflag.FlagSet, names ...string) (words []string) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, v := range values {
			if slices.Contains(names, f.Name) {
				words = append(words, "--"+f.Name, v)
			}
		}
	})
	return words
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
	for _, path := range e.Files() {
		if !filepath.IsAbs(*path) {
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
		if isDir(arg) {
			return nil, aFolder(arg)
		}
		if _, day := scenarios.GameDay(arg); day {
			return nil, usagef("%s: this is a game day: lockdrill run %[1]s leads it, and other commands read its experiments, each by its own name", arg)
		}
		return nil, usagef("%s: no such scenario%s; lockdrill list shows them, and a file is named with its .yaml or a path", arg, didYouMean(arg, scenarioNames()))
	}
	if isDir(arg) {
		return nil, aFolder(arg)
	}
	data, err := regular.ReadMost(arg, experiments.MaxFile) // a byte more, and Parse says that it is too large
	if err != nil {
		var near string
		if errors.Is(err, fs.ErrNotExist) {
			there, _ := filepath.Glob(filepath.Join(filepath.Dir(arg), "*.y*ml"))
			for i, name := range there {
				there[i] = filepath.Base(name)
			}
			near = didYouMean(filepath.Base(arg), there)
		}
		return nil, usagef("%s: read: %w%s", arg, reason(err), near)
	}
	return data, nil
}

func aFolder(arg string) error {
	return usagef("%s: this is a folder; name an experiment file in it, such as %s", arg, filepath.Join(arg, "NAME.lockdrill.yaml"))
}

// completed completes arguments with what names gives, and files.
func completed(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) (all []string, _ cobra.ShellCompDirective) {
		for _, name := range names() {
			if strings.HasPrefix(name, begun) {
				all = append(all, name)
			}
		}
		return all, cobra.ShellCompDirectiveDefault
	}
}

// scenarioNames are those of the shipped scenarios.
func scenarioNames() (names []string) {
	for _, s := range scenarios.List() {
		names = append(names, s.Name)
	}
	return names
}

// inFolders puts in place of each folder the experiment files in it, by name; files of another kind are named on w and left out.
func inFolders(w io.Writer, args []string) (all []string, err error) {
	for _, arg := range args {
		if _, shipped := scenarios.Get(arg); shipped || !isDir(arg) {
			all = append(all, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, usagef("%s: read: %w", arg, reason(err))
		}
		n := len(all)
		for _, e := range entries {
			path := filepath.Join(arg, e.Name())
			if ext := filepath.Ext(path); e.IsDir() || ext != ".yaml" && ext != ".yml" {
				continue
			}
			data, err := regular.ReadMost(path, experiments.MaxFile)
			if err != nil {
				return nil, usagef("%s: read: %w", path, reason(err))
			}
			if kind := experiments.KindOf(data); kind != experiments.KindExperiment {
				fmt.Fprintf(w, "%s: left out: it is no experiment\n", path)
				continue
			}
			all = append(all, path)
		}
		if len(all) == n {
			return nil, usagef("%s: this folder has no experiment file; one is YAML with kind: Experiment", arg)
		}
	}
	return all, nil
}
