package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// Tuning writes the policy that measured work asks for, how it comes about, and what it changes; or why there is none. written is the
// file that the drill was written to, "" = none. Of o only Width and Color count.
func Tuning(w io.Writer, t *forecast.Tuning, written string, o Options) error {
	p := newPage(o)
	p.measured(t)
	if !t.Possible {
		p.impossible(t)
	} else {
		p.possible(t, written)
	}
	return p.to(w, "tuning")
}

// measured is what the hold times were, by class.
func (p *page) measured(t *forecast.Tuning) {
	if len(t.Measured) == 0 {
		return
	}
	p.title("MEASURED, from " + t.Measured[0].Source)
	for _, m := range t.Measured {
		name := cmp.Or(m.Class, "all")
		text := fmt.Sprintf("p50 %s  p95 %s  p99 %s  n %s", bracket(m.P50), bracket(m.P95), bracket(m.P99), number(float64(m.N)))
		if m.Cut > 0 {
			text += fmt.Sprintf("; %d cut off by the holder's death are not counted", m.Cut)
		}
		if need := int64(stats.TrialsNeeded(0.99, 0)); m.N < need {
			text += fmt.Sprintf("; fewer than %d cannot show a p99 at 95%% confidence", need)
		}
		if m.Class == t.Chosen && len(t.Measured) > 1 {
			text += "; the longest p99: it decides"
		}
		if m.TTL99 > 0 && len(t.Measured) > 1 {
			text += fmt.Sprintf("; without renewals this class asks for ttl %s by its p99, %s by its p95", figures.Seconds(m.TTL99, &m.TTL99), figures.Seconds(m.TTL95, &m.TTL95))
		}
		p.item(name, text)
	}
	p.flow(2, 2, "The truth lies within each range. The upper end of the p99 counts.")
	p.blank()
}

// bracket is a range as measured, or as wide as its bucket.
func bracket(r verdict.Range) string { return span(r.Lo, r.Hi, verdict.UnitSeconds) }

func (p *page) impossible(t *forecast.Tuning) {
	p.line(p.paint(red, "NO SUCH POLICY"))
	for _, s := range t.Broken {
		p.flow(2, 6, s.Rule+"  "+s.Text)
		p.flow(6, 6, s.Means)
	}
}

func (p *page) possible(t *forecast.Tuning, written string) {
	p.title("RECOMMENDED, by the rule ttl = p99 + jitter + guard, renew = ttl / 3, takeover = ttl + jitter + poll")
	for _, s := range t.Steps {
		p.item(s.Field, s.Text)
	}
	p.trade(t)
	p.beforeAndAfter(t)
	p.part("FOR AN EXPERIMENT FILE, below system")
	for line := range strings.Lines(t.YAML) {
		p.line("  " + strings.TrimRight(line, "\n"))
	}
	if t.Policy.Loop == nil {
		p.flow(2, 2, "and in its work: redeliver "+secs(t.Pickup))
	}
	if written != "" {
		p.flow(0, 2, "The rehearsed drill is in "+written+": lockdrill run "+written)
	}
}

// trade is what a renewal interval buys and costs.
func (p *page) trade(t *forecast.Tuning) {
	p.part(fmt.Sprintf("THE TRADE, with %s locks held at once", number(float64(t.Locks))))
	table := [][]string{{"TTL /", "RENEW EVERY", "MAY FAIL IN A ROW", "WRITES A SECOND", ""}}
	for _, r := range t.Trade {
		mark := ""
		if r.Recommends {
			mark = "<- recommended"
		}
		table = append(table, []string{strconv.Itoa(r.Parts), roughly(r.RenewEvery), strconv.Itoa(r.Failures), perSecond(r.Writes), mark})
	}
	p.aligned(table)
}

// perSecond is a rate to three digits.
func perSecond(f float64) string {
	if f >= 100 {
		return number(math.Round(f))
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// beforeAndAfter holds the policies' sums and rehearsals beside one another.
func (p *page) beforeAndAfter(t *forecast.Tuning) {
	p.blank()
	p.line(p.paint(bold, "REHEARSAL") + fmt.Sprintf("  in virtual time, %s of each. It proves nothing about a live system", figures.Plural(t.Seeds, "seed")))
	policies := []*forecast.TunedPolicy{t.After}
	if t.Before != nil {
		policies = []*forecast.TunedPolicy{t.Before, t.After}
	}
	for _, q := range policies {
		p.flow(2, 4, p.paint(bold, q.Name))
		for _, b := range q.Breaches {
			text := "breached in " + shareOfSeeds(b.Breach, t.Seeds)
			if b.Seeds == 0 { // no data is no "never"
				text = "not reached by any seed"
			}
			if b.Median != nil {
				text += fmt.Sprintf("; median %s, longest %s", roughly(*b.Median), roughly(*b.Max))
			}
			p.flow(4, 6, b.Promise+": "+text)
		}
		if g := q.Sums.Seeds; g.Mean != nil {
			p.flow(4, 6, fmt.Sprintf("takeovers: %s to %s, on average %s", roughly(*g.Min), roughly(*g.Max), roughly(*g.Mean)))
		}
		text := fmt.Sprintf("sums: takeover %s to %s", secs(q.Sums.Takeover.Lo), secs(q.Sums.Takeover.Hi))
		if f := q.Sums.Failures; f != nil {
			text += "; " + failuresOf(f, &forecast.SeedSums{}) + "; " + perSecond(q.Writes) + " writes a second"
		} else {
			text += "; never renewed"
		}
		p.flow(4, 6, text)
	}
	if t.P50Assumed {
		p.flow(2, 2, "You gave no median of the work (--p50). The rehearsals assume p99 / 3 = "+roughly(t.P50)+".")
	}
	if t.Before == nil {
		p.flow(2, 2, "Before: name the policy that you have now with --profile, or give a run of it with --from.")
	}
}
