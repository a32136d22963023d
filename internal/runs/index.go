package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Files in a folder of runs. Names that begin with a dot are no runs.
const (
	File     = ".lockdrill-runs.jsonl"
	lockFile = ".lockdrill-serve.lock"
)

// ErrServed is that of a folder that another server has.
var ErrServed = errors.New("is served by another server already")

// Index is the file and what it says: the last line of a run counts.
type Index struct {
	dir    string
	reader Reader
	say    func(string)
	lock   *os.File // nil = it only reads

	mu           sync.Mutex
	runs         map[string]*Run // by folder
	environments map[string][]experiments.Setting
	sorted       []*Run // the latest first, and what contests them; nil = something has changed
	lines        int    // in the file
	broken       string // why the file could not be written, as it was said
}

// line of the file: a run, the folder of one that is gone, or an environment under its sum.
type line struct {
	Run         *Run                  `json:",omitempty"`
	Gone        string                `json:",omitempty"`
	Sum         string                `json:",omitempty"`
	Environment []experiments.Setting `json:",omitempty"`
}

// Open takes the folder, for as long as the index is open, and reads the index; anew = it forgets it. owner says who holds the folder, to
// whoever comes second.
func Open(dir, owner string, reader Reader, anew bool, say func(string)) (*Index, error) {
	lock, err := lockFolder(dir, owner)
	if err != nil {
		return nil, err
	}
	x := indexOf(dir, reader, anew, say)
	x.lock = lock
	return x, nil
}

// Read looks once, also where a server has the folder: each adds lines, and the last one of a run counts.
func Read(ctx context.Context, dir string, reader Reader, say func(string)) (*Index, error) {
	x := indexOf(dir, reader, false, say)
	return x, x.Look(ctx)
}

func indexOf(dir string, reader Reader, anew bool, say func(string)) *Index {
	x := &Index{dir: dir, reader: reader, say: say, runs: map[string]*Run{}, environments: map[string][]experiments.Setting{}}
	data, _ := regular.Read(x.path()) // what cannot be read is made anew
	if anew || !x.read(data) {
		x.written(x.rewrite())
	}
	return x
}

// Close frees the folder.
func (x *Index) Close() error {
	if x.lock == nil {
		return nil
	}
	return x.lock.Close()
}

func (x *Index) path() string { return filepath.Join(x.dir, File) }

// read takes what can be read of the file; whole = that was all of it.
func (x *Index) read(data []byte) (whole bool) {
	whole = true
	for text := range bytes.Lines(data) {
		var l line
		if !bytes.HasSuffix(text, []byte("\n")) || json.Unmarshal(text, &l) != nil {
			whole = false // cut off, or written over: that run is read again
			continue
		}
		x.apply(l)
	}
	return whole
}

func (x *Index) apply(l line) {
	x.lines++
	switch {
	case l.Run != nil:
		x.runs[l.Run.Folder] = l.Run
	case l.Gone != "":
		delete(x.runs, l.Gone)
	case l.Sum != "":
		x.environments[l.Sum] = l.Environment
	}
}

// put notes runs, and that folders are gone. Where more than half of the lines count no more, the file is written anew. A file that cannot
// be written costs only time at the next start.
func (x *Index) put(fresh []Noted, gone []string) {
	if len(fresh)+len(gone) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []line
	for i := range fresh {
		r := new(Run) // alone: what it was read from is let go
		*r = fresh[i].Run
		if seen := fresh[i].Seen; seen != nil {
			o := *seen
			r.Environment = sumOf(o.Environment)
			if _, known := x.environments[r.Environment]; !known {
				all = append(all, line{Sum: r.Environment, Environment: o.Environment})
				x.environments[r.Environment] = o.Environment
			}
			o.Environment = nil
			r.Seen, _ = json.Marshal(&o) // plain data
		}
		all = append(all, line{Run: r})
	}
	for _, folder := range gone {
		all = append(all, line{Gone: folder})
	}
	for _, l := range all {
		x.apply(l)
	}
	x.sorted = nil
	var err error
	if x.lines > 2*(len(x.runs)+len(x.environments))+100 {
		err = x.rewrite()
	} else {
		err = writeLines(x.path(), os.O_APPEND, all)
	}
	x.written(err)
}

// written says that the file could not be written, once for each reason.
func (x *Index) written(err error) {
	if text := fmt.Sprint(err); err != nil && text != x.broken {
		x.broken = text
		x.say("the index could not be written, and what it lacks is read again the next time: " + text)
	}
}

