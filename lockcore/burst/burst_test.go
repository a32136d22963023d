package burst_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit/bursttest"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

var update = flag.Bool("update", false, "write what the scripts give")

// Scripts say what to do, one command a line; what comes of it stands behind the arrow. `arm` gives the fields of the burst, and draws.
func TestScripts(t *testing.T) {
	const file = "testdata/bursts.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var b *burst.Burst
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		command, _, _ := strings.Cut(lines.Text(), "->")
		words := strings.Fields(command)
		if len(words) == 0 || words[0] == "#" {
			fmt.Fprintln(&out, lines.Text())
			continue
		}
		result := ""
		switch words[0] {
		case "arm":
			b = armed(t, words[1:])
			fmt.Fprintln(&out, strings.Join(words, " "))
			continue
		case "done":
			if b.Done() {
				result = "the last one"
			}
		case "end":
			if !b.End() {
				result = "had ended"
			}
		default:
			c := burst.Call{Op: words[0], Lock: words[1], Key: words[2]}
			if len(words) > 3 {
				c.Name = words[3]
			}
			if result = "passes"; b.Strike(c) {
				result = "hit"
			}
		}
		fmt.Fprintf(&out, "%-24s -> %-12s %s, %d hit, %d spared, %d held\n", strings.Join(words, " "), result, b.State(), b.Hits, b.Spared, b.Held)
	}
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(data); out.String() != want && !*update {
		t.Errorf("%s differs; got\n%s", file, out.String())
	}
}

func armed(t *testing.T, fields []string) *burst.Burst {
	t.Helper()
	var s burst.Spec
	var draws []float64
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		var err error
		switch name {
		case "op":
			s.Op = value
		case "mode":
			s.Mode = value
		case "lock":
			s.Lock = value
		case "key":
			s.Key = value
		case "names":
			s.Names = strings.Split(value, ",")
		case "count":
			s.Count, err = strconv.Atoi(value)
		case "share":
			s.Share, err = strconv.ParseFloat(value, 64)
		case "draws":
			for _, d := range strings.Split(value, ",") {
				x, bad := strconv.ParseFloat(d, 64)
				draws, err = append(draws, x), bad
			}
		default:
			t.Fatalf("no field %q", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return burst.New(s, func() float64 {
		if len(draws) == 0 {
			t.Fatal("one draw too many")
		}
		d := draws[0]
		draws = draws[1:]
		return d
	})
}

// The first burst that strikes takes the call; one that chance has spared it of leaves it to the next.
func TestTheFirstThatStrikesTakesTheCall(t *testing.T) {
	all := []*burst.Burst{
		burst.New(burst.Spec{Op: burst.Release}, nil),
		burst.New(burst.Spec{Op: burst.Renew, Share: 0.5}, func() float64 { return 0.5 }),
		burst.New(burst.Spec{Op: burst.Renew, Count: 1}, nil),
	}
	for i, want := range []bool{true, false} {
		b, ok := burst.First(all, burst.Call{Op: burst.Renew})
		if ok != want || ok && b != all[2] {
			t.Errorf("call %d: %v by %+v", i, ok, b)
		}
	}
	if all[1].Spared != 2 || all[0].Hits+all[0].Spared != 0 {
		t.Errorf("%+v, %+v", all[0], all[1])
	}
}

func TestWhatATallyComesTo(t *testing.T) {
	for _, c := range []struct {
		burst.Tally
		settled bool
		outcome burst.Outcome
	}{
		{burst.Tally{Victims: 1, Hits: 3, Want: 3}, false, burst.Confirmed}, // a single victim says itself that it is over
		{burst.Tally{Victims: 1, Over: 1, Hits: 3, Want: 3}, true, burst.Confirmed},
		{burst.Tally{Victims: 1, Over: 1, Hits: 2, Want: 3}, true, burst.TooFew},
		{burst.Tally{Victims: 1, Over: 1, Want: 3}, true, burst.None},
		{burst.Tally{Victims: 1, Over: 1}, true, burst.None},
		{burst.Tally{Victims: 2, Over: 1, Hits: 2, Want: 3}, false, burst.TooFew},
		{burst.Tally{Victims: 2, Over: 1, Hits: 3, Want: 3}, true, burst.Confirmed}, // they have hit it together
		{burst.Tally{Victims: 2, Hits: 9}, false, burst.Confirmed},
		{burst.Tally{Victims: 2, Over: 2, Died: 1, Hits: 3, Want: 3}, true, burst.Confirmed},
		{burst.Tally{Victims: 2, Over: 2, Died: 2, Hits: 3, Want: 3}, true, burst.Moved},
	} {
		if c.Settled() != c.settled || c.Outcome() != c.outcome {
			t.Errorf("%+v: settled %v, outcome %d", c.Tally, c.Settled(), c.Outcome())
		}
	}
}

func TestWhatIsWrongWithABurst(t *testing.T) {
	for _, c := range []struct {
		burst.Spec
		want string
	}{
		{burst.Spec{Op: burst.Renew, Mode: burst.Error, Share: 1, Count: 1}, ""},
		{burst.Spec{Op: "undo", Mode: "slow", Count: -1, Share: 1.5}, "op mode count share "},
		{burst.Spec{Op: burst.Renew, Mode: burst.Delay}, "delay "},
	} {
		got := ""
		c.Check(func(field, _, _ string) { got += field + " " })
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.Spec, got, c.want)
		}
	}
}

// rig is a burst by itself.
type rig struct{ *burst.Burst }

func (r rig) Begin(c burst.Call) bool { return r.Strike(c) }
func (r rig) End()                    { r.Burst.End() }
func (r rig) Hits() int64             { return r.Burst.Hits }
func (r rig) Over() bool              { return r.State() == burst.Ended }
func (r rig) Done() {
	if r.Burst.Done() {
		r.End()
	}
}

func TestABurstAgreesWithTheModel(t *testing.T) {
	bursttest.Agree(t, func(_ *testing.T, s burst.Spec, draw func() float64) bursttest.Rig { return rig{burst.New(s, draw)} })
}
