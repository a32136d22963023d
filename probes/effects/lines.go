package effects

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

// Lines are lines that somebody else follows, of logs or files: each is an entry where the pattern, or JSON, makes one of it. Its methods
// may be called at any time.
type Lines struct {
	parse func(line []byte) (Row, bool)

	mu      sync.Mutex
	from    map[string]bool // where lines came from; with more than one nothing tells their order
	pending []Entry
	lost    string
}

// NewLines returns a reader that takes lines.
func NewLines(pattern string) (*Lines, error) {
	parse, err := parser(pattern)
	if err != nil {
		return nil, err
	}
	return &Lines{parse: parse, from: map[string]bool{}}, nil
}

// Line takes a line that was written within at. writer is the incarnation whose log it is; "" = it is a file of anybody's.
func (l *Lines) Line(from, writer string, line []byte, at history.Span) {
	row, ok := l.parse(line)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from[from] = true
	l.pending = append(l.pending, Entry{Row: row, Writer: writer, Unordered: len(l.from) > 1, At: &at})
}

// Cut takes a stretch of which no line is known.
func (l *Lines) Cut(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == "" {
		l.lost = why
	}
}

// Read gives what came since the last read.
func (l *Lines) Read(context.Context, bool) (Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Batch{Entries: l.pending, Lost: l.lost}
	l.pending = nil
	return b, nil
}

// Last gives the last of what came since the last read.
func (l *Lines) Last(_ context.Context, n int) (rows []Row, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.pending {
		rows = append(rows, x.Row)
	}
	return lastOf(rows, n), nil
}

// Close implements Reader.
func (l *Lines) Close() error { return nil }

// files are Lines of files that are followed from where they end.
type files struct {
	*Lines
	globs  []string
	follow *follow.Files
}

// Files says which files are read.
type Files struct {
	Globs   []string
	Pattern string
	Clock   func() int64
	Writer  func(path string) string // the incarnation whose log a path is now; nil = files of anybody's
}

// NewFiles returns a reader of files of lines.
func NewFiles(o Files) (Reader, error) {
	lines, err := NewLines(o.Pattern)
	if err != nil {
		return nil, err
	}
	if o.Writer == nil {
		o.Writer = func(string) string { return "" }
	}
	return &files{lines, o.Globs, follow.New(follow.Options{
		Globs: o.Globs, Clock: o.Clock,
		Line: func(path string, line []byte, at history.Span) { lines.Line(path, o.Writer(path), line, at) },
		Gap: func(path string, _ history.Span, why string, lost bool) {
			if lost {
				lines.Cut(filepath.Base(path) + ": " + why)
			}
		},
	})}, nil
}

func (f *files) Close() error { f.follow.Close(); return nil }

func (f *files) Read(ctx context.Context, final bool) (Batch, error) {
	if err := f.follow.Read(final); err != nil {
		return Batch{}, err
	}
	return f.Lines.Read(ctx, final)
}

// endOfFile is how much of a file is looked through for its last entries.
const endOfFile = 256 << 10

func (f *files) Last(_ context.Context, n int) ([]Row, error) {
	var rows []Row
	found := 0
	for _, glob := range f.globs {
		paths, err := filepath.Glob(glob)
		if err != nil {
			return nil, declared("%q is no pattern of paths", glob)
		}
		for _, path := range paths {
			end, err := follow.Tail(path, endOfFile)
			if err != nil {
				return nil, err
			}
			found++
			for line := range bytes.Lines(end) {
				if row, ok := f.parse(bytes.TrimRight(line, "\r\n")); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	if found == 0 {
		return nil, declared("no file is there: %s", strings.Join(f.globs, ", "))
	}
	return slices.Clip(lastOf(rows, n)), nil
}
