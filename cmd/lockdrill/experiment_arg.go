package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

// loadExperiment reads what FILE|NAME stands for: a word without a separator and without .yaml is a shipped scenario,
// whatever lies in the working directory; anything else is a path. A problem is a usage error.
func loadExperiment(arg string) (*experiments.Experiment, []byte, error) {
	data, err := experimentSource(arg)
	if err != nil {
		return nil, nil, err
	}
	e, err := experiments.Parse(arg, data)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	return e, data, nil
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
		return nil, usagef("%s: no such scenario%s (shipped: %s; a file is named with its .yaml or a path)",
			arg, didYouMean(arg, names), strings.Join(names, ", "))
	}
	data, err := os.ReadFile(arg)
	if err != nil {
		return nil, usagef("%s: read: %w", arg, reason(err))
	}
	return data, nil
}
