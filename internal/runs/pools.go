package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/regular"
)

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
	data, err := regular.Read(path)
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
