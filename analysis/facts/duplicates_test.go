package facts

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// Advice is what the file does not have yet.
func TestAdviceAgainstADuplicateIsNotThereYet(t *testing.T) {
	for _, c := range []struct {
		kind                 string
		fenced, look, strict bool
		next                 string
	}{
		{dupStale, false, false, false, "(fenced: true)"},
		{dupStale, true, false, false, "Mint a higher fence"},
		{dupRepeated, true, false, false, "(look: true)"},
		{dupRepeated, true, true, false, "(strict: true)"},
		{dupRepeated, true, true, true, "check its comparison"},
	} {
		ix := &Facts{Exp: &experiments.Experiment{}}
		ix.Exp.System.Work = []experiments.Work{{Lock: "job", Fenced: c.fenced, Look: c.look, Strict: c.strict}}
		next := ix.DuplicateAdvice(&verdict.Duplicate{Lock: "job", Kinds: []string{c.kind}})
		if !strings.Contains(next, c.next) || c.look && strings.Contains(next, "look: true") || c.fenced && strings.Contains(next, "fenced: true") {
			t.Errorf("%+v: %s", c, next)
		}
	}
}
