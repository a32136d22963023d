package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// stored is a run's folder whose history is being read: experiment and history are of one run.
type stored struct {
	dir    string
	exp    *experiments.Experiment
	file   *os.File
	events *history.Reader
	size   int64        // of the history, bytes
	passed atomic.Int64 // of these
	sum    hash.Hash    // of what has passed
}

// wantFolder refuses what cannot be the folder of a run, as arg named it.
func wantFolder(arg, dir string) error {
	const runs = "runs are folders such as "
	if isDir(dir) {
		return nil
	}
	switch _, err := os.Stat(arg); {
	case err == nil && isRunFolder(filepath.Dir(arg)):
		return usagef("%s: this is a file; %s%s", arg, runs, filepath.Dir(arg))
	case err == nil:
		return usagef("%s: this is a file, and no folder of a run; %s%s", arg, runs, filepath.Join(runsFolder, "latest"))
	}
	return usagef("%s: no such folder; %s%s", arg, runs, filepath.Join(runsFolder, "latest"))
}

// openStored opens what a run's folder holds. Files that are missing, damaged or not of one run are usage errors.
func openStored(dir string) (*stored, error) {
	if err := wantFolder(dir, dir); err != nil {
		return nil, err
	}
	data, err := readPart(dir, experimentFile)
	if err != nil {
		return nil, err
	}
	s := &stored{dir: dir, sum: sha256.New()}
	if s.file, err = regular.Open(s.path(historyFile)); err != nil {
		return nil, partError(dir, historyFile, err)
	}
	if err := s.begin(data); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stored) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stored) close() { _ = s.file.Close() } // it was only read

// begin reads the history's first line, and holds the experiment against it.
func (s *stored) begin(experiment []byte) (err error) {
	if info, err := s.file.Stat(); err == nil {
		s.size = info.Size()
	}
	if s.events, err = history.NewReader(s); err != nil {
		return usagef("%s: %w", s.path(historyFile), err)
	}
	h, path := s.events.Header(), s.path(experimentFile)
	if got := experiments.Digest(experiment); got != h.Digest {
		return usagef("%s: not the file of this run: its digest is %s, the history was recorded for %s", path, got, h.Digest)
	}
	if s.exp, err = experiments.ParseRun(path, experiment); err != nil {
		return usagef("%w", err)
	}
	// A rehearsal of a scaled file may have been at its real durations.
	if e := s.exp; h.Experiment != e.Name || h.TimeScale != e.TimeScale && (h.Mode == history.Live || h.TimeScale != 1) {
		return usagef("%s: not the history of %s: it says experiment %q at time scale %g, the file %q at %g",
			s.path(historyFile), path, h.Experiment, h.TimeScale, e.Name, e.TimeScale)
	}
	return nil
}

// Read is the history's file, and counts.
func (s *stored) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	s.passed.Add(int64(n))
	s.sum.Write(p[:n])
	return n, err
}

// sources are the bytes of both files, once the history is read.
func (s *stored) sources() (verdict.Sources, error) {
	if _, err := io.Copy(io.Discard, s); err != nil { // what follows a line that was cut off
		return verdict.Sources{}, fmt.Errorf("%s: read: %w", s.path(historyFile), reason(err))
	}
	return verdict.Sources{Experiment: s.events.Header().Digest, History: fmt.Sprintf("sha256:%x", s.sum.Sum(nil))}, nil
}

// facts reads the history, and shows each event to see as well.
func (s *stored) facts(see func(*history.Event)) (*analysis.Facts, error) {
	facts, err := analysis.Read(s.exp, history.Tee(s.events, see))
	if err != nil {
		return nil, usagef("%s: %w", s.path(historyFile), err)
	}
	return facts, nil
}

// readFacts reads what a run's folder holds, and judges nothing.
func readFacts(w io.Writer, dir string) (*analysis.Facts, verdict.Sources, error) {
	s, err := openStored(dir)
	if err != nil {
		return nil, verdict.Sources{}, err
	}
	defer s.close()
	facts, err := s.facts(func(*history.Event) {})
	if err != nil {
		return nil, verdict.Sources{}, err
	}
	of, err := s.sources()
	sayStrange(w, dir, of, judgesAnew)
	return facts, of, err
}

// judgesAnew is what commands that write no verdict do about one that is not of the history.
const judgesAnew = "the history is judged anew here, and lockdrill judge writes its verdict"

