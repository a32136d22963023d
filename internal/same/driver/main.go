// Command driver runs in one tree what `make same` compares, and writes what that tree gives: a line of JSON for each run, in one order.
// It stands in the folder of the inputs, which are those of one tree for both. What it calls is in adapter.go and random.go, of which
// each tree has its own. Its one invariant: the same tree and the same inputs give the same bytes.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// api is what a tree can be asked for. A field that an older adapter does not set is nil, and its runs are left out: to extend the
// oracle, add a field here and set it in the adapter.
type api struct {
	schemas  func() (docs, error)
	file     func(kind, path string) (docs, error) // an experiment or a gameday: its problems, or its forms
	recorded func(dir string) (docs, error)        // of a run's folder
	rehearse func(path string, seed int64) (docs, error)
	drill    func(seed uint64) (docs, error) // a random one
}

// docs are documents by name; the ending of a name says how two are compared: .json, .csv, .prom, .xml, .txt by lines, and .pairs, a
// list of names and values. A nil docs has nothing to compare.
type docs map[string]string

// line is the result of one run.
type line struct {
	Run   string `json:"run"`
	Input string `json:"input,omitempty"` // the file or folder that it reads
	Docs  docs   `json:"docs"`
	Error string `json:"error,omitempty"` // why there are none
	None  bool   `json:"none,omitempty"`  // the adapter does not know such runs
}

type unit struct {
	run, input string
	do         func() (docs, error)
}

func main() {
	out := flag.String("o", "", "file of the results, gzip")
	drills := flag.Uint64("drills", 2000, "random drills")
	seeds := flag.Int64("seeds", 10, "seeds of each scenario")
	flag.Parse()
	if err := write(*out, adapter(), *drills, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func write(out string, of api, drills uint64, seeds int64) error {
	units, err := unitsOf(of, drills, seeds)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriter(f)
	packed, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(packed)
	enc.SetEscapeHTML(false)
	for result := range each(units) {
		if err := enc.Encode(<-result); err != nil {
			return err
		}
	}
	return errors.Join(packed.Close(), buffered.Flush(), f.Close())
}

// each runs units on all cores and hands on their results in order; few are kept that wait for one before them.
func each(units []unit) <-chan chan line {
	results := make(chan chan line, runtime.GOMAXPROCS(0))
	go func() {
		defer close(results)
		for _, u := range units {
			result := make(chan line, 1)
			results <- result
			go func() { result <- u.result() }()
		}
	}()
	return results
}

func (u unit) result() (l line) {
	l = line{Run: u.run, Input: u.input, None: u.do == nil}
	defer func() {
		if broken := recover(); broken != nil {
			l.Docs, l.Error = nil, fmt.Sprint("panic: ", broken)
		}
	}()
	if u.do != nil {
		var err error
		if l.Docs, err = u.do(); err != nil {
			l.Docs, l.Error = nil, err.Error()
		}
	}
	return l
}

// unitsOf lists all runs, which are the same for both trees.
func unitsOf(of api, drills uint64, seeds int64) ([]unit, error) {
	files, recorded, err := inputs()
	if err != nil {
		return nil, err
	}
	all := []unit{{"schemas", "", when(of.schemas != nil, func() (docs, error) { return of.schemas() })}}
	for _, f := range files {
		all = append(all, unit{"file " + f, f, when(of.file != nil, func() (docs, error) { return of.file(kindOf(f), f) })})
	}
	for _, dir := range recorded {
		all = append(all, unit{"recorded " + dir, dir, when(of.recorded != nil, func() (docs, error) { return of.recorded(dir) })})
	}
	for _, f := range files {
		if kindOf(f) != kindExperiment || !strings.HasPrefix(f, "scenarios/") && !strings.HasPrefix(f, "reports/") || slices.Contains(recorded, path.Dir(f)) {
			continue
		}
		for seed := int64(1); seed <= seeds; seed++ {
			all = append(all, unit{fmt.Sprintf("rehearsed %s seed %d", f, seed), f,
				when(of.rehearse != nil, func() (docs, error) { return of.rehearse(f, seed) })})
		}
	}
	random := slices.Clone(seedsThatFailed)
	for seed := range drills {
		random = append(random, seed)
	}
	slices.Sort(random)
	for _, seed := range slices.Compact(random) {
		all = append(all, unit{fmt.Sprintf("random %d", seed), "", when(of.drill != nil, func() (docs, error) { return of.drill(seed) })})
	}
	return all, nil
}

// when is do, or nil where the adapter does not know it.
func when(known bool, do func() (docs, error)) func() (docs, error) {
	if !known {
		return nil
	}
	return do
}

const (
	kindExperiment = "experiment"
	kindGameDay    = "gameday"
)

// kindOf is what a file is meant to be, by its folder.
func kindOf(file string) string {
	if strings.Contains(file, "gamedays/") {
		return kindGameDay
	}
	return kindExperiment
}

// inputs are the files of experiments and game days in the working directory, and the folders of recorded runs.
func inputs() (files, recorded []string, err error) {
	for _, top := range []string{"cmd", "docs", "experiments", "reports", "scenarios", "analysis"} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			switch name = filepath.ToSlash(name); {
			case err != nil:
				return err
			case path.Ext(name) == ".yaml" && !d.IsDir():
				files = append(files, name)
			case path.Base(name) == "history.jsonl":
				if _, err := os.Stat(path.Join(path.Dir(name), "experiment.yaml")); err == nil {
					recorded = append(recorded, path.Dir(name))
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return files, recorded, nil
}
