package rehearsal

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// truthSeeds of a plain test; make truth asks for more. LOCKDRILL_TRUTH_SEED is one to do again, by itself, or with the latter
// the first of so many.
const truthSeeds = 2000

// blindSeeds of them are judged without looks at the keys as well.
const blindSeeds = 200

// The measured ranges contain what really happened, and say something; verdicts are right by it; the locks keep what their policies
// promise. Experiments, networks and faults are random; the seed that failed is printed, and does it again.
func TestTruthInRange(t *testing.T) {
	roomy(t)
	from, n := uint64(0), uint64(truthSeeds)
	if s := os.Getenv("LOCKDRILL_TRUTH_SEED"); s != "" {
		from, n = number(t, s), 1
	}
	if s := os.Getenv("LOCKDRILL_TRUTH_SEEDS"); s != "" {
		n = number(t, s)
	}
	if testing.Short() {
		n = min(n, 200)
	}
	var mu sync.Mutex
	var all tried
	var together met
	failed := 0
	var wg sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := from + uint64(worker); seed < from+n; seed += uint64(runtime.GOMAXPROCS(0)) {
				w := drawWorld(seed, whole())
				seen, wrong := compare(w, true)
				if seed < blindSeeds && len(wrong) == 0 {
					_, wrong = compare(w, false)
				}
				mu.Lock()
				all.add(seen)
				together.see(&w)
				if failed += min(1, len(wrong)); len(wrong) > 0 {
					t.Errorf("%s: %s", &w, wrong[0])
				}
				stop := failed >= 20
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	if n >= truthSeeds && failed == 0 {
		for _, lack := range slices.Concat(all.lacks(), together.lacks(false)) {
			t.Error(lack)
		}
	}
	t.Logf("%d of %d seeds failed%s%s", failed, n, all.text(), together.text(false))
}

// whole says that the worlds leave out nothing: LOCKDRILL_TRUTH_WHOLE=1, as those of the kept seeds do.
func whole() bool { return os.Getenv("LOCKDRILL_TRUTH_WHOLE") != "" }

// String is how to do a world again.
func (w *world) String() string {
	if w.s == nil {
		return fmt.Sprintf("LOCKDRILL_TRUTH_WHOLE=1 LOCKDRILL_TRUTH_SEED=%d", w.seed)
	}
	return fmt.Sprintf("LOCKDRILL_TRUTH_SEED=%d", w.seed)
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Seeds in which something once was outside its range, and what that was.
func TestSeedsThatFailed(t *testing.T) {
	for seed, was := range map[uint64]string{
		1659:  "a pause that found its victim paused already continued it",
		18:    "a key that a fault took away was thought to be kept until its lease's end",
		362:   "the same, with a stranger in it before anybody looked",
		1433:  "a store that lost its data just after a grant was thought to have kept it",
		1173:  "a key that came back with a standby was held against the probe",
		3691:  "a store that was stopped and frozen at once",
		5107:  "PTTL has up to a millisecond more than it says",
		7507:  "a key that a flush had freed was thought to be freed by the release without an answer",
		11473: "a holder that died in its pause was thought to have worked until then",
		13659: "a key that a flush had freed and a standby brought back was held against its release",
		57946: "a key that a standby brought back, and nobody had looked at before, was held against its grant",
		76738: "a grant long after its caller had given up, while the probe was blind, was thought impossible",
		11745: "renewals that came later than an op timeout after their callers had given up",
		2902:  "a grant that came too late, and was undone, was thought to be left to its TTL on purpose",
		50844: "a key that a fault took from an epoch that was not surely granted yet was thought to be stolen",
		83051: "a fault that struck an orphan after the takeover was over was thought to have cut it short",
		24093: "an undo that found the key flushed a moment before was thought to have come too late",
		0:     "a trial in which nobody else asked for the key, and that another fault cut short",
		2:     "a fault that began after an abandonment was thought to have made it needed",
		2084:  "a key that a restart had freed was thought to be held when the store was restarted again",
		3136:  "a restart of the store was thought to be over before it had begun, and its takeovers cut short by itself",
		8421:  "an abandonment of a key that a flush had freed was thought needless, since its release had no answer",
		9786:  "a key that a standby had brought back with an older end was thought to be held until the newer one",
		12319: "a key that a standby had brought back with an older end was thought to be freed by the release without an answer",
		13800: "renewals that a burst had only held back were thought not to be hit",
		26441: "a key that an undo without an answer had freed, and a standby brought back, was thought to have been held all the time",
		19007: "a key that its holder had given back, and a standby brought back, was thought to have been held all the time",
	} {
		if _, wrong := compare(drawWorld(seed, true), true); len(wrong) > 0 {
			t.Errorf("seed %d (%s): %s", seed, was, wrong[0])
		}
	}
	for seed, was := range map[uint64]string{
		11237:  "a tick of one who held the key before the killed one was thought to be from before the kill",
		44069:  "a key that was given back by a second try, and the first never came to the store, was thought to have been lost",
		116260: "of two grants that nobody saw come, in an order that nobody knows, the second was thought to be stolen from the first",
		161319: "a tick that was on its way when its writer was killed was thought to have come before that",
		85802:  "looks that a short freeze of the store held up were thought to have been made, and to show that nobody held the key",
	} {
		w := drawWorld(seed, false)
		if _, wrong := compare(w, true); len(wrong) > 0 {
			t.Errorf("%s (%s): %s", &w, was, wrong[0])
		}
	}
}

// compare holds what is measured of a world's drill against what happened in it. Without looks at the keys claims are all that is known of
// them: ranges are wider then, verdicts fewer, and both are true all the same.
func compare(w world, looks bool) (tried, []string) {
	e, net, seed := w.e, w.net, w.seed
	d, err := New(e, net).Run(context.Background(), int64(seed))
	if err != nil {
		return tried{}, []string{err.Error()}
	}
	d.History = inTheDark(d.History, w.dark)
	if !looks {
		d.History.Events = slices.DeleteFunc(d.History.Events, func(ev history.Event) bool { return ev.Source == "probe:"+experiments.ProbeKeys })
	}
	c := &comparison{e: e, t: d.Truth, j: analysis.NewJudger(e).Judge(d.History), final: math.MaxInt64, blink: int64(e.Probes.LockKeys.MaxGap + 2*(e.Probes.LockKeys.Every+2*net.Most))}
	for i := range d.History.Events {
		ev := &d.History.Events[i]
		switch {
		case ev.Kind != history.RunPhase:
		case ev.Phase.Name == history.PhaseFinal:
			c.final = ev.From
		case ev.Phase.Name == history.PhaseFaults:
			c.faults = ev.From
		}
	}
	if !looks {
		c.blink = int64(time.Millisecond) // nobody looked, so what may have been granted is told however short it was
	}
	c.index()
	c.strikes(d.History)
	c.takeovers()
	c.overlaps()
	c.duplicates()
	c.debts()
	c.unowned()
	c.abandonments()
	c.effects()
	c.needs()
	c.verdicts(d.History, seed)
	for _, f := range c.j.Findings {
		c.wrong = append(c.wrong, fmt.Sprintf("an honest world gives a contradiction: %s %v", f.What, f.Evidence))
	}
	return c.tried, append(c.wrong, keepPromises(e, net, d, c.final)...)
}
