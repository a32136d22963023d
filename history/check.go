package history

import (
	"errors"
	"fmt"
	"slices"
)

// Check refuses combinations that make no sense: an unknown kind, a bracket that is not closed, a missing or a foreign
// body, a .return without an outcome. It is called on write and on read; the error names the field.
func (e *Event) Check() error {
	r, known := rules[e.Kind]
	if !known {
		return fmt.Errorf("kind %q is not known", e.Kind)
	}
	switch {
	case e.Source == "":
		return errors.New("source is missing")
	case e.From > e.To:
		return fmt.Errorf("bracket is inverted: from %d > to %d", e.From, e.To)
	case r.key && (e.Lock == "" || e.Key == ""):
		return errors.New("lock and key must be named")
	case r.epoch && e.Epoch == "":
		return errors.New("epoch is missing")
	case r.op && e.Op == "":
		return errors.New("op is missing")
	case r.outcome && e.Outcome == "":
		return errors.New("outcome is missing")
	case !r.outcome && e.Outcome != "":
		return fmt.Errorf("outcome %q does not belong here", e.Outcome)
	case e.Outcome != "" && !slices.Contains([]Outcome{OK, Fail, Unknown}, e.Outcome):
		return fmt.Errorf("outcome %q is none of ok, fail, unknown", e.Outcome)
	case e.Seq < 0 || e.Seq > 0 && e.Stream() == "":
		return fmt.Errorf("seq %d does not belong here", e.Seq)
	case e.Clock != "" && !slices.Contains([]string{ClockRunner, ClockShared, ClockBounds}, e.Clock):
		return fmt.Errorf("clock %q is none of runner, shared, bounds", e.Clock)
	}
	var room [2]string // enough for what is right: no allocation
	if bodies := e.bodies(room[:0]); len(bodies) != 1 || bodies[0] != r.body {
		return fmt.Errorf("body must be %q, got %q", r.body, slices.Clone(bodies))
	}
	return e.checkBody()
}

// checkBody refuses bodies that contradict their envelope.
func (e *Event) checkBody() error {
	switch e.Kind {
	case AcquireReturn:
		if (e.Outcome == OK) != (e.Call.Result == ResultGranted) {
			return fmt.Errorf("outcome %q contradicts result %q", e.Outcome, e.Call.Result)
		}
	case RenewReturn:
		if (e.Outcome == OK) != (e.Call.Result == ResultRenewed) {
			return fmt.Errorf("outcome %q contradicts result %q", e.Outcome, e.Call.Result)
		}
	case WriteReturn:
		if e.Write.Accepted && e.Outcome != OK {
			return fmt.Errorf("an accepted write cannot have outcome %q", e.Outcome)
		}
	case LedgerEntry:
		if e.Entry.Pos <= 0 || e.Entry.Subject == "" || e.Entry.State == "" {
			return errors.New("entry needs pos > 0, subject and state")
		}
		if !e.Entry.Foreign && (e.Epoch == "" || e.Op == "") {
			return errors.New("entry needs epoch and op: only one of a foreign system may lack them")
		}
	case LookKind:
		if e.Look.Present && e.Epoch == "" {
			return errors.New("a present key needs the epoch that it names")
		}
	case ReplicaStart, ReplicaReady, ReplicaExit:
		if e.Replica.Incarnation == "" {
			return errors.New("replica needs its incarnation")
		}
	case RunPrediction:
		if (e.Prediction.Seeds > 0) == (e.Prediction.Why != "") {
			return errors.New("a prediction has seeds, or says why it has none")
		}
	case CoverageKind, GapKind:
		if e.Coverage.Probe == "" {
			return errors.New("coverage needs its probe")
		}
	case MachineLate:
		return e.Late.check()
	case SampleKind:
		return e.Sample.check()
	case UnreadKind:
		return e.Unread.check()
	case BeliefKind:
		return e.Belief.check(e)
	}
	if e.Fault != nil && (e.Fault.ID == "" || e.Fault.Shot <= 0 || e.Fault.Kind == "") {
		return errors.New("fault needs id, shot > 0 and kind")
	}
	return nil
}

// fits refuses an event of a kind, or without a number, that a history of that schema cannot have.
func (e *Event) fits(schema int) error {
	switch r := rules[e.Kind]; {
	case r.since > schema:
		return fmt.Errorf("there is no such kind in schema %d: it came with %d", schema, r.since)
	case (r.seq || e.Seq > 0) && (e.Seq > 0) != (schema >= SchemaNumbered):
		return fmt.Errorf("seq %d does not fit schema %d", e.Seq, schema)
	}
	return nil
}

// bodies appends the JSON names of the bodies that are set.
func (e *Event) bodies(b []string) []string {
	add := func(set bool, name string) {
		if set {
			b = append(b, name)
		}
	}
	add(e.Environment != nil, "environment")
	add(e.Calibration != nil, "calibration")
	add(e.Prediction != nil, "prediction")
	add(e.Phase != nil, "phase")
	add(e.Note != nil, "note")
	add(e.Incarnation != nil, "incarnation")
	add(e.Replica != nil, "replica")
	add(e.Job != nil, "job")
	add(e.Call != nil, "call")
	add(e.Abandon != nil, "abandon")
	add(e.Work != nil, "work")
	add(e.Write != nil, "write")
	add(e.Entry != nil, "entry")
	add(e.Look != nil, "look")
	add(e.Coverage != nil, "coverage")
	add(e.Sample != nil, "sample")
	add(e.Fault != nil, "fault")
	add(e.Match != nil, "match")
	add(e.Object != nil, "object")
	add(e.Late != nil, "late")
	add(e.Unread != nil, "unread")
	add(e.Belief != nil, "belief")
	return b
}

// Check refuses a header that this version cannot read.
func (h *Header) Check() error {
	switch {
	case h.Schema < 1 || h.Schema > SchemaVersion:
		return fmt.Errorf("schema %d: this version reads schemas 1 to %d", h.Schema, SchemaVersion)
	case h.Run == "" || h.Experiment == "":
		return errors.New("run and experiment must be named")
	case h.Mode != Live && h.Mode != Rehearsal:
		return fmt.Errorf("mode %q is none of live, rehearsal", h.Mode)
	case h.TimeScale <= 0:
		return fmt.Errorf("time_scale %v is not above 0", h.TimeScale)
	}
	for k, v := range h.Labels {
		if err := (Labels{}).Add(k + "=" + v); err != nil {
			return err
		}
	}
	return nil
}
