package analysis

import "github.com/lockdrill/lockdrill/analysis/verdict"

func (ix *Facts) signalLanes() []verdict.SignalLane {
	var out []verdict.SignalLane
	for _, m := range ix.exp.Probes.Metrics {
		l := verdict.SignalLane{Metric: m.Name}
		for _, s := range ix.samples[m.Name] {
			if len(s.points) == 0 {
				continue
			}
			if s.kind != "" {
				l.Kind = s.kind
			}
			t := verdict.SignalTarget{Target: s.target, Last: seconds(s.last.To), Gone: s.gone}
			for _, p := range s.points {
				at := momentOf(p.span)
				if p.prev != nil {
					at.From = seconds(p.prev.From)
				}
				t.Points = append(t.Points, verdict.SignalPoint{At: at, Value: p.value, Absent: len(p.series) == 0})
			}
			l.Targets = append(l.Targets, t)
		}
		if len(l.Targets) > 0 {
			out = append(out, l)
		}
	}
	return out
}
