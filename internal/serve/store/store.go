// Package store keeps what the server knows in one SQLite file in the folder that it serves, and holds that folder alone. It knows
// nothing of HTTP, and nothing of how a run is read or judged. Each feature has its tables in a file of its own.
//
// Its one invariant: what it says of runs can be made anew from their folders.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockdrill/lockdrill/analysis/compare"
)

// Files in a folder that is served. Names that begin with a dot are no runs.
const (
	File     = ".lockdrill-serve.db"
	lockFile = ".lockdrill-serve.lock"
)

// ErrBuild is returned by a build without SQLite.
var ErrBuild = errors.New("this build of lockdrill has no SQLite, which the server keeps its index in: build with `go build -tags full ./cmd/lockdrill`, or take a released binary")

// ErrServed is that of a folder that another server has.
var ErrServed = errors.New("is served by another server already")

// Store is the database of one folder.
type Store struct {
	db   *sql.DB
	lock *os.File
}

// Open locks the folder and opens its database. owner says who holds the folder, to whoever comes second.
func Open(ctx context.Context, dir, owner string) (*Store, error) {
	if driver == "" {
		return nil, ErrBuild
	}
	lock, err := lockFolder(dir, owner)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, File)
	s := &Store{lock: lock}
	// A writer waits for another one; what was committed outlives a power cut.
	s.db, err = sql.Open(driver, "file:"+escaped.Replace(path)+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err == nil {
		s.db.SetMaxOpenConns(4)
		err = s.createRuns(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: open: %w; if it is damaged, move it away: runs are indexed anew, and only the record of schedules is lost", path, err), s.Close())
	}
	return s, nil
}

// escaped are the characters of a path that mean something in a URI.
var escaped = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")

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

// DB is the database, for the files of this package that keep other things in it.
func (s *Store) DB() *sql.DB { return s.db }

// Create makes tables that are not there yet.
func (s *Store) Create(ctx context.Context, schema string) error {
	_, err := s.db.ExecContext(ctx, schema)
	return err
}

// createRuns makes the index over runs. What was observed in another version's terms is forgotten: the folders are the truth.
func (s *Store) createRuns(ctx context.Context) error {
	var version int
	err := errors.Join(s.Create(ctx, runsSchema), s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version))
	if err != nil || version == compare.ObservedVersion {
		return err
	}
	if err := s.Reindex(ctx); err != nil {
		return err
	}
	return s.Create(ctx, fmt.Sprintf("PRAGMA user_version = %d", compare.ObservedVersion))
}

// Tx makes several changes or none.
func (s *Store) Tx(ctx context.Context, change func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.PingContext(ctx) }

// Close closes the database and frees the folder.
func (s *Store) Close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.lock.Close())
}
