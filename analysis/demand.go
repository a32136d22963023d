package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Who wanted a key when a fault struck its holder. That is known at the shot, or not at all: what is seen only afterwards makes no trial
// void, since followers that never ask again would else be taken for followers that nobody needs.

// finished reports that the job surely had its terminal state when s struck e. What a killed victim wrote, it wrote before it died;
// anybody else's write must surely have come before.
func (j *job) finished(s *shot, e *epoch) bool {
	return slices.ContainsFunc(j.terminals, func(f *effect) bool {
		own := f.epoch == e || f.epoch.replica != "" && f.epoch.replica == e.replica
		return s.does.Kills && own || f.span.To <= s.applied.To
	})
}

// nothingOwed reports that every job under e's key was finished when the fault struck.
func (ix *Facts) nothingOwed(s *shot, e *epoch) bool {
	k := ix.keys[e.key]
	return !k.loop && len(k.jobs) > 0 && !slices.ContainsFunc(k.jobs, func(j *job) bool { return !j.finished(s, e) })
}

// demand is the first attempt of another incarnation that the fault could have kept waiting.
func (ix *Facts) demand(k *keyIndex, s *shot, e *epoch) (history.Span, bool) {
	for _, c := range k.attempts {
		if c.source != s.victim && c.source != e.replica && c.span.To >= s.applied.From {
			return c.sent, true
		}
	}
	return history.Span{}, false
}

// standing reports demand that needs no attempt to be seen: a live candidate of the loop, or a job under the key that surely was not
// finished yet.
func (ix *Facts) standing(k *keyIndex, s *shot, e *epoch) bool {
	if !k.loop {
		return slices.ContainsFunc(k.jobs, func(j *job) bool {
			early := func(f *effect) bool { return f.span.From <= s.applied.To }
			return j.offered.From <= s.applied.To && !j.finished(s, e) && !slices.ContainsFunc(j.terminals, early)
		})
	}
	for who, ready := range ix.ready {
		struck := who == e.replica || s.does.Kills && s.strikes(who)
		if d, dead := ix.deaths[who]; !struck && ready <= s.applied.From && !(dead && d.From <= s.applied.To) {
			return true
		}
	}
	return false
}

// owedUntil is from when on nobody had a reason to take the key any more, since all its jobs were finished, by whomever; open while
// one was not, and for loops.
func (k *keyIndex) owedUntil() int64 {
	if k.loop || len(k.jobs) == 0 {
		return open
	}
	until := int64(never)
	for _, j := range k.jobs {
		if len(j.terminals) == 0 {
			return open
		}
		until = max(until, j.terminals[0].span.From)
	}
	return until
}
