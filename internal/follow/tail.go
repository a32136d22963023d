package follow

import (
	"bytes"
	"errors"
	"io"
)

// Tail is the end of a file, at most so many bytes of it, from a line's beginning on. Of what is no regular file there is none.
func Tail(path string, most int64) ([]byte, error) {
	fd, info, err := open(path)
	switch {
	case errors.Is(err, errNoFile):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer fd.Close()
	from := max(0, info.Size()-most)
	end, err := io.ReadAll(io.NewSectionReader(fd, from, most))
	if from > 0 {
		_, end, _ = bytes.Cut(end, []byte("\n"))
	}
	return end, err
}
