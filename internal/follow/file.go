package follow

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// tailSize is how much of what was read last is held against the file, to see whether it is still there.
const tailSize = 64

// file is one that is followed.
type file struct {
	fd    *os.File
	info  os.FileInfo // as it was opened
	at    int64       // read up to here
	since int64       // the last pass that read it to its end began then
	tail  []byte      // what lies before at

	part     []byte // of a line that has no end yet
	partFrom int64  // when its first part was not there yet
	cut      bool   // it is longer than part
	skip     bool   // the line that at lies in began before the first pass and is too long
	lines    Lines
}

// open opens a file, and says what it is.
func open(path string) (*os.File, os.FileInfo, error) {
	fd, err := regular.Open(path)
	if err != nil {
		return nil, nil, err
	}
	fi, err := fd.Stat()
	if err != nil {
		_ = fd.Close()
		return nil, nil, err
	}
	return fd, fi, nil
}

// startAt lets reading begin with the line that size lies in: it is ended, if ever, from now on.
func (x *file) startAt(size int64) {
	x.at = size
	var back []byte
	i := -1
	for most := int64(chunk); i < 0 && int64(len(back)) < min(size, Limit); most = Limit {
		back = make([]byte, min(size, most))
		n, _ := x.fd.ReadAt(back, size-int64(len(back)))
		if n < len(back) { // it has been truncated since: the next pass sees it
			return
		}
		i = bytes.LastIndexAny(back, "\n\x00") // a hole is no line
	}
	x.skip = i < 0 && size > Limit
	if !x.skip {
		x.part, x.partFrom = bytes.Clone(back[i+1:]), x.since
	}
	x.keep(back)
}

// keep remembers the end of what was read.
func (x *file) keep(read []byte) {
	if len(read) < tailSize {
		read = append(x.tail[max(0, len(x.tail)+len(read)-tailSize):len(x.tail):len(x.tail)], read...)
	}
	x.tail = append(x.tail[:0:0], read[max(0, len(read)-tailSize):]...)
}

// drain reads a file to where it ends now.
func (b *Bus) drain(c *chain, x *file, now int64) {
	fi, err := x.fd.Stat()
	if err != nil {
		return // since stays: what comes has the wider bracket
	}
	if lost := x.rewritten(fi, b.buf); lost {
		c.gap(history.Span{From: x.since, To: c.clock()}, "the file was truncated", true)
	}
	for x.at < fi.Size() {
		n, err := x.fd.ReadAt(b.buf[:min(int64(len(b.buf)), fi.Size()-x.at)], x.at)
		if n == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				return
			}
			break
		}
		x.at += int64(n)
		x.keep(b.buf[:n])
		c.feed(x, b.buf[:n])
	}
	x.info, x.since = fi, now
}

// rewritten reports that what was read is not there any more, and lets reading go on where new lines are.
func (x *file) rewritten(fi os.FileInfo, buf []byte) bool {
	if fi.Size() == x.at && fi.ModTime().Equal(x.info.ModTime()) {
		return false
	}
	there := buf[:len(x.tail)]
	if fi.Size() >= x.at {
		n, err := x.fd.ReadAt(there, x.at-int64(len(there)))
		switch {
		case n == len(there) && bytes.Equal(there, x.tail), n < len(there) && !errors.Is(err, io.EOF):
			return false
		case n == len(there) && len(bytes.Trim(there, "\x00")) == 0: // a hole: its writer goes on where it was
			x.part, x.cut, x.skip, x.lines = nil, false, false, Lines{}
			x.tail = bytes.Clone(there)
			return true
		}
	}
	x.at, x.part, x.tail, x.cut, x.skip, x.lines = 0, nil, nil, false, false, Lines{}
	return true
}

// feed splits what was read into lines.
func (c *chain) feed(x *file, read []byte) {
	to := c.clock()
	for len(read) > 0 {
		if len(x.part) == 0 {
			x.partFrom = x.since
		}
		i := bytes.IndexByte(read, '\n')
		if i < 0 {
			if !x.skip {
				x.add(read)
			}
			return
		}
		line, cut := read[:i], false
		if len(x.part) > 0 {
			x.add(line)
			line, cut = x.part, x.cut
		}
		if !x.skip {
			x.lines.Add(line, cut, history.Span{From: x.partFrom, To: to}, c.line)
		}
		x.part, x.cut, x.skip = nil, false, false
		read = read[i+1:]
	}
}

// add keeps more of a line, as far as one is read.
func (x *file) add(more []byte) {
	if len(x.part) == 0 { // a hole is no line
		more = bytes.TrimLeft(more, "\x00")
	}
	if room := Limit - len(x.part); len(more) > room {
		more, x.cut = more[:room], true
	}
	x.part = append(x.part, more...)
}

// flush tells of lines that nobody has ended.
func (c *chain) flush(x *file) {
	to := c.clock()
	if len(x.part) > 0 {
		x.lines.Add(x.part, true, history.Span{From: x.partFrom, To: to}, c.line)
		x.part, x.cut, x.skip = nil, false, true
	}
	x.lines.End(to, c.line)
}
