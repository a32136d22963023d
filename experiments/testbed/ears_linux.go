package testbed

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ears waits for any of several pipes, in one goroutine: an epoll instance, which Go's own poller looks at.
type ears struct{ epoll *os.File }

func newEars() (*ears, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else os.NewFile would let a thread wait for it
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &ears{os.NewFile(uintptr(fd), "pipes")}, nil
}

func (e *ears) add(pipe syscall.RawConn, attend bool) error {
	return e.control(pipe, unix.EPOLL_CTL_ADD, attend)
}
func (e *ears) remove(pipe syscall.RawConn) error { return e.control(pipe, unix.EPOLL_CTL_DEL, false) }

// attend says whether what comes in a pipe ends a wait: each line that comes wakes a thread then, whether anybody waits or not.
func (e *ears) attend(pipe syscall.RawConn, on bool) error {
	return e.control(pipe, unix.EPOLL_CTL_MOD, on)
}

func (e *ears) control(pipe syscall.RawConn, op int, attend bool) error {
	events := uint32(0)
	if attend {
		events = unix.EPOLLIN
	}
	epoll, err := e.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = pipe.Control(func(fd uintptr) {
		err := epoll.Control(func(into uintptr) {
			failed = unix.EpollCtl(int(into), op, int(fd), &unix.EpollEvent{Events: events, Fd: int32(fd)})
		})
		if err != nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", failed)
}

// wait returns when a pipe has something to read, or is at its end; an error: the ears are closed.
func (e *ears) wait() error {
	epoll, err := e.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var one [1]unix.EpollEvent
	return epoll.Read(func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), one[:], 0)
		return n > 0 || err != nil
	})
}

func (e *ears) close() { _ = e.epoll.Close() }
