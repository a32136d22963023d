package testbed

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/internal/procstat"
)

// proven says that a handle means one process whatever becomes of its number; grain is how well starts are known.
const (
	proven = true
	grain  = 10 * time.Millisecond
)

// handle holds on to one very process (a pidfd): whatever becomes of its number, it means no other.
type handle int

// hold takes hold of a process that was just read.
func hold(p procstat.Process) (handle, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, fmt.Errorf("hold process %d: %w", p.PID, err)
	}
	h := handle(fd)
	now, err := procstat.New().Process(p.PID)
	if err == nil && now.Started != p.Started {
		err = errors.New("its number is another's by now")
	}
	if err == nil && h.over() {
		err = ErrDead
	}
	if err != nil {
		h.close()
		return -1, fmt.Errorf("hold process %d: %w", p.PID, err)
	}
	return h, nil
}

func (h handle) close() { _ = unix.Close(int(h)) }

// over reports that the process has ended.
func (h handle) over() bool { return awaitEnd([]handle{h}, 0)[0] }

func (h handle) signal(sig syscall.Signal) error {
	err := unix.PidfdSendSignal(int(h), sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrDead
	}
	return err
}

// awaitEnd waits until one of the processes has ended, and no longer than within; it says which have.
func awaitEnd(hs []handle, within time.Duration) []bool {
	fds := make([]unix.PollFd, len(hs))
	for i, h := range hs {
		fds[i] = unix.PollFd{Fd: int32(h), Events: unix.POLLIN}
	}
	ended := make([]bool, len(hs))
	if n, err := unix.Poll(fds, int((within+time.Millisecond-1)/time.Millisecond)); err != nil || n <= 0 {
		return ended // interrupted, or nothing yet
	}
	for i := range fds {
		ended[i] = fds[i].Revents&unix.POLLIN != 0
	}
	return ended
}
