package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Program is what runs in a container: it returns when the process is over, with its exit status. The end of ctx is SIGKILL: it must
// return at once, whatever it is at.
type Program func(ctx context.Context, l *Life) (exit int)

// Life is one life of a container: a restart is another.
type Life struct {
	Pod       *corev1.Pod
	Container corev1.Container
	ID        string            // as its status says: "containerd://..."
	Env       map[string]string // resolved, the downward API, ConfigMaps and Secrets too
	Args      []string          // of the container, $(NAMES) resolved
	Log       io.Writer         // what `kubectl logs` shows
	Term      <-chan struct{}   // closed by SIGTERM

	pid     atomic.Int64 // of a Command
	number  int32
	ready   bool // its runner's goroutine writes and reads it
	log     *logbook
	term    chan struct{}
	kill    context.CancelFunc
	over    chan struct{}
	started time.Time
	ended   time.Time // from here on: once over is closed
	exit    int
}

// Exit statuses as a shell and a kubelet give them.
const (
	exitTerm = 128 + int(syscall.SIGTERM)
	exitKill = 128 + int(syscall.SIGKILL)
)

// Wait is a program that does nothing until it is told to end.
func Wait(ctx context.Context, l *Life) int {
	select {
	case <-l.Term:
		return 0
	case <-ctx.Done():
		return exitKill
	}
}

// IgnoreTerm is a program that does nothing and does not hear SIGTERM.
func IgnoreTerm(ctx context.Context, _ *Life) int {
	<-ctx.Done()
	return exitKill
}

// Command is a program that is a real process: path, as the image's entrypoint, with the container's args and its environment, and
// with env (NAME=value) besides. SIGTERM and SIGKILL reach it as such.
func Command(path string, env ...string) Program {
	return func(ctx context.Context, l *Life) int {
		cmd := exec.Command(path, l.Args...)
		for name, value := range l.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Env = append(cmd.Env, env...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = l.Log, l.Log, attributes()
		p := &Process{name: path, cmd: cmd, gone: make(chan struct{})}
		if err := p.start(); err != nil {
			fmt.Fprintln(l.Log, err)
			return 127
		}
		l.pid.Store(int64(cmd.Process.Pid))
		term := l.Term
		for {
			select {
			case <-term:
				term = nil
				_ = cmd.Process.Signal(syscall.SIGTERM)
			case <-ctx.Done():
				p.Kill()
				return exitKill
			case <-p.gone:
				return exitOf(cmd.ProcessState)
			}
		}
	}
}

func exitOf(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// live starts the pod's life of that number. It runs under the node's ctx: a life outlives its object.
func (n *node) live(ctx context.Context, pod *corev1.Pod, number int32) *Life {
	id := sha256.Sum256(fmt.Append(nil, pod.UID, number))
	l := &Life{Pod: pod, Container: pod.Spec.Containers[0], ID: "containerd://" + hex.EncodeToString(id[:]), number: number, ready: n.ReadyAt == "",
		log: newLogbook(), term: make(chan struct{}), over: make(chan struct{})}
	l.Log, l.Term = l.log, l.term
	ctx, l.kill = context.WithCancel(ctx)
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var err error
	if l.Env, err = n.environment(call, pod, l.Container); err != nil && ctx.Err() == nil {
		n.t.Errorf("fake node: environment of pod %s: %v", pod.Name, err)
	}
	for _, a := range l.Container.Args {
		l.Args = append(l.Args, expand(a, l.Env))
	}
	l.started = time.Now()
	n.mu.Lock()
	n.all = append(n.all, l)
	n.mu.Unlock()
	go func() { // attend waits for it
		exit := n.Run(ctx, l)
		l.exit, l.ended = exit, time.Now()
		l.log.close()
		l.kill()
		close(l.over)
	}()
	return l
}

// terminate is SIGTERM; only the runner's own goroutine sends it, once a life or more.
func (l *Life) terminate() {
	select {
	case <-l.term:
	default:
		close(l.term)
	}
}

// Kill is SIGKILL, as a command of NodeOptions.Exec may send it.
func (l *Life) Kill() { l.kill() }

func (l *Life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (l *Life) state() corev1.ContainerState {
	started := metav1.NewTime(l.started)
	if !l.isOver() {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	}
	reason := "Completed"
	if l.exit != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(l.exit), Reason: reason, StartedAt: started, FinishedAt: metav1.NewTime(l.ended), ContainerID: l.ID,
	}}
}

// Record is what really happened to one life of a container, whatever the API says.
type Record struct {
	Namespace, Pod, UID, ID string
	Started                 time.Time
	Ended                   time.Time // zero while it lives
	Exit                    int
	Log                     string // so far
	PID                     int    // of a Command
}

// Lives are all lives of containers so far, in the order of their starts.
func (e *Env) Lives() []Record {
	e.node.mu.Lock()
	all := slices.Clone(e.node.all)
	e.node.mu.Unlock()
	var records []Record
	for _, l := range all {
		r := Record{Namespace: l.Pod.Namespace, Pod: l.Pod.Name, UID: string(l.Pod.UID), ID: l.ID, Started: l.started, PID: int(l.pid.Load())}
		if l.isOver() {
			r.Ended, r.Exit = l.ended, l.exit
		}
		var text strings.Builder
		l.log.copy(context.Background(), &text, shown{tail: -1}, nil, func() {})
		r.Log = text.String()
		records = append(records, r)
	}
	return records
}

// HoldKills lets what does not hear SIGTERM live until release is called, however long its grace: a test need not be quick to see it
// live. It must not be called again before that.
func (e *Env) HoldKills() (release func()) {
	held := make(chan struct{})
	e.node.mu.Lock()
	e.node.held = held
	e.node.mu.Unlock()
	return sync.OnceFunc(func() {
		e.node.mu.Lock()
		e.node.held = nil
		e.node.mu.Unlock()
		close(held)
	})
}

// Crash is SIGKILL for the pod's container, from outside: nobody deletes the object, and the container restarts as its policy says.
// It returns when that life is over.
func (e *Env) Crash(namespace, pod string) {
	e.t.Helper()
	s := e.node.runner(namespace, pod)
	if s == nil {
		e.t.Fatalf("crash pod %s: the node does not have it", pod)
	}
	life, _ := s.lives()
	if life == nil {
		e.t.Fatalf("crash pod %s: it has not started", pod)
	}
	life.kill()
	<-life.over
}
