package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/probes"
)

// logsEvery is how often what matched in logs is recorded, and files are read: each line has its own time.
const logsEvery = 200 * time.Millisecond

// openLogs reads logs, if a promise is about them: files from where they end now; pods' logs are handed on by whoever follows them.
func (d *Drill) openLogs(context.Context) error {
	named := d.e.Probes.Logs.Named()
	if len(named) == 0 {
		return nil
	}
	hide, err := redact(d.loaded)
	if err != nil {
		return err
	}
	logs, err := probes.NewLogs(patternsOf(named), hide)
	if err != nil {
		return err
	}
	if files := d.logFiles(); len(files.Globs) > 0 {
		if err := logs.Follow(files); err != nil {
			return &Error{verdict.ExitRefused, fmt.Errorf("probes.logs: read a log: %w", err)}
		}
	}
	d.lines = append(d.lines, logs)
	d.looks = append(d.looks, logs.Close)
	d.cfg.Probes = append(d.cfg.Probes, sampledLogs(logs, d.e.Probes.Logs.MaxGap))
	return nil
}

// sampledLogs is not Live: workers that take long to stop are read until they have.
func sampledLogs(logs *probes.Logs, maxGap time.Duration) runner.Sampled {
	return runner.Sampled{Name: probes.LogsName, Source: "probe:logs", Probe: logs, ProbeSettings: experiments.ProbeSettings{Every: logsEvery, MaxGap: maxGap}}
}

// logFiles are the files that the experiment names, and those of its replicas as they come to be known.
func (d *Drill) logFiles() probes.LogFiles {
	globs, of := logGlobs(d.e)
	writers := &writers{living: d.replicas, of: map[string]testbed.Living{}}
	return probes.LogFiles{
		Bus: &d.files, Globs: globs, Clock: d.clock, Writer: writers.writer,
		Want: func(path string) bool {
			return slices.ContainsFunc(of, func(glob string) bool { fits, _ := filepath.Match(glob, path); return fits }) || writers.knows(path)
		},
	}
}

// logGlobs are all patterns of paths that are read, and those of them that no replica has to be known for.
func logGlobs(e *experiments.Experiment) (all, files []string) {
	if l := e.Probes.Logs; l != nil {
		files = l.Files
	}
	all = slices.Clone(files)
	if p := e.System.Processes; p != nil && p.Log != "" {
		all = append(all, follow.Glob(p.Log))
	}
	return all, files
}

// writers know which replica writes to which file.
type writers struct {
	living func() []testbed.Living
	of     map[string]testbed.Living // by path: the last life
}

// knows reports whether a replica has ever written to the file.
func (w *writers) knows(path string) bool {
	_, known := w.look()[path]
	return known
}

func (w *writers) look() map[string]testbed.Living {
	for _, l := range w.living() {
		if l.Log != "" {
			w.of[filepath.Clean(l.Log)] = l
		}
	}
	return w.of
}

// writer is the life that writes to the file, and since when it surely does.
func (w *writers) writer(path string) (incarnation string, since int64) {
	l := w.look()[path]
	return l.Incarnation, l.Since
}

// replicas are the lives of somebody's own replicas that go on; none before they are watched.
func (d *Drill) replicas() []testbed.Living {
	if fleet, ok := d.cfg.Fleet.(observedFleet); ok {
		return fleet.Replicas()
	}
	return nil
}

func patternsOf(named []experiments.LogPattern) map[string]string {
	all := map[string]string{}
	for _, p := range named {
		all[p.Name] = p.Pattern
	}
	return all
}

// redact takes the secrets whose variables the experiment names out of a line of somebody's log.
func redact(e *experiments.Experiment) (func(string) string, error) {
	resolved, err := experiments.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("find the names of secrets: %w", err)
	}
	var pairs []string
	for _, name := range experiments.VariablesIn(resolved) {
		if secret := os.Getenv(name); secret != "" {
			pairs = append(pairs, secret, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace, nil
}
