package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/serve/store"
)

const (
	lookEvery   = 2 * time.Second
	restOfLooks = 20 // times as long as a look took: a large folder costs a twentieth of a core
	writeEach   = 100
	writeWithin = time.Second
	quietAfter  = time.Minute // a history without an end that has not grown for so long was cut off
)

// index keeps the store as the folder is, until ctx ends.
func (s *Server) index(ctx context.Context) error {
	first := true
	for {
		from := time.Now()
		if err := s.lookOver(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if first {
			close(s.looked)
			first = false
		}
		next := time.NewTimer(max(lookEvery, restOfLooks*time.Since(from)))
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-s.look:
		}
		if next.Stop(); ctx.Err() != nil {
			return nil
		}
	}
}

// lookOver reads what is new in the folder. What cannot be read is listed with its reason; only a folder or a database that fails is an error.
func (s *Server) lookOver(ctx context.Context) error {
	first := true // and all may have been told before an index was lost
	select {
	case <-s.looked:
		first = false
	default:
	}
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	known, err := s.store.Stamps(ctx)
	if err != nil {
		return err
	}
	indexed := map[string]bool{}
	for name := range known {
		indexed[name] = true
	}
	var fresh []store.Run
	written := time.Now()
	write := func() error {
		if len(fresh) == 0 {
			return nil
		}
		err := s.store.PutRuns(ctx, fresh)
		for i := range fresh {
			if r := &fresh[i]; err == nil && r.Uploader != "" && r.State == store.Judged && !indexed[r.Folder] && (len(indexed) > 0 || !first) {
				err = s.tell(ctx, r)
			}
		}
		fresh, written = fresh[:0], time.Now()
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name := e.Name(); e.IsDir() && !strings.HasPrefix(name, ".") { // a link, such as latest, leads to one that has a name of its own
			was, there := known[name]
			delete(known, name)
			stamp := s.stamp(name)
			if stamp == "" || there && was == stamp {
				continue
			}
			fresh = append(fresh, s.read(ctx, name, stamp))
			if len(fresh) < writeEach && time.Since(written) < writeWithin {
				continue
			}
			if err := write(); err != nil {
				return err
			}
		}
	}
	if err := write(); err != nil {
		return err
	}
	var gone []string
	for name := range known {
		gone = append(gone, name)
	}
	if len(gone) == 0 {
		return nil
	}
	return s.store.DropRuns(ctx, gone)
}

// tell says what an uploaded run came to.
func (s *Server) tell(ctx context.Context, r *store.Run) error {
	before := ""
	last, err := s.latest(ctx, store.Query{Experiment: r.Experiment, Before: r.Started})
	if err != nil {
		return err
	}
	if last != nil {
		before = last.Verdict
	}
	for _, hear := range s.hear {
		hear(*r, before)
	}
	return nil
}

// stamp tells the state of a run's folder from another; "" = it is none of a run. One that may still grow has another stamp once it is quiet.
func (s *Server) stamp(name string) string {
	history, err := os.Stat(filepath.Join(s.o.Dir, name, s.o.Reader.History))
	if err != nil || !history.Mode().IsRegular() {
		return ""
	}
	stamp := fmt.Sprintf("%s %d %s", s.o.Reader.Tool, history.Size(), history.ModTime().UTC().Format(time.RFC3339Nano))
	if e, err := os.Stat(filepath.Join(s.o.Dir, name, s.o.Reader.Experiment)); err == nil {
		stamp += fmt.Sprintf(" %d %s", e.Size(), e.ModTime().UTC().Format(time.RFC3339Nano))
	}
	if time.Since(history.ModTime()) < quietAfter && !s.ended(name) {
		stamp = "running"
	}
	return stamp
}

// ended reports whether a run's history has come to its end.
func (s *Server) ended(name string) bool {
	f, err := os.Open(filepath.Join(s.o.Dir, name, s.o.Reader.History))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	const tail = 64 << 10
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tail), tail))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(data) {
		var e struct{ Kind history.Kind }
		if bytes.HasSuffix(line, []byte("\n")) && json.Unmarshal(line, &e) == nil && e.Kind == history.RunEnd {
			return true
		}
	}
	return false
}

// read takes from a run what the index has of it.
func (s *Server) read(ctx context.Context, name, stamp string) store.Run {
	dir := filepath.Join(s.o.Dir, name)
	r := store.Run{Folder: name, Stamp: stamp, State: store.Judged, Size: sizeOf(dir), Started: startedBy(name)}
	r.Uploader, r.Beside = uploadOf(dir)
	if stamp == "running" {
		r.State, r.Verdict = store.Running, string(store.Running)
		s.named(&r)
		return r
	}
	s.judging <- struct{}{}
	seen, err := s.o.Reader.Observe(ctx, dir)
	<-s.judging
	if err != nil {
		r.State, r.Why, r.Exit = store.Unread, err.Error(), verdict.ExitInconclusive
		s.named(&r)
		return r
	}
	r.ID, r.Bytes, r.Experiment, r.Started = seen.Run.ID, seen.Bytes, seen.Experiment, seen.Run.Started
	r.Verdict, r.Rehearsal, r.Labels, r.Why, r.Seen = seen.Run.Verdict, seen.Rehearsal, seen.Labels, seen.Run.Why, seen
	r.Exit = exitOf(r.Verdict)
	return r
}

// named takes from a run's header what the index has of a run that is not judged. One whose header cannot be read started at the latest when
// its history was written.
func (s *Server) named(r *store.Run) {
	path := filepath.Join(s.o.Dir, r.Folder, s.o.Reader.History)
	h, err := headerOf(path)
	if err == nil {
		r.ID, r.Experiment, r.Started, r.Labels, r.Rehearsal = h.Run, h.Experiment, h.Started, h.Labels, h.Mode == history.Rehearsal
		return
	}
	if info, err := os.Stat(path); err == nil && r.Started == "" {
		r.Started = info.ModTime().UTC().Format(time.RFC3339Nano)
	}
}

func headerOf(path string) (history.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return history.Header{}, err
	}
	defer f.Close()
	r, err := history.NewReader(f)
	if err != nil {
		return history.Header{}, err
	}
	return r.Header(), nil
}

// startedBy is the time that the name of a run's folder begins with, or "".
func startedBy(name string) string {
	stamp, _, _ := strings.Cut(name, "-")
	at, err := time.Parse("20060102T150405.000Z", stamp)
	if err != nil {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what cannot be seen is not counted
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// uploadFile says, in the folder of a run that was uploaded, by whom, and for which run it was meant.
const uploadFile = "upload.json"

type uploaded struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Beside string    `json:"beside,omitempty"` // the run that has its id, and other bytes
}

func uploadOf(dir string) (by, beside string) {
	data, err := os.ReadFile(filepath.Join(dir, uploadFile))
	var u uploaded
	if err != nil || json.Unmarshal(data, &u) != nil {
		return "", ""
	}
	return u.By, u.Beside
}

var errNoRun = errors.New("there is no such run")
