package runner

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// scripted is a probe whose looks take and answer what the test says.
type scripted struct {
	look  func(n int, final bool) (time.Duration, error)
	count int
}

func (p *scripted) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	p.count++
	takes, err := p.look(p.count, final)
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func(s history.Span) []history.Event {
		return []history.Event{{Kind: history.LookKind, Span: s, Source: "probe:x", Lock: "l", Key: "k", Look: &history.Look{Final: final}}}
	}, err
}

// recorded is a clock that begins now, and a recorder by it with what it writes.
func recorded(t *testing.T) (func() int64, *history.Recorder, *bytes.Buffer) {
	t.Helper()
	start, buf := time.Now(), new(bytes.Buffer)
	clock := func() int64 { return int64(time.Since(start)) }
	rec, err := history.NewRecorder(buf, history.Header{Run: "r", Experiment: "x", Mode: history.Live, TimeScale: 1}, clock, nil)
	testkit.Must(t, err)
	return clock, rec, buf
}

// sample runs a probe for a while in virtual time, every 10 ms with a max_gap of 50 ms, and returns what was recorded.
func sample(t *testing.T, run time.Duration, look func(n int, final bool) (time.Duration, error)) []history.Event {
	t.Helper()
	var events []history.Event
	synctest.Test(t, func(t *testing.T) {
		clock, rec, buf := recorded(t)
		s := startSamplers(t.Context(), rec, clock, []Sampled{{
			Name: "x", Source: "probe:x", Probe: &scripted{look: look},
			ProbeSettings: experiments.ProbeSettings{Every: 10 * time.Millisecond, MaxGap: 50 * time.Millisecond},
		}})
		<-time.After(run)
		s.finish(t.Context(), false)
		h, err := history.Read(buf)
		testkit.Must(t, err)
		events = h.Events
	})
	return events
}

func kinds(events []history.Event, kind history.Kind) []history.Event {
	var out []history.Event
	for _, e := range events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// covered checks that coverage and gaps together reach without a hole from the start to the end.
func covered(t *testing.T, events []history.Event, end time.Duration) {
	t.Helper()
	var at int64
	for _, e := range events {
		if e.Kind != history.CoverageKind && e.Kind != history.GapKind {
			continue
		}
		if e.From > at {
			t.Errorf("nothing is said about [%s, %s]", time.Duration(at), time.Duration(e.From))
		}
		at = max(at, e.To)
	}
	if at < int64(end) {
		t.Errorf("the books end at %s, want %s", time.Duration(at), end)
	}
}

func TestAHealthyProbeCoversTheWholeRun(t *testing.T) {
	events := sample(t, 3500*time.Millisecond, func(int, bool) (time.Duration, error) { return time.Millisecond, nil })
	if gaps := kinds(events, history.GapKind); len(gaps) != 0 {
		t.Errorf("gaps %+v", gaps)
	}
	covered(t, events, 3500*time.Millisecond)
	cover := kinds(events, history.CoverageKind)
	if n := len(cover); n < 4 || !cover[n-1].Coverage.Final || cover[0].Coverage.Final {
		t.Errorf("%d coverage events, the last one final: %+v", len(cover), cover)
	}
	if final := kinds(events, history.LookKind); !final[len(final)-1].Look.Final {
		t.Error("the last look is not the final one")
	}
}

// TestAFinalLookThatFillsASecond: the coverage of a second is full just with the final look, and still says that it is final.
func TestAFinalLookThatFillsASecond(t *testing.T) {
	events := sample(t, 985*time.Millisecond, func(_ int, final bool) (time.Duration, error) {
		if final {
			return 30 * time.Millisecond, nil
		}
		return time.Millisecond, nil
	})
	cover := kinds(events, history.CoverageKind)
	if n := len(cover); n == 0 || !cover[n-1].Coverage.Final || cover[n-1].Width() < coverEvery {
		t.Errorf("coverage %+v, want its last to be of a second, and final", cover)
	}
}

func TestAStretchWithoutAGoodLookIsAGap(t *testing.T) {
	for name, look := range map[string]func(n int, final bool) (time.Duration, error){
		"looks fail": func(n int, _ bool) (time.Duration, error) {
			if n > 20 && n < 40 {
				return time.Millisecond, errors.New("no route")
			}
			return time.Millisecond, nil
		},
		"one look hangs": func(n int, _ bool) (time.Duration, error) {
			if n == 20 {
				return 200 * time.Millisecond, nil
			}
			return time.Millisecond, nil
		},
		"one look hangs past its limit": func(n int, _ bool) (time.Duration, error) {
			if n == 20 {
				return time.Hour, nil
			}
			return time.Millisecond, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := sample(t, 3*time.Second, look)
			gaps := kinds(events, history.GapKind)
			// A slow look is blind twice: nothing is known of the time before its answer, nor when within it the look was made.
			if len(gaps) == 0 || len(gaps) > 2 || gaps[0].Width() < int64(190*time.Millisecond) || gaps[0].Coverage.Why == "" {
				t.Fatalf("gaps %+v, want about 200 ms or more", gaps)
			}
			covered(t, events, 3*time.Second)
		})
	}
}

// A probe that is blind at the end leaves a gap that reaches to the end: its silence is not evidence.
func TestBlindAtTheEndIsAGapToTheEnd(t *testing.T) {
	events := sample(t, 2*time.Second, func(n int, final bool) (time.Duration, error) {
		if n > 100 {
			return 0, errors.New("gone")
		}
		return time.Millisecond, nil
	})
	covered(t, events, 2*time.Second)
	last := events[len(events)-1]
	if last.Kind != history.GapKind || last.Coverage.Why != "gone" {
		t.Errorf("the last event is %s %+v, want the gap", last.Kind, last.Coverage)
	}
	for _, e := range kinds(events, history.CoverageKind) {
		if e.Coverage.Final {
			t.Error("a final coverage without a final look")
		}
	}
}

