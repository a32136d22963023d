// Package spawn starts processes that die with the process that started them, as far as the system can be told so, and signals, reaps and
// cleans up after them. It knows of no run: what is started, and what for, is its callers.
//
// Its one invariant: whoever was started is in a process group of its own, so that a signal for it reaches nobody else.
package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// Spawner starts child processes from one goroutine that is locked to its operating system thread for good: the kernel's
// "kill it when the parent dies" follows the thread that started the child, and Go would let a thread end at any time.
// Its owner closes it after its last child is gone, because closing ends the thread.
type Spawner struct {
	jobs chan spawn
	done chan struct{}
}

type spawn struct {
	cmd    *exec.Cmd
	cgroup *os.File
	err    chan error
}

// New returns a spawner, whose owner calls Close.
func New() *Spawner {
	s := &Spawner{jobs: make(chan spawn), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked
		for j := range s.jobs {
			j.cmd.SysProcAttr = childAttributes(j.cgroup, j.cmd.SysProcAttr)
			j.err <- j.cmd.Start()
		}
	}()
	return s
}

// Start starts cmd in a process group of its own, and in this cgroup if there is one. It must not be called after close.
func (s *Spawner) Start(cmd *exec.Cmd, cgroup *os.File) error {
	j := spawn{cmd: cmd, cgroup: cgroup, err: make(chan error, 1)}
	s.jobs <- j
	return <-j.err
}

// Close ends the thread. It must come after the last child's end.
func (s *Spawner) Close() {
	close(s.jobs)
	<-s.done
}

// Unprivileged is whom a server runs as that refuses to be root's: the user of that name, or nobody; nil = whoever runs this.
func Unprivileged(name string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user for the server, which refuses to be root's: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}
