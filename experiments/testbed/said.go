package testbed

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// said reads what a replica says, and knows whether all of it was delivered: a reader asks for more only when it has delivered what it got.
type said struct {
	pipe *os.File

	mu   sync.Mutex
	held bool // the reader has had bytes and has not asked for more yet
}

func (s *said) Read(p []byte) (n int, err error) {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.held = false
	s.mu.Unlock()
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		s.mu.Lock() // taken from the pipe and held at once: nobody sees them in neither
		defer s.mu.Unlock()
		for n, failed = unix.Read(int(fd), p); failed == unix.EINTR; n, failed = unix.Read(int(fd), p) {
		}
		s.held = n > 0
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, os.NewSyscallError("read", failed)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// delivered reports whether every line that was written before the question has been delivered.
func (s *said) delivered() bool {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return true // closed: it was read to its end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := []unix.PollFd{{Events: unix.POLLIN}}
	if raw.Control(func(fd uintptr) {
		ask[0].Fd = int32(fd)
		_, err = unix.Poll(ask, 0)
	}) != nil {
		return true
	}
	return err == nil && ask[0].Revents&unix.POLLIN == 0 && !s.held
}
