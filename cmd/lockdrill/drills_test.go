package main

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// needDrill skips a test that runs a drill through the binary where only quick tests are asked for (-short): the race detector
// shows nothing in a process that was built without it.
func needDrill(t *testing.T) {
	t.Helper()
	redistest.Need(t)
	if testing.Short() {
		t.Skip("-short: no drill through the binary")
	}
}

func TestTheGoodDrillPassesOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: no drill through the binary")
	}
	if o := runDrill(t, edit(t, goodDrill, "mode: spawn", "mode: embedded"), nil); o.code != verdict.ExitPass {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
}
