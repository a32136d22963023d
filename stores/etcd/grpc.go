package etcd

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/lockdrill/lockdrill/proxies/tap"
)

// errLeftOut says that a message does not pass, and the next ones do.
var errLeftOut = errors.New("left out")

// frames reads the messages of a gRPC stream, each of which is looked at whole before any of it passes. Messages above maxInspect, and
// compressed ones, pass without being looked at.
type frames struct {
	from io.Reader
	look func(message []byte) error // an error but errLeftOut ends the reading before that message

	ready []byte // to be passed on
	rest  int64  // bytes that follow, of a message that is not looked at
}

const frameHead = 5 // one byte: compressed or not; four: the length

func (f *frames) Read(b []byte) (n int, err error) {
	for len(f.ready) == 0 && f.rest == 0 {
		if err := f.next(); err != nil && !errors.Is(err, errLeftOut) {
			return 0, err
		}
	}
	if len(f.ready) > 0 {
		n = copy(b, f.ready)
		f.ready = f.ready[n:]
		return n, nil
	}
	n, err = f.from.Read(b[:min(int64(len(b)), f.rest)])
	f.rest -= int64(n)
	return n, err
}

func (f *frames) next() error {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > tap.MaxInspect || head[0] != 0 {
		f.ready, f.rest = head[:], length
		return nil
	}
	whole := append(head[:], make([]byte, length)...)
	if _, err := io.ReadFull(f.from, whole[frameHead:]); err != nil {
		return io.ErrUnexpectedEOF
	}
	if err := f.look(whole[frameHead:]); err != nil {
		return err
	}
	f.ready = whole
	return nil
}