// A probe that never saw anything is one gap from the start.
func TestNeverAGoodLookIsOneGap(t *testing.T) {
	events := sample(t, time.Second, func(int, bool) (time.Duration, error) { return 0, errors.New("refused") })
	if len(events) != 1 || events[0].Kind != history.GapKind || events[0].From > int64(time.Millisecond) {
		t.Errorf("events %+v, want one gap from the start", events)
	}
}

// A probe that asks the replicas makes its final look while they are there; the others go on, and make theirs afterwards.
func TestProbesThatLiveEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finals []string
		probe := func(name string, live bool) Sampled {
			look := func(_ int, final bool) (time.Duration, error) {
				if final {
					finals = append(finals, name)
				}
				return 0, nil
			}
			return Sampled{Name: name, Source: "probe:x", Live: live, Probe: &scripted{look: look},
				ProbeSettings: experiments.ProbeSettings{Every: time.Second, MaxGap: time.Minute}}
		}
		rec, err := history.NewRecorder(&bytes.Buffer{}, history.Header{Run: "r", Experiment: "x", Mode: history.Live, TimeScale: 1}, func() int64 { return 0 }, nil)
		testkit.Must(t, err)
		s := startSamplers(t.Context(), rec, func() int64 { return 0 }, []Sampled{probe("ledger", false), probe("metric", true)})
		synctest.Wait()
		s.finish(t.Context(), true)
		if !slices.Equal(finals, []string{"metric"}) {
			t.Errorf("final looks of %v before the replicas are stopped, want only the metric's", finals)
		}
		s.finish(t.Context(), false)
		if !slices.Equal(finals, []string{"metric", "ledger"}) {
			t.Errorf("final looks of %v", finals)
		}
	})
}

// Probes wait for nobody but their own stores: where one hangs, the other has no gap, nor wider looks.
func TestAStoreThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, rec, buf := recorded(t)
		probe := func(name string, every time.Duration, takes func(n int) time.Duration) Sampled {
			p := &scripted{look: func(n int, final bool) (time.Duration, error) { return takes(n), nil }}
			return Sampled{Name: name, Source: "probe:" + name, Probe: p,
				ProbeSettings: experiments.ProbeSettings{Every: every, MaxGap: 20 * time.Millisecond}}
		}
		s := startSamplers(t.Context(), rec, clock, []Sampled{
			probe("hangs", 5*time.Millisecond, func(n int) time.Duration {
				switch n {
				case 50:
					return 300 * time.Millisecond
				case 100:
					return time.Hour
				}
				return time.Millisecond
			}),
			probe("well", 10*time.Millisecond, func(int) time.Duration { return time.Millisecond }),
		})
		<-time.After(5 * time.Second)
		s.finish(t.Context(), false)
		h, err := history.Read(buf)
		testkit.Must(t, err)
		var failed int
		for _, e := range kinds(h.Events, history.GapKind) {
			if e.Coverage.Probe != "hangs" {
				t.Errorf("%s has a gap: %+v", e.Coverage.Probe, e.Coverage)
			} else if e.Coverage.Failed {
				failed++
			}
		}
		looks := map[string]int64{}
		var blind int64
		for _, e := range h.Events {
			if e.Kind == history.CoverageKind {
				looks[e.Coverage.Probe] += e.Coverage.Samples
			} else if e.Kind == history.GapKind {
				blind = max(blind, e.Width())
			}
		}
		// Of 1000 and 500 looks that are due, those are missing that could not be made while an answer was owed.
		if looks["well"] < 495 || looks["hangs"] < 530 || looks["hangs"] > 550 {
			t.Errorf("looks %v, want one for each time that is due and owes no answer", looks)
		}
		if failed != 1 || blind < int64(lookWithin) || blind > int64(lookWithin+50*time.Millisecond) {
			t.Errorf("%d gaps of looks that failed, the longest gap %s, want one of as long as a look may take", failed, time.Duration(blind))
		}
		covered(t, eventsOf(h.Events, "hangs"), 5*time.Second)
		covered(t, eventsOf(h.Events, "well"), 5*time.Second)
	})
}

func eventsOf(events []history.Event, probe string) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Coverage == nil || e.Coverage.Probe != probe })
}

// What looks get is told once when they begin to fail, and once when they succeed again.
func TestFailingLooksAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, rec, _ := recorded(t)
		var fails atomic.Bool
		fails.Store(true)
		s := startSamplers(t.Context(), rec, clock, []Sampled{{
			Name: "x", Source: "probe:x", ProbeSettings: experiments.ProbeSettings{Every: 10 * time.Millisecond, MaxGap: 50 * time.Millisecond},
			Probe: &scripted{look: func(int, bool) (time.Duration, error) {
				if fails.Load() {
					return time.Millisecond, errors.New("NOPERM")
				}
				return time.Millisecond, nil
			}},
		}})
		told := func() (all []string) {
			s.tell(func(probe, why string) { all = append(all, probe+": "+why) })
			return all
		}
		time.Sleep(100 * time.Millisecond)
		if got := told(); !slices.Equal(got, []string{"x: NOPERM"}) {
			t.Errorf("while looks fail: %q", got)
		}
		fails.Store(false)
		time.Sleep(100 * time.Millisecond)
		if got := told(); !slices.Equal(got, []string{"x: "}) {
			t.Errorf("once they succeed: %q", got)
		}
		time.Sleep(100 * time.Millisecond)
		if got := told(); len(got) > 0 {
			t.Errorf("when nothing has changed: %q", got)
		}
		s.finish(t.Context(), false)
	})
}
