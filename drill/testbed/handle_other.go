//go:build !linux

package testbed

import (
	"errors"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/internal/procstat"
)

// proven says that a handle means one process whatever becomes of its number; grain is how well starts are known.
const (
	proven = false
	grain  = time.Second
)

// handle is a number here: that it still means the same process is not proved.
type handle int

func hold(p procstat.Process) (handle, error) { return handle(p.PID), nil }

func (h handle) close() {}

func (h handle) over() bool { return errors.Is(syscall.Kill(int(h), 0), syscall.ESRCH) }

func (h handle) signal(sig syscall.Signal) error {
	err := syscall.Kill(int(h), sig)
	if errors.Is(err, syscall.ESRCH) {
		return ErrDead
	}
	return err
}

// endEvery is how often processes are asked whether they have ended.
const endEvery = 5 * time.Millisecond

// awaitEnd waits a little, and says which of the processes have ended.
func awaitEnd(hs []handle, within time.Duration) []bool {
	time.Sleep(min(within, endEvery))
	ended := make([]bool, len(hs))
	for i, h := range hs {
		ended[i] = h.over()
	}
	return ended
}
