package rehearsal

import "github.com/lockdrill/lockdrill/experiments"

// Unable says why no drill of e can be rehearsed; "" = one can.
func Unable(e *experiments.Experiment) string {
	if e.Observed() {
		return "system.mode observe is not rehearsed: the replicas are somebody's own, and nothing is known of how they take their locks; write the same policy into a file of mode embedded"
	}
	return ""
}

// WhyNot says why this fault cannot be rehearsed; "" = it can.
func WhyNot(f *experiments.Fault) string {
	if f.Kill != nil && f.Kill.Form == experiments.FormGraceful {
		return "a pod that is asked to stop, and takes its time, has no image in the simulated world"
	}
	return Why(f.Kind())
}

// Simpler says what the rehearsal of a fault leaves out; "" = nothing.
func Simpler(f *experiments.Fault) string {
	if f.Kill != nil && f.Kill.Form == experiments.FormForceDelete {
		return "it is rehearsed as a death at the call: a process that outlives its pod's object, or hands over, is not simulated"
	}
	return ""
}
