// Package upload brings the folder of a run to a server of lockdrill.
//
// Its one invariant: it changes nothing in a run's folder.
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
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/regular"
)

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

// Bring brings these files of a run in its folder, and tries several times. id is as its history has it, and as the server will call it;
// answer is what a person may open.
func (t *Target) Bring(ctx context.Context, dir, id string, files []string) (answer string, err error) {
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
		if answer, err = t.once(ctx, dir, id, files); err == nil || errors.Is(err, ErrNever) || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// once sends the files as a tar.
func (t *Target) once(ctx context.Context, dir, id string, files []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	from, to := io.Pipe()
	packed := make(chan struct{})
	go func() { // ends with the request: the pipe is closed then
		defer close(packed)
		_ = to.CloseWithError(pack(to, dir, files))
	}()
	defer func() { _ = from.Close(); <-packed }()
	address := strings.TrimSuffix(t.URL, "/") + "/api/v1/runs/" + url.PathEscape(id)
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
	if asked := new(url.Error); errors.As(err, &asked) { // by the address that was given
		return "", fmt.Errorf("%s: %w", t.URL, asked.Err)
	}
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