func sumOf(settings []experiments.Setting) string {
	text, _ := json.Marshal(settings) // plain data
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// rewrite writes what counts into a new file, and puts it in place at once.
func (x *Index) rewrite() error {
	var all []line
	used := map[string]bool{}
	for _, folder := range slices.Sorted(maps.Keys(x.runs)) {
		r := x.runs[folder]
		if r.Environment != "" && !used[r.Environment] {
			used[r.Environment] = true
			all = append(all, line{Sum: r.Environment, Environment: x.environments[r.Environment]})
		}
		all = append(all, line{Run: r})
	}
	maps.DeleteFunc(x.environments, func(sum string, _ []experiments.Setting) bool { return !used[sum] })
	beside := x.path() + ".new"
	if err := writeLines(beside, os.O_TRUNC, all); err != nil {
		return err
	}
	x.lines = len(all)
	return os.Rename(beside, x.path())
}

func writeLines(path string, how int, all []line) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK|how, 0o600) // a pipe that nobody reads is an error
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)
	for _, l := range all {
		err = errors.Join(err, to.Encode(l))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// stamps are the states of the folders when they were read.
func (x *Index) stamps() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make(map[string]string, len(x.runs))
	for folder, r := range x.runs {
		all[folder] = r.Stamp
	}
	return all
}

// all are the runs, the latest first. They are not changed any more.
func (x *Index) all() []*Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sorted != nil {
		return x.sorted
	}
	x.sorted = make([]*Run, 0, len(x.runs))
	for _, r := range x.runs {
		shown := *r
		x.sorted = append(x.sorted, &shown)
	}
	slices.SortFunc(x.sorted, func(a, b *Run) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(b.Folder, a.Folder))
	})
	contest(x.sorted)
	return x.sorted
}

// contest marks live runs that have one id and other bytes, and those that were uploaded for one another. Nobody knows which bytes are a
// run's own.
func contest(all []*Run) {
	folders, ids := map[string]*Run{}, map[string][]*Run{}
	for _, r := range all {
		folders[r.Folder] = r
		if r.ID != "" && !r.Rehearsal {
			ids[r.ID] = append(ids[r.ID], r)
		}
	}
	for _, same := range ids {
		for _, r := range same {
			if i := slices.IndexFunc(same, func(o *Run) bool { return o.Bytes != r.Bytes }); i >= 0 {
				r.Contested = same[i].Folder
			}
		}
	}
	for _, r := range all {
		if o := folders[r.Beside]; o != nil {
			r.Contested = cmp.Or(r.Contested, o.Folder)
			o.Contested = cmp.Or(o.Contested, r.Folder)
		}
	}
}

// Runs lists the runs that are meant, the latest first.
func (x *Index) Runs(q Query) (found []*Run) {
	for _, r := range x.all() {
		if q.takes(r) {
			found = append(found, r)
			if len(found) == q.Limit {
				break
			}
		}
	}
	return found
}

// Run is the run in that folder; nil = there is none.
func (x *Index) Run(folder string) *Run {
	all := x.all()
	if i := slices.IndexFunc(all, func(r *Run) bool { return r.Folder == folder }); i >= 0 {
		return all[i]
	}
	return nil
}

// Size is the bytes of all runs.
func (x *Index) Size() (size int64) {
	for _, r := range x.all() {
		size += r.Size
	}
	return size
}

// Observed is what a judged run brings to a comparison.
func (x *Index) Observed(r *Run) (*compare.Observed, error) {
	o := new(compare.Observed)
	if err := json.Unmarshal(r.Seen, o); err != nil {
		return nil, fmt.Errorf("%s: run %s: %w; delete the file, and the runs are read again", x.path(), r.Folder, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	o.Environment, o.Run.Folder = x.environments[r.Environment], r.Folder
	return o, nil
}

// lockFolder takes the folder, for as long as the file is open: it is free again when this process is dead, however it died.
func lockFolder(dir, owner string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		who, _ := io.ReadAll(io.LimitReader(f, 200)) // nothing: then it is not said who
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s %w (%s): stop that one, or serve another folder", dir, ErrServed, strings.TrimSpace(string(who)))
		}
		return nil, fmt.Errorf("%s: lock: %w", path, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(owner+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: write: %w", path, err), f.Close())
	}
	return f, nil
}
