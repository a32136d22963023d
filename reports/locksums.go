package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// lockSums writes what each lock's policy comes to, before anything is measured.
func (p *page) lockSums(all []forecast.LockSums) {
	parts(p, "WHAT THE TIMINGS ALLOW, lock by lock", all, func(s forecast.LockSums) { p.ofLock(&s, nil) })
}

// rehearsedSums writes the same, and what the simulated runs gave.
func (p *page) rehearsedSums(all []forecast.RehearsedLock) {
	p.part("WHAT THE TIMINGS ALLOW, AND WHAT THE SIMULATED RUNS GAVE")
	for i := range all {
		p.ofLock(&all[i].LockSums, &all[i])
	}
}

// ofLock writes one lock's sums. seen, what the simulated runs gave beside them, may be nil.
func (p *page) ofLock(s *forecast.LockSums, seen *forecast.RehearsedLock) {
	p.flow(2, 4, p.paint(bold, s.Lock))
	p.item("  takeover", takeoverRange(s, seen))
	p.item("  mean", meanOf(s, seen))
	for i := range s.Promises {
		p.item("  "+s.Promises[i].Limit+" "+secs(s.Promises[i].Value), promiseOf(s, i, seen))
	}
	if f := s.Failures; f != nil {
		p.item("  failures", failuresOf(f, seen))
	}
	if w := s.Wait; w != nil {
		text := fmt.Sprintf("%s, no less than the ttl %s: a waiter that comes when the fault strikes is still there when the lease ends", secs(w.Budget), secs(w.TTL))
		if w.Busy > 0 {
			text = fmt.Sprintf("%s, under ttl %s: a waiter that comes when the fault strikes gives up in %s of the cases, and others are refused (busy) for up to %s",
				secs(w.Budget), secs(w.TTL), chance(w.GiveUp), secs(w.Busy))
		}
		if seen != nil && seen.Seeds.Waits > 0 {
			text += fmt.Sprintf("; simulated: %s of %s after a fault gave up", figures.Count(seen.Seeds.Refused), figures.Plural(seen.Seeds.Waits, "wait"))
		}
		p.item("  wait", text)
	}
	if c := s.Cadence; c != nil {
		text := fmt.Sprintf("one replica runs every %s, several between every %s and that, and not every poll %s", secs(c.Alone), secs(c.Least), secs(c.Poll))
		if c.Races {
			text = fmt.Sprintf("a run every %s, or every %s when a poll just misses the end of the lease, and not every poll %s", secs(c.Alone), secs(c.Alone+c.Poll), secs(c.Poll))
		}
		if seen != nil && seen.Seeds.TickEvery != nil {
			text += "; simulated: every " + roughly(*seen.Seeds.TickEvery) + " on average"
		}
		p.item("  cadence", text)
	}
}

func takeoverRange(s *forecast.LockSums, seen *forecast.RehearsedLock) string {
	text := secs(s.Takeover.Lo) + " to " + secs(s.Takeover.Hi) + " by the timings (L3)"
	if s.Takeover.Untold != "" {
		text += ", plus " + s.Takeover.Untold
	}
	if seen == nil {
		return text
	}
	g := &seen.Seeds
	if g.Mean == nil {
		return text + "; simulated: none that ended"
	}
	text += fmt.Sprintf("; simulated: %s to %s in %s", roughly(*g.Min), roughly(*g.Max), figures.Plural(g.Takeovers, "takeover"))
	if g.Open > 0 {
		text += fmt.Sprintf(", of which %d did not end", g.Open)
	}
	return text
}

// meanOf is the mean by the sum where the sum applies, and that of the simulated runs.
func meanOf(s *forecast.LockSums, seen *forecast.RehearsedLock) string {
	says := ""
	if s.Takeover.Mean != nil && len(s.Takeover.Unless) == 0 {
		says = roughly(*s.Takeover.Mean)
		if s.Takeover.Form != "" {
			says = s.Takeover.Form + " = " + says
		}
		says += " as long as Redis answers without delay"
	}
	if seen == nil || seen.Seeds.Mean == nil {
		return says
	}
	gave := fmt.Sprintf("simulated: %s, give or take %s", roughly(*seen.Seeds.Mean), roughly(*seen.Seeds.Error))
	if says == "" {
		return gave
	}
	if says += "; " + gave; !seen.Holds() {
		says += ", so something besides the kills takes time"
	}
	return says
}

func promiseOf(s *forecast.LockSums, i int, seen *forecast.RehearsedLock) string {
	pr := s.Promises[i]
	text := "Your timings guarantee it."
	switch {
	case pr.Luck && pr.Value < s.Takeover.Lo:
		text = "Your timings cannot meet it."
	case pr.Luck && len(s.Takeover.Unless) > 0:
		text = "Your timings do not guarantee it."
	case pr.Luck && pr.Chance >= 0.9995:
		text = "Met as long as Redis answers without delay."
	case pr.Luck:
		text = "Your timings do not guarantee it: " + chance(pr.Chance) + " of such faults meet it."
	case s.Takeover.Untold != "":
		text = "Your timings leave " + secs(pr.Value-s.Takeover.Hi) + " of it for " + s.Takeover.Untold + "."
	}
	if seen == nil || seen.Seeds.Met[i].Share == nil {
		return text
	}
	switch met := *seen.Seeds.Met[i].Share; met {
	case 1:
		return text + " Every simulated takeover met it."
	case 0:
		return text + " No simulated takeover met it."
	default:
		return text + " " + chance(met) + " of the simulated takeovers met it."
	}
}

func failuresOf(f *forecast.FailureSum, seen *forecast.RehearsedLock) string {
	text := fmt.Sprintf("%s in a row may fail before the lease is unsafe", figures.Plural(f.Safe, "renewal"))
	switch {
	case f.Class == "legacy_warn":
		text += "; the policy never gives up"
	case f.Class == "continuity":
		text += "; the policy works on without owning the lock"
	case f.Count == 0:
		text += "; the policy gives up by the clock before that"
	case f.Class == "critical":
		text += fmt.Sprintf("; the policy gives up after %d, or by the clock", f.Count)
	case f.Count > f.Safe:
		text += fmt.Sprintf("; the policy waits for %d, which is too late (L1)", f.Count)
	default:
		text += fmt.Sprintf("; the policy gives up after %d", f.Count)
	}
	if seen != nil && seen.Seeds.GivenUp+seen.Seeds.Late > 0 {
		text += fmt.Sprintf("; simulated: given up %d times, %d times too late or never", seen.Seeds.GivenUp, seen.Seeds.Late)
	}
	return text
}

// chance is a share; what is neither 0 nor 1 does not look like it.
func chance(share float64) string {
	switch {
	case share > 0 && share < 0.001:
		return "under 0.1%"
	case share < 1 && share > 0.999:
		return "over 99.9%"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0") + "%"
}
