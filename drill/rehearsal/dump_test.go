package rehearsal

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
)

// TestDump shows one seed's history: LOCKDRILL_TRUTH_SEED=7 LOCKDRILL_TRUTH_DUMP=file, and of a kept one LOCKDRILL_TRUTH_WHOLE=1; with LOCKDRILL_TRUTH_OUTSIDE=1 as somebody sees it who
// only watches.
func TestDump(t *testing.T) {
	to := os.Getenv("LOCKDRILL_TRUTH_DUMP")
	if to == "" {
		t.Skip("LOCKDRILL_TRUTH_DUMP names no file")
	}
	seed := number(t, os.Getenv("LOCKDRILL_TRUTH_SEED"))
	w := drawWorld(seed, whole())
	e, net := w.e, w.net
	outside := os.Getenv("LOCKDRILL_TRUTH_OUTSIDE") != ""
	r := (*rand.Rand)(nil)
	if outside {
		r = w.look()
	}
	d, err := New(e, net).Run(context.Background(), int64(seed))
	if err != nil {
		t.Fatal(err)
	}
	d.History = inTheDark(d.History, w.dark)
	seen := d.History
	if outside {
		seen = w.o.history(e, d, r)
	}
	if err := os.WriteFile(to, encoded(t, seen), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range d.Truth.Epochs {
		t.Logf("%+v", x)
	}
	for _, x := range d.Truth.Works {
		t.Logf("%+v", x)
	}
	for _, x := range d.Truth.Writes {
		if e := d.Truth.Epochs[x.Epoch]; x.At > e.Freed {
			t.Logf("unowned: %+v under %s, which was free from %d on", x, e.ID, e.Freed)
		}
	}
	t.Logf("%v", d.Truth.Deaths)
	for _, x := range d.Truth.Stops {
		t.Logf("%+v", *x)
	}
}
