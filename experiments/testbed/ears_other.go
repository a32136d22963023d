//go:build !linux

package testbed

import (
	"os"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/internal/pace"
)

// ears looks at pipes every so often, where there is no epoll.
type ears struct{ closed chan struct{} }

func newEars() (*ears, error) { return &ears{make(chan struct{})}, nil }

func (e *ears) add(syscall.RawConn, bool) error    { return nil }
func (e *ears) remove(syscall.RawConn) error       { return nil }
func (e *ears) attend(syscall.RawConn, bool) error { return nil }

// wait returns when pipes are to be looked at; an error: the ears are closed.
func (e *ears) wait() error {
	select {
	case <-e.closed:
		return os.ErrClosed
	case <-time.After(pace.Every):
		return nil
	}
}

func (e *ears) close() { close(e.closed) }
