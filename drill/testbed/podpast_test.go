package testbed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/internal/follow"
)

// What a log has is told before its lines, and a line is no older than a look at its log whose last line was the one before it.
func TestALogTellsWhatItHadAndWhenLinesCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, nil)
		var said []string
		f.lives.o.OnPast = func(inc string, p Past) {
			var lines []string
			for _, l := range p.Lines {
				lines = append(lines, string(l.Text))
			}
			said = append(said, fmt.Sprintf("%s had %q %s", inc, lines, p.Why))
		}
		f.lives.o.OnLine = func(inc string, l follow.Line) {
			said = append(said, fmt.Sprintf("%s %s since %s", inc, l.Text, time.Duration(l.At.From)))
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(said, want) {
				t.Errorf("%q\nwant %q", said, want)
			}
			said = nil
		}
		s.has("T0 b0 begin", "T1 lead")
		s.show(running("a", "ua", "a1", 1))
		expect(`r1.1 had ["b0 begin" "lead"] `)

		time.Sleep(2*marksApart + time.Millisecond) // a bubble's time
		s.write("a", "2026-01-01T00:00:01Z x")      // after a look that showed T1
		expect("r1.1 x since 1s")
		s.has("2026-01-01T00:00:01Z x", "2026-01-01T00:00:01Z y")
		time.Sleep(marksApart)
		s.write("a", "2026-01-01T00:00:01Z y") // was there at the look
		s.write("a", "2026-01-01T00:00:02Z z")
		expect("r1.1 y since 1s", "r1.1 z since 1.5s")
		s.has("2026-01-01T00:00:03Z w")
		time.Sleep(marksApart)
		s.write("a", "2026-01-01T00:00:03Z w") // likewise
		s.write("a", "no stamp")
		s.write("a", "2026-01-01T00:00:04Z v")
		expect("r1.1 w since 1.5s", "r1.1 no stamp since 1.5s", "r1.1 v since 2s")
		s.has("2026-01-01T00:00:09Z of another life")
		time.Sleep(marksApart)
		s.write("a", "2026-01-01T00:00:05Z u")
		s.lasting = errors.New("down")
		s.has("2026-01-01T00:00:05Z u")
		time.Sleep(marksApart)
		s.write("a", "2026-01-01T00:00:06Z t")
		expect("r1.1 u since 2s", "r1.1 t since 2s")

		// Of a log that cannot be read, or is too long, lines may be missing; that of a life that began in the drill has none before.
		s.show(running("b", "ub", "b1", 0))
		expect("r2.1 had [] down")
		s.lasting = nil
		s.has(slices.Repeat([]string{"T0 x"}, pastLines)...)
		s.show(running("c", "uc", "c1", 0))
		synctest.Wait()
		if len(said) != 1 || !strings.HasSuffix(said[0], " the last 20000 lines of its log do not say") {
			t.Errorf("%.200q", said)
		}
		said = nil
		s.heard(nil)
		s.show(running("d", "ud", "d1", 0))
		expect("r4.1 had [] ")
		s.endLog("d", errors.New("cut"))
		time.Sleep(logAgain + time.Millisecond)
		expect() // it is not told twice
	})
}
