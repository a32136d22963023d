package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
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
		var out testkit.Saying
		p := storyFlags{level: "info"}.start(&out, &experiments.Experiment{Name: "x"}, "the embedded store is used", bubbleClock())
		p.Observe(phase("steady"))
		<-time.After(holdBack)
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
		want += "x, faults for 1m0s, 1m0s gone\n"
		if got := out.String(); got != want {
			t.Fatalf("after a heartbeat:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Saying
		p := newProgress(&out, &experiments.Experiment{Name: "x"}, true, bubbleClock())
		go p.write()
		p.Observe(phase("steady"))
		<-time.After(3*redrawEvery + redrawEvery/2)
		p.Close()
		block := func(at string) string { return fmt.Sprintf("x, steady for %[1]s, %[1]s gone\n", at) }
		const erase = "\x1b[1A\r\x1b[J"
		want := block("0.2s") + erase + block("0.4s") + erase + "T+0.0s    phase          steady\n" + block("0.6s") + erase // what was said stays
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
		p := storyFlags{level: "debug"}.start(w, &experiments.Experiment{Name: "x"}, "", bubbleClock())
		p.Observe(phase("first"))
		<-time.After(holdBack)
		synctest.Wait() // the goroutine is stuck in its write
		for range maxPending + 7 {
			p.Observe(phase("more"))
		}
		var got bytes.Buffer
		read := make(chan error, 1)
		go func() { _, err := io.Copy(&got, r); read <- err }()
		p.Close()
		w.Close()
		must(t, <-read)
		if n := strings.Count(got.String(), "\n"); n != 1+maxPending+1 || !strings.Contains(got.String(), "(7 lines left out") {
			t.Errorf("%d lines, want %d and a word about the 7 others", n, 1+maxPending+1)
		}
	})
}

// Sources are read one after another; what they tell comes in order of time all the same.
func TestProgressIsInOrderOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Saying
		p := storyFlags{level: "debug"}.start(&out, &experiments.Experiment{Name: "x"}, "", bubbleClock())
		told := func(name string, at time.Duration) {
			e := phase(name)
			e.Span = history.At(int64(at))
			p.Observe(e)
		}
		<-time.After(time.Second)
		told("second", time.Second)
		<-time.After(holdBack / 2)
		told("first", 700*time.Millisecond)
		told("third", 1200*time.Millisecond)
		p.Close()
		want := []string{"first", "second", "third"}
		if got := strings.Fields(strings.NewReplacer("phase", "", "T+0.7s", "", "T+1.0s", "", "T+1.2s", "").Replace(out.String())); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// --quiet and --log-level error tell nothing; warn tells what is not as it should be.
func TestHowMuchIsTold(t *testing.T) {
	t.Parallel()
	bad := history.Event{Kind: history.UnownedEnter, Source: "r1.1", Key: "k"}
	for _, c := range []struct {
		flags storyFlags
		lines int
	}{
		{storyFlags{level: "debug"}, 4}, {storyFlags{level: "info"}, 3}, {storyFlags{level: "warn"}, 1}, {storyFlags{level: "error"}, 0}, {storyFlags{level: "info", quiet: true}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			must(t, c.flags.check())
			var out testkit.Saying
			p := c.flags.start(&out, &experiments.Experiment{Name: "x"}, "", bubbleClock())
			p.Observe(phase("steady"))
			p.Observe(history.Event{Kind: history.ReplicaReady, Source: "r1.1", Replica: &history.Replica{Incarnation: "r1.1"}})
			p.Observe(history.Event{Kind: history.AbandonKind, Source: "r1.1", Key: "k", Abandon: &history.Abandon{Reason: "count"}})
			p.Observe(bad)
			p.Close()
			if n := strings.Count(out.String(), "\n"); n != c.lines {
				t.Errorf("%+v: %d lines, want %d:\n%s", c.flags, n, c.lines, out.String())
			}
		})
	}
}
