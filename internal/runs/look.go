package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

const (
	writeEach   = 100
	writeWithin = time.Second
	// QuietAfter is how long a history without an end may stand still: then it was cut off.
	QuietAfter = time.Minute
)

// Noted is a run as it was read.
type Noted struct {
	Run
	Seen *compare.Observed // nil: it was not judged
}

// Look reads what is new in the folder. What cannot be read is noted with its reason; only a folder that fails is an error.
func (x *Index) Look(ctx context.Context) error {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		return err
	}
	known := x.stamps()
	var news [][2]string // folder and stamp
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || strings.HasPrefix(name, ".") { // a link, such as latest, leads to one that has a name of its own
			continue
		}
		stamp := x.stamp(name)
		if stamp == "" {
			continue
		}
		if was, there := known[name]; !there || was != stamp {
			news = append(news, [2]string{name, stamp})
		}
		delete(known, name)
	}
	var fresh []Noted
	written := time.Now()
	for i, n := range news {
		if x.reader.Progress != nil {
			x.reader.Progress(i, len(news))
		}
		fresh = append(fresh, x.judge(ctx, n[0], n[1]))
		if ctx.Err() != nil { // the last one was not read to its end
			x.put(fresh[:len(fresh)-1], nil)
			return ctx.Err()
		}
		if len(fresh) >= writeEach || time.Since(written) >= writeWithin {
			x.put(fresh, nil)
			fresh, written = nil, time.Now()
		}
	}
	x.put(fresh, slices.Collect(maps.Keys(known)))
	return nil
}

// nameless is the stamp of a run whose history has no header yet.
const nameless = string(Running) + ", nameless"

// stamp tells the state of a run's folder from another; "" = it is none of a run. One that may still grow has another stamp once it is quiet.
func (x *Index) stamp(name string) string {
	history, err := os.Stat(filepath.Join(x.dir, name, x.reader.History))
	if err != nil || !history.Mode().IsRegular() {
		return ""
	}
	if time.Since(history.ModTime()) < QuietAfter && !x.ended(name) {
		if _, err := Header(filepath.Join(x.dir, name, x.reader.History)); err != nil { // not written yet: it is looked at again
			return nameless
		}
		return string(Running)
	}
	stamp := fmt.Sprintf("%d %s %d %s", compare.ObservedVersion, x.reader.Tool, history.Size(), history.ModTime().UTC().Format(time.RFC3339Nano))
	if e, err := os.Stat(filepath.Join(x.dir, name, x.reader.Experiment)); err == nil {
		stamp += fmt.Sprintf(" %d %s", e.Size(), e.ModTime().UTC().Format(time.RFC3339Nano))
	}
	return stamp
}

// ended reports whether a run's history has come to its end.
func (x *Index) ended(name string) bool {
	f, err := regular.Open(filepath.Join(x.dir, name, x.reader.History))
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

// judge takes from a run what the index has of it.
func (x *Index) judge(ctx context.Context, name, stamp string) Noted {
	dir := filepath.Join(x.dir, name)
	r := Noted{Run: Run{Folder: name, Stamp: stamp, State: Judged, Size: sizeOf(dir), Started: startedBy(name)}}
	r.Uploader, r.Beside = uploadOf(dir)
	if stamp == string(Running) || stamp == nameless {
		r.State, r.Verdict = Running, string(Running)
		x.named(&r.Run)
		return r
	}
	seen, err := x.reader.Observe(ctx, dir)
	if err != nil {
		r.State, r.Why, r.Exit = Unread, err.Error(), verdict.ExitInconclusive
		x.named(&r.Run)
		return r
	}
	r.ID, r.Bytes, r.Experiment, r.Started = seen.Run.ID, seen.Bytes, seen.Experiment, seen.Run.Started
	r.Verdict, r.Rehearsal, r.Labels, r.Why, r.Seen = seen.Run.Verdict, seen.Rehearsal, seen.Labels, cmp.Or(seen.Run.Why, seen.Why()), seen
	r.Exit, r.Ended = verdict.ExitError, seen.Ended
	for _, e := range verdict.Exits() {
		if e.Name == r.Verdict {
			r.Exit = e.Code
		}
	}
	return r
}

// named takes from a run's header what the index has of a run that is not judged. One whose header cannot be read started at the latest when
// its history was written.
func (x *Index) named(r *Run) {
	path := filepath.Join(x.dir, r.Folder, x.reader.History)
	h, err := Header(path)
	if err == nil {
		r.ID, r.Experiment, r.Started, r.Labels, r.Rehearsal = h.Run, h.Experiment, h.Started, h.Labels, h.Mode == history.Rehearsal
		return
	}
	if info, err := os.Stat(path); err == nil && r.Started == "" {
		r.Started = info.ModTime().UTC().Format(time.RFC3339Nano)
	}
}

// Header is the first line of a history.
func Header(path string) (history.Header, error) {
	f, err := regular.Open(path)
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

// UploadFile says, in the folder of a run that was uploaded, by whom, and for which run it was meant.
const UploadFile = "upload.json"

// Uploaded is what it says.
type Uploaded struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Beside string    `json:"beside,omitempty"` // the run that has its id, and other bytes
}

func uploadOf(dir string) (by, beside string) {
	data, err := regular.Read(filepath.Join(dir, UploadFile))
	var u Uploaded
	if err != nil || json.Unmarshal(data, &u) != nil {
		return "", ""
	}
	return u.By, u.Beside
}
