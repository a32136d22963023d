package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// writeWithin bounds how long a pipe may keep a command waiting that has nothing else left to do.
const writeWithin = 10 * time.Second

// writeAtomically replaces a file in one step: a reader sees the old one or the new one, whole. What is there and is no regular file (a
// device, a pipe, a link) is written to instead: replaced, /dev/null would be a file from then on, for everybody on the machine.
func writeAtomically(path string, data []byte) (err error) {
	if !replaceable(path) {
		return writeInto(path, data)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("%s: write: %w", path, reason(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: write: %w", path, reason(err)), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// unfinished is the name of a file that writeAtomically has not renamed yet.
var unfinished = regexp.MustCompile(`^\.(.+)\.\d+$`)

// deadAfter is how old such a file is in a run's folder when nobody is writing it any more: its writer was killed.
const deadAfter = 10 * time.Minute

// dropUnfinished removes from a run's folder what a killed process has left of files that are made of the verdict.
func dropUnfinished(dir string) {
	entries, _ := os.ReadDir(dir) // none: nothing to remove
	for _, e := range entries {
		part := unfinished.FindStringSubmatch(e.Name())
		if part == nil || part[1] != verdictFile && !slices.ContainsFunc(formats(), func(f format) bool { return f.file == part[1] }) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > deadAfter {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// replaceable says whether path is a regular file, or nothing yet.
func replaceable(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || info.Mode().IsRegular()
}

// canWrite says whether writeAtomically could write there, and changes nothing.
func canWrite(path string) error {
	if !replaceable(path) {
		f, err := openInto(path)
		if err != nil {
			return fmt.Errorf("write: %w", reason(err))
		}
		return f.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write: %w", reason(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeOver is writeAtomically, but what is there stays the file that it is: it may be a mount, which cannot be replaced.
func writeOver(path string, data []byte) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return writeAtomically(path, data)
	}
	return writeInto(path, data)
}

// dropFile empties a file that could not be written, and removes it where that can be: what an earlier command left in it must not stand
// for this one.
func dropFile(path string) {
	if os.Truncate(path, 0) == nil && replaceable(path) {
		_ = os.Remove(path)
	}
}

// writeInto writes data into what is there. A file is cut to its length only afterwards: it is never empty, and a full disk has room
// for as much as it had. Where it has not, no half of it stays.
func writeInto(path string, data []byte) (err error) {
	f, err := openInto(path)
	if err != nil {
		return fmt.Errorf("%s: write: %w", path, reason(err))
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("%s: write: %w", path, reason(err))
		}
	}()
	_ = f.SetWriteDeadline(time.Now().Add(writeWithin)) // a pipe's; others know none
	if n, err := f.Write(data); err != nil {
		if n > 0 {
			_ = f.Truncate(0) // devices and pipes have no length
		}
		return err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(int64(len(data)))
}

// openInto opens what is there, or a new file. It does not wait for the reader of a pipe, who may never come.
func openInto(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
	if info, statErr := os.Stat(path); errors.Is(err, syscall.ENXIO) && statErr == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return nil, errors.New("a pipe that nobody reads")
	}
	return f, err
}
