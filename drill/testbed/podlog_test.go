package testbed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A stream that was cut is opened again, and shows nothing twice.
func TestLogsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, nil)
		var lines []string
		var gaps []history.Span
		f.lives.o.OnLine = func(inc string, l follow.Line) {
			lines = append(lines, inc+":"+string(l.Text))
			if l.At.From > l.At.To {
				t.Errorf("line in %v", l.At)
			}
		}
		f.lives.o.OnCut = func(_ string, gap history.Span) { gaps = append(gaps, gap) }
		s.show(running("w-0", "u1", "c1", 0))
		synctest.Wait()
		s.write("w-0", "2026-01-01T00:00:01.5Z a")
		s.write("w-0", "2026-01-01T00:00:01.5Z b")
		s.write("w-0", "2026-01-01T00:00:02Z "+strings.Repeat("x", 2*lineLimit))
		synctest.Wait()
		s.endLog("w-0", errors.New("cut"))
		time.Sleep(logAgain + time.Millisecond) // a bubble's time
		synctest.Wait()
		s.write("w-0", "2026-01-01T00:00:01.5Z b")
		s.write("w-0", "2026-01-01T00:00:02Z "+strings.Repeat("x", 2*lineLimit))
		s.write("w-0", "2026-01-01T00:00:02Z c")
		s.write("w-0", "no stamp")
		s.write("w-0", "2026-01-01T00:00:01.9Z d") // of another pipe, or of a clock that was set back
		synctest.Wait()
		for i, l := range lines {
			lines[i] = l[:min(len(l), 20)]
		}
		if got := strings.Join(lines, ","); got != "r1.1:a,r1.1:b,r1.1:xxxxxxxxxxxxxxx,r1.1:c,r1.1:no stamp,r1.1:d" || len(gaps) != 1 || gaps[0].Width() < int64(logAgain) {
			t.Errorf("lines %s, gaps %v", got, gaps)
		}
	})
}

// Of pods that are there before the drill only new lines count; of those that come during it all do. Where a life was over before its log
// could be read, nobody knows what it said.
func TestLogsOfNewLivesAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, nil)
		var cuts []string
		f.lives.o.OnCut = func(whose string, gap history.Span) {
			cuts = append(cuts, fmt.Sprintf("%s %s", whose, time.Duration(gap.Width())))
		}
		time.Sleep(time.Second) // a bubble's time
		there := running("a", "ua", "a1", 1)
		there.Container.LastID = "a0" // from before the drill
		s.show(there)
		synctest.Wait()
		s.heard(nil)
		s.endLog("a", errors.New("cut")) // before any line
		time.Sleep(3 * time.Second)      // likewise
		synctest.Wait()
		if want := []kube.LogStart{{New: true}, {New: true}}; !slices.Equal(s.starts, want) || len(cuts) != 1 {
			t.Errorf("a log that was cut is read from %+v, want %+v; cuts %q", s.starts, want, cuts)
		}
		s.starts, cuts = nil, nil
		again := running("a", "ua", "a2", 2)
		again.Container.LastID = "a1"
		s.show(again)
		synctest.Wait()
		s.show(running("b", "ub", "b1", 0))
		synctest.Wait()
		if want := []kube.LogStart{{}, {}}; !slices.Equal(s.starts, want) || len(cuts) > 0 {
			t.Errorf("logs are read from %+v, want %+v; cuts %q", s.starts, want, cuts)
		}

		// One is seen only when it waits to be started again, one only when it is over.
		again.Container = kube.Container{ID: "a3", LastID: "a3", LastExit: 2, Restarts: 3}
		s.show(again)
		s.show(again)
		over := running("c", "uc", "c1", 0)
		over.Container.Running, over.Container.Terminated = false, true
		s.show(over)
		s.show(over)
		const missed = "a container of pod %s that was over when it was first seen 4s"
		if want := []string{fmt.Sprintf(missed, "a"), fmt.Sprintf(missed, "c")}; !slices.Equal(cuts, want) {
			t.Errorf("cuts %q, want %q", cuts, want)
		}

		// One is over before its log is there.
		cuts = nil
		s.withhold(true)
		d := running("d", "ud", "d1", 0)
		s.show(d)
		synctest.Wait()
		d.Container.Running, d.Container.Terminated = false, true
		s.show(d)
		time.Sleep(logAgain) // likewise
		synctest.Wait()
		if len(cuts) != 1 || !strings.HasPrefix(cuts[0], "r1.3 4.") {
			t.Errorf("cuts %q, want one of all its life", cuts)
		}
	})
}

// A log that is never to be had, or whose stream is never opened again, is not followed until the end.
func TestLogsThatAreNotToBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, nil)
		var cuts []string
		f.lives.o.OnCut = func(whose string, gap history.Span) {
			cuts = append(cuts, fmt.Sprintf("%s %s", whose, time.Duration(gap.Width())))
		}
		s.withhold(true)
		s.show(running("a", "ua", "a1", 0))
		s.heard(nil)
		synctest.Wait()
		s.withhold(false)
		s.show(running("b", "ub", "b1", 0))
		synctest.Wait()
		time.Sleep(time.Second) // a bubble's time
		s.endLog("a", errors.New("cut"))
		s.endLog("b", errors.New("cut"))
		s.withhold(true)
		time.Sleep(4 * time.Second) // likewise
		testkit.Must(t, f.Stop(t.Context()))
		slices.Sort(cuts)
		if want := []string{"r1.1 200ms", "r1.1 4s", "r2.1 4s"}; !slices.Equal(cuts, want) {
			t.Errorf("cuts %q, want %q", cuts, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, nil)
		var cuts []history.Span
		f.lives.o.OnCut = func(_ string, gap history.Span) { cuts = append(cuts, gap) }
		s.withhold(true)
		s.show(running("a", "ua", "a1", 0))
		time.Sleep(5 * time.Second) // a bubble's time
		if err := f.Stop(t.Context()); err != nil || !slices.Equal(cuts, []history.Span{{From: 0, To: 5e9}}) {
			t.Errorf("cuts %v, %v, want one of all the time", cuts, err)
		}
	})
	// Who a worker of ours is its log says; of one that is not to be had the fleet knows.
	synctest.Test(t, func(t *testing.T) {
		f, s, _, _ := lead(t)
		var cuts []string
		f.lives.o.OnCut = func(whose string, gap history.Span) {
			cuts = append(cuts, fmt.Sprintf("%s %s", whose, time.Duration(gap.Width())))
		}
		s.withhold(true)
		w := running("w", "u1", "c1", 0)
		s.show(w)
		f.hello(helloOf("l1", "u1", 1))
		ask(t, f, "r1.1")
		time.Sleep(5*time.Second - time.Millisecond) // a bubble's time
		w.Container.Running, w.Container.Terminated = false, true
		s.show(w)
		time.Sleep(2 * logAgain) // likewise
		synctest.Wait()
		if !slices.Equal(cuts, []string{"r1.1 5s"}) {
			t.Errorf("cuts %q, want one of all its life", cuts)
		}
	})
}
