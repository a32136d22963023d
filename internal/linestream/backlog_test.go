package linestream

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/redistest"
)

// Nobody's lines pile up without limit.
func TestBacklogsAreBounded(t *testing.T) {
	t.Parallel()
	addr, p := redistest.Start(t), quick()
	p.lines, p.drain = 100, time.Second // the dead have no last words
	seldom := p
	seldom.refresh = time.Minute // what is sent between two looks counts as well
	pod, hub, _ := started(t, addr, seldom)
	pod.die()
	waits := func() bool {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		return len(hub.lives[pod.Life()].queue) > 0
	}
	var err error
	sent := 0
	for ; err == nil && sent < 1000; sent++ {
		err = hub.Send(pod.Life(), []byte("x"))
		for limit := time.Now().Add(patience); waits() && time.Now().Before(limit); {
			runtime.Gosched()
		}
	}
	if !errors.Is(err, ErrBacklog) || sent > 102 {
		t.Errorf("after %d lines: %v, want ErrBacklog", sent, err)
	}

	if err := hub.Close(t.Context()); err != nil {
		t.Error(err)
	}
	pod, hub, _ = started(t, addr, p)
	hub.stop() // nobody takes
	hub.work.Wait()
	done := make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && n < 100_000; n++ {
			_, err = pod.Write([]byte("x\n"))
		}
		done <- err
	}()
	if err := within(t, "the pod's end", done); !errors.Is(err, ErrBacklog) {
		t.Errorf("write: %v, want ErrBacklog", err)
	}
}
