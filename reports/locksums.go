package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// lockSums writes what each lock's policy comes to, before anything is measured.
func (p *page) lockSums(all []forecast.LockSums) {
	p.part("WHAT THE SUMS COME TO, lock by lock, before anything is measured")
	for i := range all {
		p.ofLock(&all[i], nil)
	}
}

// rehearsedSums writes the same, and what the seeds gave.
func (p *page) rehearsedSums(all []forecast.RehearsedLock) {
	p.part("WHAT THE SUMS SAY, AND WHAT THE SEEDS GAVE")
	for i := range all {
		p.ofLock(&all[i].LockSums, &all[i])
	}
}

// ofLock writes one lock's sums. seen, what the seeds gave beside them, may be nil.
func (p *page) ofLock(s *forecast.LockSums, seen *forecast.RehearsedLock) {
	p.flow(2, 4, p.paint(bold, s.Lock))
	p.item("  takeover", takeoverRange(s, seen))
	p.item("  mean", meanOf(s, seen))
	if len(s.Takeover.Unless) > 0 {
		p.item("", "the sum does not apply: "+strings.Join(s.Takeover.Unless, "; "))
	}
	for i := range s.Promises {
		p.item("  "+s.Promises[i].Limit+" "+secs(s.Promises[i].Value), promiseOf(s, i, seen))
	}
	if f := s.Failures; f != nil {
		p.item("  failures", failuresOf(f, seen))
	}
	if w := s.Wait; w != nil {
		text := fmt.Sprintf("%s, no less than the ttl %s: who comes when the fault strikes is still there when the lease ends", secs(w.Budget), secs(w.TTL))
		if w.Busy > 0 {
			text = fmt.Sprintf("%s, under ttl %s: who comes when the fault strikes gives up in %s of the cases, and for up to %s others are told busy",
				secs(w.Budget), secs(w.TTL), chance(w.GiveUp), secs(w.Busy))
		}
		if seen != nil && seen.Seeds.Waits > 0 {
			text += fmt.Sprintf("; the seeds: %s of %s after a fault gave up", figures.Count(seen.Seeds.Refused), figures.Plural(seen.Seeds.Waits, "wait"))
		}
		p.item("  wait", text)
	}
	if c := s.Cadence; c != nil {
		text := fmt.Sprintf("not every poll %s: one replica runs every %s, several between %s and that", secs(c.Poll), secs(c.Alone), secs(c.Least))
		if c.Races {
			text = fmt.Sprintf("not every poll %s: every %s or, since the poll races the end of the lease, every %s", secs(c.Poll), secs(c.Alone), secs(c.Alone+c.Poll))
		}
		if seen != nil && seen.Seeds.TickEvery != nil {
			text += "; the seeds: every " + roughly(*seen.Seeds.TickEvery) + " on average"
		}
		p.item("  cadence", text)
	}
}

func takeoverRange(s *forecast.LockSums, seen *forecast.RehearsedLock) string {
	text := secs(s.Takeover.Lo) + " to " + secs(s.Takeover.Hi) + " is possible (L3)"
	if seen == nil {
		return text
	}
	g := &seen.Seeds
	if g.Mean == nil {
		return text + "; the seeds gave none that has an end"
	}
	text += fmt.Sprintf("; the seeds gave %s to %s in %s", roughly(*g.Min), roughly(*g.Max), figures.Plural(g.Takeovers, "takeover"))
	if g.Open > 0 {
		text += fmt.Sprintf(", of which %d have no end", g.Open)
	}
	return text
}

// meanOf holds the mean against the seeds only where its assumptions hold.
func meanOf(s *forecast.LockSums, seen *forecast.RehearsedLock) string {
	if s.Takeover.Mean == nil {
		return "no such takeover comes about"
	}
	says, doubted := roughly(*s.Takeover.Mean), len(s.Takeover.Unless) > 0
	if s.Takeover.Form != "" {
		says = s.Takeover.Form + " = " + says
	}
	switch {
	case seen == nil && doubted:
		return says + " where its assumptions hold, but see below"
	case seen == nil:
		return says + " where all calls are answered at once"
	case seen.Seeds.Mean == nil:
		return "the sum says " + says + " where its assumptions hold"
	}
	gave := fmt.Sprintf("the seeds gave %s, give or take %s", roughly(*seen.Seeds.Mean), roughly(*seen.Seeds.Error))
	switch {
	case doubted:
		return gave + "; no sum to hold it against"
	case seen.Holds():
		return fmt.Sprintf("the sum says %s where its assumptions hold, %s", says, gave)
	}
	return fmt.Sprintf("the sum says %s where its assumptions hold, %s: something besides the kills takes time", says, gave)
}

func promiseOf(s *forecast.LockSums, i int, seen *forecast.RehearsedLock) string {
	pr := s.Promises[i]
	doubted := len(s.Takeover.Unless) > 0
	text := "above all that is possible: no luck needed"
	switch {
	case pr.Luck && pr.Value < s.Takeover.Lo:
		text = "below all that is possible"
	case pr.Luck && doubted && seen != nil:
		text = "inside what is possible: it takes luck"
	case pr.Luck && pr.Chance >= 0.9995:
		text = "met while every call is answered at once"
	case pr.Luck && doubted:
		text = "met by luck, in about " + chance(pr.Chance) + " of such faults, but see below"
	case pr.Luck:
		text = "met by luck, in " + chance(pr.Chance) + " of such faults"
	}
	if seen == nil || seen.Seeds.Met[i].Share == nil {
		return text
	}
	return text + "; the seeds: in " + chance(*seen.Seeds.Met[i].Share)
}

func failuresOf(f *forecast.FailureSum, seen *forecast.RehearsedLock) string {
	text := fmt.Sprintf("%s in a row may fail before the lease is unsafe", figures.Plural(f.Safe, "renewal"))
	switch {
	case f.Class == "legacy_warn":
		text += "; the policy never gives up"
	case f.Class == "continuity":
		text += "; the policy works on, unowned"
	case f.Count == 0:
		text += "; the policy gives up by the clock, before that"
	case f.Class == "critical":
		text += fmt.Sprintf("; the policy gives up after %d, or by the clock", f.Count)
	case f.Count > f.Safe:
		text += fmt.Sprintf("; the policy waits for %d: too late (L1)", f.Count)
	default:
		text += fmt.Sprintf("; the policy gives up after %d", f.Count)
	}
	if seen != nil && seen.Seeds.GivenUp+seen.Seeds.Late > 0 {
		text += fmt.Sprintf("; the seeds: given up %d times, %d too late or never", seen.Seeds.GivenUp, seen.Seeds.Late)
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
