// Package archive knows the runs in a folder of runs. What was concluded of each is kept in an index beside them, so that a thousand are
// at hand at once. The folders are the truth: an index that is missing, damaged or of another version is made anew, and a run whose files
// have changed is read again.
package archive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/experiments"
)

// IndexFile is the index in a folder of runs.
const IndexFile = ".lockdrill-index.json"

// Run is one folder of a run.
type Run struct {
	Folder string            // its path
	Seen   *compare.Observed // nil: it cannot be read
	Why    string            // why not
}

// Reader reads the runs of folders.
type Reader struct {
	Tool    string                                      // with its version: what another one concluded is concluded anew
	Files   []string                                    // of a run's folder, which a conclusion rests on
	Observe func(dir string) (*compare.Observed, error) // reads and judges one run
	Say     func(done, all int)                         // before each run that is read and not found in the index
}

// index is the file. Environments repeat from run to run, so each stands there once.
type index struct {
	Version      int // of what is observed of a run
	Tool         string
	Environments [][]experiments.Setting
	Runs         map[string]entry // by the folder's name
}

type entry struct {
	Stamp       []string // of each file: size and time of the last change
	Environment int
	Seen        *compare.Observed `json:",omitempty"`
	Why         string            `json:",omitempty"`
}

// Runs reads the runs in dir by the time of their start. A folder without any is no error.
func (r *Reader) Runs(dir string) ([]Run, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, IndexFile)
	old, now := r.load(path), index{Version: compare.ObservedVersion, Tool: r.Tool, Runs: map[string]entry{}}
	var names []string
	stamps := map[string][]string{}
	for _, e := range entries {
		if stamp := r.stamp(filepath.Join(dir, e.Name())); e.IsDir() && stamp != nil { // a link, such as latest, leads to one that has a name of its own
			names, stamps[e.Name()] = append(names, e.Name()), stamp
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Equal(old.Runs[name].Stamp, stamps[name]) })
	var runs []Run
	for _, name := range names {
		run, known := Run{Folder: filepath.Join(dir, name)}, old.Runs[name]
		if i := slices.Index(fresh, name); i < 0 {
			run.Seen, run.Why = known.Seen, known.Why
		} else {
			r.Say(i, len(fresh))
			if run.Seen, err = r.Observe(run.Folder); err != nil {
				run.Seen, run.Why = nil, err.Error()
			}
		}
		if run.Seen != nil {
			run.Seen.Run.Folder = run.Folder
		}
		runs = append(runs, run)
		now.add(name, stamps[name], run)
	}
	if len(fresh) > 0 || len(names) != len(old.Runs) {
		now.save(path)
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(a.started(), b.started()) })
	return runs, nil
}

// started is the time by which runs are ordered: names of folders begin with it.
func (r Run) started() string {
	if r.Seen != nil {
		return r.Seen.Run.Started
	}
	return filepath.Base(r.Folder)
}

// stamp tells the state of a run's files from another; nil = the folder is none of a run.
func (r *Reader) stamp(dir string) []string {
	var stamp []string
	there := false
	for _, name := range r.Files {
		s := "none"
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			s, there = fmt.Sprintf("%d %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), true
		}
		stamp = append(stamp, s)
	}
	if !there {
		return nil
	}
	return stamp
}

// load reads an index; one that cannot be used is empty.
func (r *Reader) load(path string) index {
	var ix index
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &ix) != nil || ix.Version != compare.ObservedVersion || ix.Tool != r.Tool {
		return index{}
	}
	for name, e := range ix.Runs {
		if e.Seen == nil {
			continue
		}
		if e.Environment < 0 || e.Environment >= len(ix.Environments) {
			return index{}
		}
		e.Seen.Environment = ix.Environments[e.Environment]
		ix.Runs[name] = e
	}
	return ix
}

func (ix *index) add(name string, stamp []string, r Run) {
	e := entry{Stamp: stamp, Why: r.Why}
	if r.Seen != nil {
		seen := *r.Seen
		e.Environment = slices.IndexFunc(ix.Environments, func(s []experiments.Setting) bool { return slices.Equal(s, seen.Environment) })
		if e.Environment < 0 {
			e.Environment, ix.Environments = len(ix.Environments), append(ix.Environments, seen.Environment)
		}
		seen.Environment = nil
		e.Seen = &seen
	}
	ix.Runs[name] = e
}

// save writes the index at once or not at all. Without one the next reading takes longer, and nothing else is lost.
func (ix *index) save(path string) {
	data, err := json.Marshal(ix)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), IndexFile+".*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(f.Name())
	}
}

// startsFile names the starts of pools in a folder of runs: one JSON document a line.
const startsFile = "pools.jsonl"

// start is from when on the runs of a folder belong to a pool. It is written before the first of them, so that nobody chooses it by what
// they showed.
type start struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
}

// NoteStart writes down that a pool begins now. A name stands for one start.
func NoteStart(dir, name string, now time.Time) error {
	if from, err := StartOf(dir, name); err == nil {
		return fmt.Errorf("%s: pool %q began %s already; give the new one another name", filepath.Join(dir, startsFile), name, from.Format(time.RFC3339))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line, err := json.Marshal(start{name, now.UTC()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, startsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// StartOf is when a pool began; fs.ErrNotExist where nobody wrote it down.
func StartOf(dir, name string) (time.Time, error) {
	path := filepath.Join(dir, startsFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, err
	}
	var known []string
	for n, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var s start
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return time.Time{}, fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		if s.Name == name {
			return s.From, nil
		}
		known = append(known, s.Name)
	}
	return time.Time{}, fmt.Errorf("%s: no pool %q%s: %w", path, name, map[bool]string{true: "; there are " + strings.Join(known, ", ")}[known != nil], fs.ErrNotExist)
}
