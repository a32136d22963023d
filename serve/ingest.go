package serve

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/internal/runs"
)

// Limits of uploads, in bytes.
type Limits struct {
	Upload int64         // of one run, unpacked
	Disk   int64         // of all runs in the folder
	Within time.Duration // for one upload
}

// DefaultLimits are generous for runs: a long drill's history has some hundred megabytes.
func DefaultLimits() Limits {
	return Limits{Upload: 1 << 30, Disk: 20 << 30, Within: 10 * time.Minute}
}

const (
	arriving   = ".lockdrill-arriving-" // begins the name of a folder that is being uploaded
	mostFiles  = 32                     // of one upload
	mostAtOnce = 4
)

// runName is what the folder of a run may be called.
var runName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,200}$`) })

type ingest struct {
	places chan struct{}
	mu     sync.Mutex // while names are given
	used   int64      // bytes that uploads under way may still take
}

// openIngest removes what uploads have left that were cut off.
func (s *Server) openIngest() error {
	s.ingest.places = make(chan struct{}, mostAtOnce)
	left, err := filepath.Glob(filepath.Join(s.o.Dir, arriving+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what is left of an upload: %w", err)
		}
	}
	s.handle("PUT /api/v1/runs/{id}", Upload, s.put)
	return nil
}

// put takes the folder of a run, as a tar.
func (s *Server) put(w http.ResponseWriter, r *http.Request) error {
	id, by := r.PathValue("id"), by(r).Name
	folder, fresh, err := s.take(w, r, id, by)
	if err != nil {
		word := "failed"
		if errors.As(err, new(*refusal)) {
			word = "refused"
			s.say("upload of %s by %s refused: %v", id, by, err)
		}
		s.metrics.uploads.WithLabelValues(word).Inc()
		return err
	}
	code, word := http.StatusOK, "known"
	if fresh {
		code, word = http.StatusCreated, "taken"
		select {
		case s.look <- struct{}{}:
		default:
		}
	}
	s.metrics.uploads.WithLabelValues(word).Inc()
	s.say("upload of %s by %s: %s as %s", id, by, word, folder)
	w.Header().Set("Location", "/runs/"+folder)
	return s.json(w, code, struct {
		SchemaVersion int    `json:"schemaVersion"`
		Folder        string `json:"folder"`
		Conflict      bool   `json:"conflict"` // another run has its id and other bytes: neither passes
	}{1, folder, folder != id})
}

// take unpacks beside, and gives the folder its name at once when all of it is on the disk.
func (s *Server) take(w http.ResponseWriter, r *http.Request, id, by string) (folder string, fresh bool, err error) {
	if !runName().MatchString(id) {
		return "", false, refuse(http.StatusBadRequest, "%q is no name of a run: want letters, digits and ._-", id)
	}
	select {
	case s.ingest.places <- struct{}{}:
		defer func() { <-s.ingest.places }()
	default:
		return "", false, refuse(http.StatusServiceUnavailable, "%d uploads are under way: try again in a minute", mostAtOnce)
	}
	release, err := s.reserve()
	if err != nil {
		return "", false, err
	}
	defer release()
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Limits.Within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return "", false, err
	}
	dir, err := os.MkdirTemp(s.o.Dir, arriving)
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(dir) // it is gone where it was given its name
	if err := s.unpack(dir, r.Body); err != nil {
		return "", false, err
	}
	if err := s.fits(dir); err != nil {
		return "", false, err
	}
	s.ingest.mu.Lock()
	defer s.ingest.mu.Unlock()
	folder, known, err := s.nameFor(dir, id)
	if err != nil || known {
		return folder, false, err
	}
	u := runs.Uploaded{By: by, At: time.Now().UTC()}
	if folder != id {
		u.Beside = id
	}
	note, err := json.Marshal(u)
	if err != nil {
		return "", false, err
	}
	if err := writeSynced(filepath.Join(dir, runs.UploadFile), bytes.NewReader(note)); err != nil {
		return "", false, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", false, err
	}
	if err := errors.Join(syncFolder(dir), os.Rename(dir, filepath.Join(s.o.Dir, folder))); err != nil {
		return "", false, err
	}
	return folder, true, syncFolder(s.o.Dir)
}

// reserve holds the place that an upload may take on the disk.
func (s *Server) reserve() (release func(), err error) {
	size := s.index.Size()
	s.ingest.mu.Lock()
	defer s.ingest.mu.Unlock()
	if size+s.ingest.used+s.o.Limits.Upload > s.o.Limits.Disk {
		return nil, refuse(http.StatusInsufficientStorage, "the runs take %d MB, and the server keeps at most %d MB (--most-disk): move old runs away", size>>20, s.o.Limits.Disk>>20)
	}
	s.ingest.used += s.o.Limits.Upload
	return func() {
		s.ingest.mu.Lock()
		defer s.ingest.mu.Unlock()
		s.ingest.used -= s.o.Limits.Upload
	}, nil
}

// unpack writes the files of a run, and none else. Reports are left out: they are made anew from the history.
func (s *Server) unpack(dir string, body io.Reader) error {
	wanted := []string{s.o.Reader.Experiment, s.o.Reader.History}
	left := s.o.Limits.Upload
	archive := tar.NewReader(io.LimitReader(body, 2*s.o.Limits.Upload))
	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse(http.StatusBadRequest, "the body is no whole tar: %v", err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		switch {
		case n >= mostFiles:
			return refuse(http.StatusRequestEntityTooLarge, "more than %d files", mostFiles)
		case h.Typeflag == tar.TypeDir && name == "":
			continue
		case h.Typeflag != tar.TypeReg:
			return refuse(http.StatusBadRequest, "%q is no regular file", h.Name)
		case name != filepath.Base(name) || !runName().MatchString(name):
			return refuse(http.StatusBadRequest, "%q is no name of a file in a run's folder", h.Name)
		case h.Size > left:
			return refuse(http.StatusRequestEntityTooLarge, "the run is larger than %d MB (--most-upload)", s.o.Limits.Upload>>20)
		}
		left -= h.Size
		if !slices.Contains(wanted, name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return refuse(http.StatusBadRequest, "%s is there twice", name)
		}
		from := &source{Reader: io.LimitReader(archive, h.Size)}
		if err := writeSynced(filepath.Join(dir, name), from); from.err != nil {
			return refuse(http.StatusBadRequest, "the body is no whole tar: %v", from.err)
		} else if err != nil {
			return err
		}
	}
}

// source remembers that reading failed, and not writing.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// fits refuses what is no run that has ended.
func (s *Server) fits(dir string) error {
	for _, name := range []string{s.o.Reader.Experiment, s.o.Reader.History} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return refuse(http.StatusBadRequest, "%s is missing: want the folder of a run", name)
		}
	}
	if _, err := runs.Header(filepath.Join(dir, s.o.Reader.History)); err != nil {
		return refuse(http.StatusBadRequest, "%s: %v", s.o.Reader.History, err)
	}
	return nil
}

// nameFor is the name that the run gets: its own, or where another run has that, one beside it. known: these very bytes are there.
func (s *Server) nameFor(dir, id string) (name string, known bool, err error) {
	sum, err := s.sum(dir)
	if err != nil {
		return "", false, err
	}
	for n := 1; n < 100; n++ {
		name = id
		if n > 1 {
			name = fmt.Sprintf("%s.conflict-%d", id, n-1)
		}
		there := filepath.Join(s.o.Dir, name)
		if _, err := os.Lstat(there); errors.Is(err, os.ErrNotExist) {
			return name, false, nil
		}
		if was, err := s.sum(there); err == nil && was == sum {
			return name, true, nil
		}
	}
	return "", false, refuse(http.StatusConflict, "a hundred runs contest the id %s", id)
}

// sum is of the bytes that a run's conclusion rests on.
func (s *Server) sum(dir string) (string, error) {
	h := sha256.New()
	for _, name := range []string{s.o.Reader.Experiment, s.o.Reader.History} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		n, err := io.Copy(h, f)
		fmt.Fprintf(h, "\n%d\n", n)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

func writeSynced(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder puts the names in a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
