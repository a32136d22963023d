package follow

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/lockdrill/lockdrill/history"
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
	skip     bool   // the line that at lies in began before the first pass and is too long
}

var errNoFile = errors.New("no file of lines")

// open opens a regular file, and waits for nobody where it is none.
func open(path string) (*os.File, os.FileInfo, error) {
	fd, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := fd.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		_ = fd.Close()
		return nil, nil, err
	}
	return fd, fi, nil
}

// startAt lets reading begin with the line that size lies in: it is ended, if ever, from now on.
func (x *file) startAt(size int64) {
	back := make([]byte, min(size, LineLimit))
	n, _ := x.fd.ReadAt(back, size-int64(len(back)))
	if n < len(back) { // it has been truncated since: the next pass sees it
		x.at = size
		return
	}
	i := bytes.LastIndexAny(back, "\n\x00") // a hole is no line
	x.skip = i < 0 && size > LineLimit
	x.at = size
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
func (f *Files) drain(c *chain, x *file, now int64) {
	fi, err := x.fd.Stat()
	if err != nil {
		return // since stays: what comes has the wider bracket
	}
	if lost := x.rewritten(fi, f.buf); lost {
		f.o.Gap(c.path, history.Span{From: x.since, To: f.o.Clock()}, "the file was truncated", true)
	}
	for x.at < fi.Size() {
		n, err := x.fd.ReadAt(f.buf[:min(int64(len(f.buf)), fi.Size()-x.at)], x.at)
		if n == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				return
			}
			break
		}
		x.at += int64(n)
		x.keep(f.buf[:n])
		f.feed(c, x, f.buf[:n])
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
			x.part, x.skip = nil, false
			x.tail = bytes.Clone(there)
			return true
		}
	}
	x.at, x.part, x.tail, x.skip = 0, nil, nil, false
	return true
}

// feed splits what was read into lines.
func (f *Files) feed(c *chain, x *file, read []byte) {
	to := f.o.Clock()
	for len(read) > 0 {
		if len(x.part) == 0 {
			x.partFrom = x.since
		}
		i := bytes.IndexByte(read, '\n')
		if i < 0 {
			if !x.skip {
				x.part = append(x.part, read[:min(len(read), LineLimit-len(x.part))]...)
			}
			return
		}
		switch line := read[:i]; {
		case x.skip:
		case len(x.part) == 0:
			f.tell(c, line, history.Span{From: x.partFrom, To: to})
		default:
			x.part = append(x.part, line[:min(len(line), LineLimit-len(x.part))]...)
			f.tell(c, x.part, history.Span{From: x.partFrom, To: to})
		}
		x.part, x.skip = nil, false
		read = read[i+1:]
	}
}

// flush tells of a line that nobody has ended.
func (f *Files) flush(c *chain, x *file) {
	if len(x.part) > 0 {
		f.tell(c, x.part, history.Span{From: x.partFrom, To: f.o.Clock()})
		x.part, x.skip = nil, true
	}
}

func (f *Files) tell(c *chain, line []byte, at history.Span) {
	f.o.Line(c.path, bytes.TrimLeft(bytes.TrimSuffix(line, []byte("\r")), "\x00"), at)
}
