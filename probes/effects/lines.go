package effects

import (
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
	parse func(follow.Line) Parsed

	mu      sync.Mutex
	from    map[string]bool // where lines came from; with more than one nothing tells their order
	pending []Entry
	unread  []Unread // one a reason
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

// Line takes a line of the log of a life.
func (l *Lines) Line(incarnation string, line follow.Line) { l.take(incarnation, incarnation, line) }

// take takes a line. writer is the incarnation whose log it is; "" = it is a file of anybody's.
func (l *Lines) take(from, writer string, line follow.Line) {
	got := l.parse(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if got.Unread != "" {
		l.count(got.Unread, line)
	}
	if got.Row != nil {
		l.from[from] = true
		l.pending = append(l.pending, Entry{Row: got.Row, Writer: writer, Unordered: len(l.from) > 1, At: &line.At})
	}
}

// count adds a line that could not be read to those of its reason since the last read.
func (l *Lines) count(why history.UnreadReason, line follow.Line) {
	i := slices.IndexFunc(l.unread, func(u Unread) bool { return u.Reason == why })
	if i < 0 {
		i = len(l.unread)
		l.unread = append(l.unread, Unread{Unread: history.Unread{Reason: why, Detail: detailOf(why)}, At: line.At})
	}
	u := &l.unread[i]
	u.Count++
	u.At = history.Span{From: min(u.At.From, line.At.From), To: max(u.At.To, line.At.To)}
}

// detailOf says to a person what is wrong with such lines.
func detailOf(why history.UnreadReason) string {
	if why == history.CutOff {
		return follow.WhyCut
	}
	return "a line begins as a JSON object and is none"
}

// Cut takes a stretch in which the log of a life that lived was not followed.
func (l *Lines) Cut(whose string, _ history.Span) {
	l.lose("the log of " + whose + " was not followed")
}

// lose takes that lines are gone.
func (l *Lines) lose(why string) {
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
	b := Batch{Entries: l.pending, Unread: l.unread, Lost: l.lost}
	l.pending, l.unread = nil, nil
	return b, nil
}

// Last gives the last of what came since the last read.
func (l *Lines) Last(_ context.Context, n int) (rows []Row, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.pending {
		rows = append(rows, x.Row)
	}
	return LastOf(rows, n), nil
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
	Bus     *follow.Bus // on which others want files, too; nil = nobody does
	Globs   []string
	Pattern string
	Clock   func() int64
	// Writer is the life whose log a path is now, and since when it surely lives; nil = files of anybody's.
	Writer func(path string) (incarnation string, since int64)
}

// NewFiles returns a reader of files of lines.
func NewFiles(o Files) (Reader, error) {
	lines, err := NewLines(o.Pattern)
	if err != nil {
		return nil, err
	}
	if o.Writer == nil {
		o.Writer = func(string) (string, int64) { return "", 0 }
	}
	return &files{lines, o.Globs, o.Bus.Follow(follow.Options{
		Globs: o.Globs, Clock: o.Clock,
		Line: func(path string, line follow.Line) {
			who, since := o.Writer(path)
			if since > line.At.From { // the life before it may have written that
				who = ""
			}
			lines.take(path, who, line)
		},
		Gap: func(path string, _ history.Span, why string, lost bool) {
			if lost {
				lines.lose(filepath.Base(path) + ": " + why)
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
			return nil, Declared("%q is no pattern of paths", glob)
		}
		for _, path := range paths {
			_, err := follow.Tail(path, endOfFile, history.Span{}, func(l follow.Line) {
				if row := f.parse(l).Row; row != nil {
					rows = append(rows, row)
				}
			})
			if err != nil {
				return nil, err
			}
			found++
		}
	}
	if found == 0 {
		return nil, Declared("no file is there: %s", strings.Join(f.globs, ", "))
	}
	return slices.Clip(LastOf(rows, n)), nil
}
