package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

func phase(name string) history.Event {
	return history.Event{Kind: history.RunPhase, Source: "runner", Phase: &history.Phase{Name: name}}
}

// bubbleClock gives ns since the bubble's start.
func bubbleClock() func() int64 {
	start := time.Now()
	return func() int64 { return int64(time.Since(start)) }
}

func TestProgressOffATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := startProgress(&out, &experiments.Experiment{Name: "x"}, "the embedded store is used", bubbleClock())
		p.Observe(phase("steady"))
		synctest.Wait()
		want := "the embedded store is used\nT+0.0s    phase          steady\n"
		if got := out.String(); got != want {
			t.Fatalf("after an event:\n%s\nwant:\n%s", got, want)
		}
		<-time.After(heartbeatEvery - time.Second)
		p.Observe(phase("faults")) // silence is broken: the next heartbeat counts from here
		<-time.After(heartbeatEvery - time.Second)
		synctest.Wait()
		want += "T+0.0s    phase          faults\n"
		if got := out.String(); got != want {
			t.Fatalf("before a heartbeat is due:\n%s\nwant:\n%s", got, want)
		}
		<-time.After(2 * time.Second)
		p.Close()
		want += "x, faults for 59.0s, 59.0s gone\n"
		if got := out.String(); got != want {
			t.Fatalf("after a heartbeat:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := newProgress(&out, &experiments.Experiment{Name: "x"}, true, bubbleClock())
		go p.write()
		p.Observe(phase("steady"))
		<-time.After(2*redrawEvery + redrawEvery/2)
		p.Close()
		block := func(at string) string { return fmt.Sprintf("x, steady for %[1]s, %[1]s gone\n", at) }
		const erase = "\x1b[1A\r\x1b[J"
		want := "T+0.0s    phase          steady\n" + block("0.2s") + erase + block("0.4s") + erase // what was said stays
		if got := out.String(); got != want {
			t.Errorf("drawn:\n%q\nwant:\n%q", got, want)
		}
	})
}

// A terminal that is not read must not stall the run, nor fill the memory.
func TestProgressWithStalledReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := startProgress(w, &experiments.Experiment{Name: "x"}, "", bubbleClock())
		p.Observe(phase("first"))
		synctest.Wait() // the goroutine is stuck in its write
		for range maxPending + 7 {
			p.Observe(phase("more"))
		}
		var got bytes.Buffer
		read := make(chan error, 1)
		go func() { _, err := io.Copy(&got, r); read <- err }()
		p.Close()
		w.Close()
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got.String(), "\n"); n != 1+maxPending+1 || !strings.Contains(got.String(), "(7 lines left out") {
			t.Errorf("%d lines, want %d and a word about the 7 others", n, 1+maxPending+1)
		}
	})
}

// lockedBuffer is a buffer that two goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
