package testbed

import (
	"os"
	"os/exec"
	"runtime"
)

// spawner starts child processes from one goroutine that is locked to its operating system thread for good: the kernel's
// "kill it when the parent dies" follows the thread that started the child, and Go would let a thread end at any time.
// Its owner closes it after its last child is gone, because closing ends the thread.
type spawner struct {
	jobs chan spawn
	done chan struct{}
}

type spawn struct {
	cmd    *exec.Cmd
	cgroup *os.File
	err    chan error
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan spawn), done: make(chan struct{})}
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

// start starts cmd in a process group of its own, and in this cgroup if there is one. It must not be called after close.
func (s *spawner) start(cmd *exec.Cmd, cgroup *os.File) error {
	j := spawn{cmd: cmd, cgroup: cgroup, err: make(chan error, 1)}
	s.jobs <- j
	return <-j.err
}

func (s *spawner) close() {
	close(s.jobs)
	<-s.done
}
