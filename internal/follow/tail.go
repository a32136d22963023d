package follow

import (
	"bytes"
	"errors"
	"io"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Tail are the last lines of a file, those that begin in at most so many bytes at its end, as of at. Of what is no regular file there are
// none. They are the whole file where it is no longer, and could be read.
func Tail(path string, most int64, at history.Span, tell func(Line)) (whole bool, err error) {
	fd, info, err := open(path)
	switch {
	case errors.Is(err, regular.ErrNoFile):
		return true, nil
	case err != nil:
		return false, err
	}
	defer fd.Close()
	from := max(0, info.Size()-most)
	end, err := io.ReadAll(io.NewSectionReader(fd, from, most))
	if from > 0 {
		_, end, _ = bytes.Cut(end, []byte("\n"))
	}
	var lines Lines
	for raw := range bytes.Lines(end) {
		ended, whole := bytes.CutSuffix(raw, []byte("\n"))
		lines.Add(ended, !whole, at, tell)
	}
	lines.End(at.To, tell)
	return from == 0 && err == nil, err
}
