package history

import "testing"

// What the steady state lacked goes by its code; a history without one, written before there was any, is read by its sentence.
func TestWhatTheSteadyStateLackedGoesByItsCode(t *testing.T) {
	for _, c := range []struct {
		phase Phase
		want  Unsteady
	}{
		{Phase{Lacks: OtherwiseUnsteady, Why: "replica r1 is not ready"}, OtherwiseUnsteady},
		{Phase{Lacks: NoKnownHolder, Why: "in other words"}, NoKnownHolder},
		{Phase{Why: "replica r1 is not ready"}, NotReady},
		{Phase{Why: "no pod that is known holds lock leader"}, NoKnownHolder},
		{Phase{Why: "no job of job has finished yet"}, OtherwiseUnsteady},
	} {
		if got := c.phase.Unsteady(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.phase, got, c.want)
		}
	}
}
