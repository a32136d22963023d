// Package regular opens files that are files. A pipe, a device or a socket of such a name might never end, and nothing could end the
// wait for it.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNoFile is that of what is no file.
var ErrNoFile = errors.New("not a file")

// Open opens a file to read it, and waits for nobody where there is none.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name) // first: opening a device may do something to it
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be another one by now
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a file.
func Read(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadMost reads a file, and a byte more than of the most that is taken. Its errors do not repeat the name.
func ReadMost(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		if pe := new(fs.PathError); errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
