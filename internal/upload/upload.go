// Package upload brings the folder of a run to a server of lockdrill. What cannot be brought now is noted beside the runs and brought
// with the next.
//
// Its one invariant: it changes nothing in a run's folder, and a run that was noted is forgotten only when the server has it or says
// that it never will.
package upload

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/regular"
)

// Queue is the file of a folder of runs that names the runs that wait: a line each.
const Queue = "uploads.jsonl"

const (
	tries   = 4
	between = 2 * time.Second // doubled from try to try
	within  = 10 * time.Minute
)

// Target is a server.
type Target struct {
	URL    string
	Token  string
	Client *http.Client        // nil = one that follows no redirects
	Wait   func(time.Duration) // between tries; nil = waits
}

// ErrNever is wrapped by what the server will not take, however often it is asked.
var ErrNever = errors.New("the server does not take it")

// Check refuses addresses that no server has.
func (t *Target) Check() error {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q: want the address of a server, such as http://drills.example:8420", t.URL)
	case u.User != nil:
		return errors.New("the address has a user or a password in it: give the token by the environment or a file")
	}
	return nil
}

// Run is one run to be brought.
type Run struct {
	ID     string `json:"id"`     // as its history has it, and as the server will call it
	Folder string `json:"folder"` // its name in the folder of runs
}

// Bring brings a run in a folder of runs, and tries several times. answer is what a person may open.
func (t *Target) Bring(ctx context.Context, runs string, run Run, files []string) (answer string, err error) {
	wait := t.Wait
	if wait == nil {
		wait = func(d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
		}
	}
	pause := between
	for n := range tries {
		if n > 0 {
			wait(pause)
			pause *= 2
		}
		if answer, err = t.once(ctx, runs, run, files); err == nil || errors.Is(err, ErrNever) || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// once sends the files as a tar.
func (t *Target) once(ctx context.Context, runs string, run Run, files []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	from, to := io.Pipe()
	packed := make(chan struct{})
	go func() { // ends with the request: the pipe is closed then
		defer close(packed)
		_ = to.CloseWithError(pack(to, filepath.Join(runs, run.Folder), files))
	}()
	defer func() { _ = from.Close(); <-packed }()
	address := strings.TrimSuffix(t.URL, "/") + "/api/v1/runs/" + url.PathEscape(run.ID)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, from)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+t.Token)
	request.Header.Set("Content-Type", "application/x-tar")
	client := t.Client
	if client == nil { // a redirect would take the token along
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var doc struct {
		Error  string
		Folder string
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what it says is for people
	_ = json.Unmarshal(body, &doc)
	switch code := response.StatusCode; {
	case code == http.StatusOK || code == http.StatusCreated:
		return strings.TrimSuffix(t.URL, "/") + "/runs/" + url.PathEscape(doc.Folder), nil
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusConflict:
		return "", fmt.Errorf("%w: %d %s", ErrNever, code, doc.Error)
	default:
		return "", fmt.Errorf("the server answers %d %s", code, doc.Error)
	}
}

// pack writes those of the files that are there.
func pack(to io.Writer, dir string, files []string) error {
	w := tar.NewWriter(to)
	for _, name := range files {
		if err := packFile(w, filepath.Join(dir, name), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.Close()
}

func packFile(w *tar.Writer, path, name string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644, ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(w, io.LimitReader(f, info.Size()))
	return err
}

// waiting is a line of the queue.
type waiting struct {
	Run
	URL string `json:"url"`
}

// Note writes down that a run waits for a server.
func Note(runs string, run Run, address string) error {
	all, err := read(runs)
	if err != nil {
		return err
	}
	if w := (waiting{run, address}); !slices.Contains(all, w) {
		all = append(all, w)
	}
	return write(runs, all)
}

// Left brings what waits in a folder of runs for the server. It stops at the first that the server is away for; failed names it.
func (t *Target) Left(ctx context.Context, runs string, files []string, say func(string)) error {
	all, err := read(runs)
	if err != nil {
		return err
	}
	var stays []waiting
	var away error
	for _, w := range all {
		switch _, err := os.Stat(filepath.Join(runs, w.Folder)); {
		case errors.Is(err, fs.ErrNotExist):
			say(w.Folder + " is gone: it is not uploaded")
			continue
		case w.URL != t.URL || away != nil:
			stays = append(stays, w)
			continue
		}
		answer, err := t.once(ctx, runs, w.Run, files)
		switch {
		case err == nil:
			say("uploaded since: " + answer)
		case errors.Is(err, ErrNever):
			say(fmt.Sprintf("%s is not uploaded: %v", w.Folder, err))
		default:
			away, stays = err, append(stays, w)
		}
	}
	if len(stays) == len(all) {
		return away
	}
	return errors.Join(away, write(runs, stays))
}

func read(runs string) ([]waiting, error) {
	data, err := regular.Read(filepath.Join(runs, Queue))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []waiting
	for line := range strings.Lines(string(data)) {
		var w waiting
		if json.Unmarshal([]byte(line), &w) == nil && w.ID != "" && w.Folder == filepath.Base(w.Folder) && filepath.IsLocal(w.Folder) { // a line that was cut off was not written
			all = append(all, w)
		}
	}
	return all, nil
}

// write replaces the queue at once.
func write(runs string, all []waiting) error {
	path := filepath.Join(runs, Queue)
	if len(all) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.CreateTemp(runs, "."+Queue+".*")
	if err != nil {
		return err
	}
	e := json.NewEncoder(f)
	for _, w := range all {
		err = errors.Join(err, e.Encode(w))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
