package rehearsal

import (
	"context"
	"os"
	"testing"
)

// TestDump shows one seed's history: LOCKDRILL_TRUTH_SEED=7 LOCKDRILL_TRUTH_DUMP=file.
func TestDump(t *testing.T) {
	to := os.Getenv("LOCKDRILL_TRUTH_DUMP")
	if to == "" {
		t.Skip("LOCKDRILL_TRUTH_DUMP names no file")
	}
	seed := number(t, os.Getenv("LOCKDRILL_TRUTH_SEED"))
	e, net := randomDrill(seed)
	d, err := New(e, net).Run(context.Background(), int64(seed))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, encoded(t, d.History), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range d.Truth.Epochs {
		t.Logf("%+v", x)
	}
	for _, x := range d.Truth.Works {
		t.Logf("%+v", x)
	}
	t.Logf("%v", d.Truth.Deaths)
	for _, x := range d.Truth.Stops {
		t.Logf("%+v", *x)
	}
}
