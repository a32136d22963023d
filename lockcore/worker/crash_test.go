package worker

import (
	"io"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// A crash ends the process in the midst of its work, with the status that a shell gives a process that SIGKILL ended: no line comes
// after it, and the lock stays held until its lease runs out.
func TestACrashSaysAndReleasesNothing(t *testing.T) {
	c := startRedis(t)
	died := make(chan int, 1)
	dead := make(chan struct{}) // what os.Exit would not return from returns when the test is over
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &rig{t: t, redis: c, in: inW, done: make(chan error, 1), news: make(chan struct{}, 1)}
	read := make(chan struct{})
	go r.read(outR, read)
	go func() {
		r.done <- Run(t.Context(), inR, outW, Options{Exit: func(code int) {
			_ = outW.Close()
			died <- code
			<-dead
		}})
	}()
	t.Cleanup(func() {
		close(dead)
		_ = inW.Close()
		_ = r.end() // it could not write any more
	})
	r.send(r.configure("r1.1", jobLock()))
	r.await(history.ReplicaReady, nil)
	r.offer("a", time.Hour)
	r.await(history.WorkEnter, nil)
	r.send(protocol.Command{Cmd: protocol.CmdCrash})
	select {
	case code := <-died:
		if code != 137 {
			t.Errorf("status %d, want 137", code)
		}
	case <-time.After(patience):
		t.Fatalf("it still lives after %s", patience)
	}
	<-read
	if n := len(r.all(history.ReleaseInvoke)) + len(r.all(history.WorkExit)); n > 0 {
		t.Errorf("it said %v", r.kinds())
	}
	if r.holder("job:a") == "" {
		t.Error("the lock is free")
	}
}

// A replica that is not configured yet can crash as well.
func TestACrashComesFirst(t *testing.T) {
	died := make(chan int, 1)
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), in, io.Discard, Options{Exit: func(code int) { died <- code }}) }()
	r := &rig{t: t, in: feed, done: done}
	r.send(protocol.Command{Cmd: protocol.CmdCrash})
	if code := <-died; code != crashStatus {
		t.Errorf("status %d", code)
	}
	_ = feed.Close()
	_ = r.end()
}
