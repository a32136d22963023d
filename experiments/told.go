package experiments

// Told says which signals tell what the replicas of an observed lock do not: how often they were refused and answered, and how long they waited.
type Told struct {
	Busy            *ToldBy // acquires refused, or given up
	NotOwnedRenew   *ToldBy // renewals answered: not yours
	NotOwnedRelease *ToldBy // releases answered: not yours
	FailedReleases  *ToldBy // release calls that failed
	Wait            *ToldBy // seconds waited in all; of: how many waited
}

// ToldBy is a count that others keep, and what it is a share of. Without that, one is more than none of them and at most all.
type ToldBy struct {
	_      struct{} `rule:"one=metric|log"`
	Metric string   `rule:"ref=counter"` // a counter under probes
	Log    string   `rule:"ref=pattern"` // a pattern of probes.logs
	Of     *Signal  // how many calls there were
}

// Teller is the signal that tells a figure of an observed lock, by its name as tellers have it; nil = none does.
func (l *Lock) Teller(figure string) *ToldBy {
	if figure == "abandonments" && l.AbandonedBy != nil {
		return &ToldBy{Metric: l.AbandonedBy.Metric, Log: l.AbandonedBy.Log}
	}
	if l.ToldBy == nil {
		return nil
	}
	return map[string]*ToldBy{"busy.count": l.ToldBy.Busy, "not_owned.renew": l.ToldBy.NotOwnedRenew, "not_owned.release": l.ToldBy.NotOwnedRelease,
		"failed_releases.calls": l.ToldBy.FailedReleases, "wait": l.ToldBy.Wait}[figure]
}

// Signals are all counts of others that tell of the lock, and what they are shares of.
func (l *Lock) Signals() (all []Signal) {
	if l.AbandonedBy != nil {
		all = append(all, *l.AbandonedBy)
	}
	if t := l.ToldBy; t != nil {
		for _, by := range []*ToldBy{t.Busy, t.NotOwnedRenew, t.NotOwnedRelease, t.FailedReleases, t.Wait} {
			if by == nil {
				continue
			}
			if all = append(all, Signal{Metric: by.Metric, Log: by.Log}); by.Of != nil {
				all = append(all, *by.Of)
			}
		}
	}
	return all
}

// bySignals is of what counters and log lines tell, of which the lock says field. words are what a line of a log says.
func bySignals(figure, field, words string) teller {
	return func(e *Experiment, l *Lock) gap {
		if l.Teller(figure) != nil {
			return gap{}
		}
		return gap{saysNothing, "say in the lock which counter or log line tells it: told_by: {" + field + ": {log: PATTERN}}, by its name under probes",
			e.logged("probes: {logs: {patterns: {"+field+": '"+words+"'}}}", "locks: [{name: "+l.Name+", told_by: {"+field+": {log: "+field+"}}}]")}
	}
}

// byWaits is of two counters that tell how long was waited.
func byWaits(_ *Experiment, l *Lock) gap {
	if l.Teller("wait") != nil {
		return gap{}
	}
	return gap{saysNothing, "say in the lock which counters tell it: told_by: {wait: {metric: SECONDS, of: {metric: WAITS}}}, by their names under probes",
		lines(`probes: {metrics: [{name: waited, scrape: "http://127.0.0.1:9100/metrics", series: lock_wait_seconds_sum},`,
			`  {name: waits, scrape: "http://127.0.0.1:9100/metrics", series: lock_wait_seconds_count}]}`,
			"system: {locks: [{name: "+l.Name+", told_by: {wait: {metric: waited, of: {metric: waits}}}}]}")}
}

// toldSignals checks what the signals of a lock are, beyond that they are there.
func (c *checker) toldSignals(path string, t *Told) {
	c.Refuse(t != nil && t.Wait != nil && (t.Wait.Metric == "" || t.Wait.Of == nil || t.Wait.Of.Metric == ""), path+".told_by.wait",
		"wants two counters: metric, the seconds for which it was waited in all, and of: {metric: NAME}, how many waited")
}

// toldWait checks what is asked of waits that a signal tells.
func (c *checker) toldWait(at string, s *SLO) {
	if w := s.Wait; w != nil && c.e.Observed() && !c.Stored && (w.Class != "" || w.P50 != nil || w.P90 != nil || w.P95 != nil || w.P99 != nil) {
		c.Check(at, "cannot be answered: a sum of waits and their number tell no percentile and no class; max can")
	}
}
