package analysis

// SignalLane is one metric that the experiment declares, at all its targets.
type SignalLane struct {
	Metric  string
	Kind    string // counter, gauge ...; "" = nobody said
	Targets []SignalTarget
}

// SignalTarget is the metric at one target: every change of its value that a look has shown.
type SignalTarget struct {
	Target string // incarnation, or "endpoint"
	Points []SignalPoint
	Last   float64 // the last answered look, in seconds
	Gone   string  // why no look is answered any more; "" = they are
}

// SignalPoint is one value, the sum of the series that match, from the instant at which it was first seen.
type SignalPoint struct {
	At     Moment // changed between the look before and this one
	Value  float64
	Absent bool // the target has no such series
}

func (ix *index) signalLanes() []SignalLane {
	var out []SignalLane
	for _, m := range ix.exp.Probes.Metrics {
		l := SignalLane{Metric: m.Name}
		for _, s := range ix.scrapes(m.Name) {
			if len(s.points) == 0 {
				continue
			}
			if s.kind != "" {
				l.Kind = s.kind
			}
			t := SignalTarget{Target: s.target, Last: seconds(s.last.To), Gone: s.gone}
			for _, p := range s.points {
				at := momentOf(p.span)
				if p.prev != nil {
					at.From = seconds(p.prev.From)
				}
				t.Points = append(t.Points, SignalPoint{At: at, Value: p.value, Absent: len(p.series) == 0})
			}
			l.Targets = append(l.Targets, t)
		}
		if len(l.Targets) > 0 {
			out = append(out, l)
		}
	}
	return out
}
