package experiments

import "github.com/lockdrill/lockdrill/internal/vocab"

// Told says which signals tell what the replicas of an observed lock do not: how often they were refused and answered, and how long they waited.
type Told struct {
	Busy            *ToldBy // acquires that were refused, or gave up waiting
	NotOwnedRenew   *ToldBy // renewals that were answered: not yours
	NotOwnedRelease *ToldBy // releases that were answered: not yours
	FailedReleases  *ToldBy // release calls that failed
	Wait            *ToldBy // seconds for which the lock was waited for, in all; of: how many waited
}

// ToldBy is a count that others keep, and what it is a share of. Without that, one is more than none of them and at most all.
type ToldBy struct {
	_      struct{} `rule:"one=metric|log"`
	Metric string   `rule:"ref=metric"`  // a counter, by its name under probes
	Log    string   `rule:"ref=pattern"` // a pattern, by its name under probes.logs
	Of     *Signal  // how many there were in all
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

// bySignals is of what counters and log lines tell, of which the lock says field.
func bySignals(figure, field, example string) teller {
	return func(_ *Experiment, l *Lock) (why, next string) {
		if l.Teller(figure) != nil {
			return "", ""
		}
		return saysNothing, "say in the lock which counter or log line tells it: told_by: {" + field + ": " + example + "}, by its name under probes"
	}
}

// toldSignals checks what the signals of the locks are, beyond that they are there.
func (c *checker) toldSignals() {
	for i := range c.e.System.Locks {
		if t := c.e.System.Locks[i].ToldBy; t != nil && t.Wait != nil && (t.Wait.Metric == "" || t.Wait.Of == nil || t.Wait.Of.Metric == "") {
			c.Check(vocab.At("system.locks", i)+".told_by.wait", "wants two counters: metric, the seconds for which it was waited in all, and of: {metric: NAME}, how many waited")
		}
	}
}

// toldWait checks what is asked of waits that a signal tells.
func (c *checker) toldWait(at string, s *SLO) {
	if w := s.Wait; w != nil && c.e.Observed() && !c.recorded && (w.Class != "" || w.P50 != nil || w.P90 != nil || w.P95 != nil || w.P99 != nil) {
		c.Check(at, "cannot be answered: a sum of waits and their number tell no percentile and no class; max can")
	}
}
