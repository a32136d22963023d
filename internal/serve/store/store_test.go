//go:build full

package store

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/compare"
)

// What another version observed of a run is never read as this one's: the run is indexed anew.
func TestRunsObservedByAnotherVersionAreForgotten(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	open := func(change string) (n int) {
		s, err := Open(ctx, dir, "a test")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		runs, err := s.Runs(ctx, Query{Seen: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.PutRuns(ctx, []Run{{Folder: "night", State: Judged, Seen: &compare.Observed{Experiment: "nightly"}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(ctx, change); err != nil {
			t.Fatal(err)
		}
		return len(runs)
	}
	for i, c := range []struct {
		change string
		want   int
	}{{"", 0}, {"PRAGMA user_version = 1", 1}, {"", 0}, {"", 1}} {
		if n := open(c.change); n != c.want {
			t.Errorf("opened for the %d. time: %d runs, want %d", i+1, n, c.want)
		}
	}
}
