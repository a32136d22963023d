// Package effects reads what a system that is not ours writes about its jobs, their ends and the ticks of its loops, wherever it keeps
// that: one file a kind of source.
//
// A Reader reads a source, a Probe turns what it gives into entries of the history by one mapping for all sources. Both only read. The
// one invariant: an entry has a bracket that surely contains the instant at which the source had it first, and where entries may be gone
// that nobody has read, that is said and stays.
package effects

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockdrill/lockdrill/history"
)

// Reader reads one source. Reads are made one after the other.
type Reader interface {
	// Read gives what is new since the read before; the first finds where the run begins, and gives nothing. With final it gives whatever
	// has come since the first read and was not given yet.
	Read(ctx context.Context, final bool) (Batch, error)
	// Last gives the last n entries that are there, the newest last. It may be asked of a reader that has read nothing.
	Last(ctx context.Context, n int) ([]Row, error)
	Close() error
}

// Batch is what a read gave.
type Batch struct {
	Entries []Entry
	Unread  []Unread // what may have been entries and could not be read
	Partial bool     // more was there than one read takes
	Lost    string   // why entries may be gone that nobody has read; "" = none can be
}

// Unread are records of a source that nobody could read.
type Unread struct {
	history.Unread // but for its Source
	At             history.Span
}

// Entry is one entry of a source.
type Entry struct {
	Row
	Writer    string        // the incarnation that wrote it, where the source knows
	Unordered bool          // nothing tells its order among the entries of the same read
	Late      bool          // reads before may have passed it over: it may be as old as the first of them
	At        *history.Span // when it was written, where the source knows better than the reads tell
}

// ErrSource is wrapped by errors that a person mends in the file, or at what it names: nothing was read.
var ErrSource = errors.New("cannot be read as it is declared")

// Declared says what is wrong with what the file says of a source.
func Declared(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSource, fmt.Sprintf(format, args...))
}

// ErrBuild says that this build has no driver for a source.
var ErrBuild = fmt.Errorf("%w: this build has no SQL drivers: use the release or the image, or build it with -tags full (make build does)", ErrSource)

// Counted tells what is new in a source whose entries have no number: those of which a read has more than reads before had.
type Counted map[string]int

// News are the indexes of the entries that are new.
func (c Counted) News(keys []string) []int {
	var fresh []int
	now := make(map[string]int, len(keys))
	for i, k := range keys {
		if now[k]++; now[k] > c[k] {
			c[k] = now[k]
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// LastOf are the last n of rows.
func LastOf(rows []Row, n int) []Row { return rows[max(0, len(rows)-n):] }