// readRun reads and judges what a run's folder holds, and writes nothing. On w it says how far
// it is with a long history, and names a verdict in the folder that is of another one; does says what the command does about that.
func readRun(w io.Writer, dir, does string) (reports.Run, error) {
	s, err := openStored(dir)
	if err != nil {
		return reports.Run{}, err
	}
	defer s.close()
	stop := sayEvery(w, func() string {
		if s.passed.Load() == s.size {
			return "judging " + fromHere(dir)
		}
		return fmt.Sprintf("read %d%% of %s", 100*s.passed.Load()/max(1, s.size), s.path(historyFile))
	})
	defer stop()
	record := reports.NewRecord(s.exp, s.events.Header(), s.again)
	facts, err := s.facts(record.See)
	if err != nil {
		return reports.Run{}, err
	}
	of, err := s.sources()
	if err != nil {
		return reports.Run{}, err
	}
	sayStrange(w, dir, of, does)
	j := facts.Judge()
	j.Sources = &of
	return reports.Run{Experiment: s.exp, Record: record, Judgement: j, Lanes: timeline.Read(facts.Facts, j)}, nil
}

// again reads single events once more, whether the run is still open or not.
func (s *stored) again(numbers []int64, see func(*history.Event)) error {
	f, err := regular.Open(s.path(historyFile))
	if err != nil {
		return err
	}
	defer f.Close()
	return s.events.Marks().Events(f, numbers, see)
}

func readPart(dir, name string) ([]byte, error) {
	data, err := regular.ReadMost(filepath.Join(dir, name), experiments.MaxFile)
	if err != nil {
		return nil, partError(dir, name, err)
	}
	return data, nil
}

func partError(dir, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%s: %s is missing: not the folder of a run", dir, name)
	}
	return usagef("%s: read: %w", filepath.Join(dir, name), reason(err))
}

// A verdict names the bytes that it was made from. One that lies beside other bytes is named, and one of before does not stay where the
// history is refused: either could be taken for what the history shows.

// aside is the end of the name of a document that was set aside.
const aside = ".old"

// strange says how the verdict in a run's folder does not belong to what lies beside it; "" where it does, or there is none.
func strange(dir string, now verdict.Sources) string {
	path := filepath.Join(dir, verdictFile)
	data, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var there struct {
		Run     *verdict.RunInfo
		Sources *verdict.Sources
	}
	if err == nil {
		err = json.Unmarshal(data, &there)
	}
	switch {
	case err != nil || there.Run == nil:
		return fmt.Sprintf("%s is no verdict of lockdrill", path)
	case there.Sources == nil:
		return fmt.Sprintf("%s does not say from which history it was made", path)
	case there.Sources.History != now.History:
		return fmt.Sprintf("%s does not belong to the %s beside it: it was made from one with %s, this one has %s", path, historyFile, short(there.Sources.History), short(now.History))
	case there.Sources.Experiment != now.Experiment:
		return fmt.Sprintf("%s does not belong to the %s beside it: it was made with one with %s, this one has %s", path, experimentFile, short(there.Sources.Experiment), short(now.Experiment))
	}
	return ""
}

// short is a digest as people compare it.
func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// sayStrange names a verdict in a run's folder that does not belong there; does says what this command does about it.
func sayStrange(w io.Writer, dir string, now verdict.Sources, does string) {
	if what := strange(dir, now); what != "" {
		fmt.Fprintf(w, "lockdrill: %s; %s\n", what, does)
	}
}

// setAside renames what was made of an earlier judgement in a run's folder that is refused now.
func setAside(w io.Writer, dir string) {
	if !isRunFolder(dir) {
		return
	}
	names, moved := []string{verdictFile}, []string{}
	for _, f := range formats() {
		if f.file != "" {
			names = append(names, f.file)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.Rename(path, path+aside); err != nil {
			fmt.Fprintf(w, "lockdrill: %s is of an earlier judgement and could not be set aside: %v\n", path, reason(err))
			continue
		}
		moved = append(moved, name+aside)
	}
	if len(moved) > 0 {
		fmt.Fprintf(w, "lockdrill: %s has no verdict now; that of an earlier judgement is kept as %s\n", fromHere(dir), strings.Join(moved, ", "))
	}
}
