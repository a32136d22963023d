package reports

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// lockSums are what each lock's policy comes to, and what simulated runs of it gave, where there were any.
func lockSums(all []forecast.LockSums, rehearsed int64) doc.Section {
	s := doc.Section{ID: "sums", Title: "What the timings allow, lock by lock", Short: "What the timings allow"}
	if rehearsed > 0 {
		s.Title = "What the timings allow, and what " + figures.Plural(rehearsed, "simulated run") + " gave"
	}
	for _, l := range all {
		s.Blocks = append(s.Blocks, doc.Block{Heading: l.Lock, Items: sumsOf(&l, cmp.Or(l.Seeds, &forecast.SeedSums{}))})
	}
	return s
}

// sumsOf are one lock's sums. seen is what simulated runs gave beside them.
func sumsOf(s *forecast.LockSums, seen *forecast.SeedSums) []doc.Item {
	list := []doc.Item{doc.Of("takeover", takeoverRange(s))}
	if seen.Mean != nil {
		list = append(list, doc.Of("mean", fmt.Sprintf("simulated: %s, give or take %s", roughly(*seen.Mean), roughly(*seen.Error))))
	}
	for i, pr := range s.Promises {
		list = append(list, doc.Of(pr.Limit+" "+secs(pr.Value), promiseOf(s, i)))
	}
	if f := s.Failures; f != nil {
		list = append(list, doc.Of("failures", failuresOf(f, seen)))
	}
	if w := s.Wait; w != nil {
		text := fmt.Sprintf("%s, no less than the ttl %s: a waiter that comes when the fault strikes is still there when the lease ends", secs(w.Budget), secs(w.TTL))
		if w.Busy > 0 {
			text = fmt.Sprintf("%s, under ttl %s: a waiter that comes when the fault strikes may give up, and is refused (busy) for up to %s", secs(w.Budget), secs(w.TTL), secs(w.Busy))
		}
		if seen.Waits > 0 {
			text += fmt.Sprintf("; simulated: %s of %s after a fault gave up", figures.Count(seen.Refused), figures.Plural(seen.Waits, "wait"))
		}
		list = append(list, doc.Of("wait", text))
	}
	if c := s.Cadence; c != nil {
		text := fmt.Sprintf("one replica runs every %s, several between every %s and that, and not every poll %s", secs(c.Alone), secs(c.Least), secs(c.Poll))
		if c.Races {
			text = fmt.Sprintf("a run every %s, or every %s when a poll just misses the end of the lease, and not every poll %s", secs(c.Alone), secs(c.Alone+c.Poll), secs(c.Poll))
		}
		if seen.TickEvery != nil {
			text += "; simulated: every " + roughly(*seen.TickEvery) + " on average"
		}
		list = append(list, doc.Of("cadence", text))
	}
	return list
}

func takeoverRange(s *forecast.LockSums) string {
	text := secs(s.Takeover.Lo) + " to " + secs(s.Takeover.Hi) + " by the timings (L3)"
	if s.Takeover.Untold != "" {
		text += ", plus " + s.Takeover.Untold
	}
	g := s.Seeds
	switch {
	case g == nil:
		return text
	case g.Mean == nil:
		return text + "; simulated: none that ended"
	}
	text += fmt.Sprintf("; simulated: %s to %s in %s", roughly(*g.Min), roughly(*g.Max), figures.Plural(g.Takeovers, "takeover"))
	if g.Open > 0 {
		text += fmt.Sprintf(", of which %d did not end", g.Open)
	}
	return text
}

func promiseOf(s *forecast.LockSums, i int) string {
	pr := s.Promises[i]
	text := "Your timings guarantee it if the first effect comes within " + secs(pr.Value-s.Takeover.Hi) + " of the grant."
	switch {
	case pr.Luck && pr.Value < s.Takeover.Lo:
		text = "Your timings cannot meet it."
	case pr.Luck && pr.Prompt:
		text = "Met as long as the store answers without delay."
	case pr.Luck:
		text = "Your timings do not guarantee it."
	case s.Takeover.Untold != "":
		text = "Your timings leave " + secs(pr.Value-s.Takeover.Hi) + " of it for " + s.Takeover.Untold + "."
	}
	if s.Seeds == nil || s.Seeds.Met[i].Share == nil {
		return text
	}
	switch met := *s.Seeds.Met[i].Share; met {
	case 1:
		return text + " Every simulated takeover met it."
	case 0:
		return text + " No simulated takeover met it."
	default:
		return text + " " + chance(met) + " of the simulated takeovers met it."
	}
}

func failuresOf(f *forecast.FailureSum, seen *forecast.SeedSums) string {
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
	if seen.GivenUp+seen.Late > 0 {
		text += fmt.Sprintf("; simulated: given up %d times, %d times too late or never", seen.GivenUp, seen.Late)
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
