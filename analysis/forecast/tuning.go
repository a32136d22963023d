package forecast

import (
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Tuning is the document of a policy worked out from measured data. It is a recommendation: nothing was measured of the policy itself, and
// its rehearsals say nothing about a live system. Durations are seconds, but for Policy's, which are ns.
type Tuning struct {
	SchemaVersion int                 `json:"schemaVersion"`
	Possible      bool                `json:"possible"` // false: no policy keeps what was asked, see Broken
	Measured      []MeasuredWork      `json:"measured"` // never null; empty = the p99 was given
	Chosen        string              `json:"chosen,omitempty"`
	P99           float64             `json:"p99"` // of the work
	P50           float64             `json:"p50"`
	P50Assumed    bool                `json:"p50Assumed,omitempty"` // nobody gave it: p99 / 3
	Policy        lockcore.Policy     `json:"policy"`
	Pickup        float64             `json:"pickup"` // poll of a loop, redelivery of a job
	TakeoverMax   float64             `json:"takeoverMax"`
	Steps         []lockcore.TuneStep `json:"steps"`
	Broken        []lockcore.Sum      `json:"broken"` // never null
	Trade         []TradeRow          `json:"trade"`  // never null
	Locks         int                 `json:"locks"`  // held at once, for the trade
	Seeds         int64               `json:"seeds"`  // of each rehearsal
	Before        *TunedPolicy        `json:"before"` // null = none was named
	After         *TunedPolicy        `json:"after"`  // null where there is none
	YAML          string              `json:"yaml"`   // the fields for an experiment file
	Drill         string              `json:"drill"`  // the experiment that was rehearsed, with the recommended policy
}

// MeasuredWork is how long the work of one class of jobs held its lock.
type MeasuredWork struct {
	Source string        `json:"source"`
	Class  string        `json:"class"` // "" = none
	N      int64         `json:"n"`
	Cut    int64         `json:"cut,omitempty"` // holds that ended with their holder's death: not in n
	P50    verdict.Range `json:"p50"`
	P95    verdict.Range `json:"p95"`
	P99    verdict.Range `json:"p99"` // the upper end counts; null = no upper end is known
	// The lease, in seconds, that a lock for this class alone would need where nothing renews it: p95 or p99 + jitter + guard. 0 = not known.
	TTL95 float64 `json:"ttl95,omitempty"`
	TTL99 float64 `json:"ttl99,omitempty"`
}

// TradeRow is one renewal interval, and what it buys and costs.
type TradeRow struct {
	Parts      int     `json:"parts"` // of the TTL
	RenewEvery float64 `json:"renewEvery"`
	Failures   int     `json:"failures"` // in a row that are safe
	Writes     float64 `json:"writes"`   // a second, of all locks
	Recommends bool    `json:"recommended"`
}

// TunedPolicy is a policy with its sums, and how often its rehearsals breached.
type TunedPolicy struct {
	Name     string        `json:"name"`
	Sums     LockSums      `json:"sums"`
	Writes   float64       `json:"writes"` // a second, of all locks: renewals
	Breaches []TunedBreach `json:"breaches"`
}

// TunedBreach is one promise in rehearsals of one fault.
type TunedBreach struct {
	Promise string   `json:"promise"`
	Seeds   int64    `json:"seeds"`  // that reached the question
	Breach  float64  `json:"breach"` // share of all seeds
	Median  *float64 `json:"median"` // seconds, over the seeds; null = nothing was measured
	Max     *float64 `json:"max"`
}

// TradeOf lists the renewal intervals beside the recommended one.
func TradeOf(p lockcore.Policy, locks int) []TradeRow {
	rows := []TradeRow{}
	chosen := false
	for _, parts := range []int{2, 3, 4, 6, 8, 12} {
		q := p
		q.RenewEvery = p.TTL / time.Duration(parts)
		if diff := q.RenewEvery - p.RenewEvery; diff >= 0 && diff < time.Millisecond {
			q.RenewEvery, chosen = p.RenewEvery, true
		} else if !chosen && q.RenewEvery < p.RenewEvery {
			rows, chosen = append(rows, tradeRow(p, locks, true)), true
		}
		rows = append(rows, tradeRow(q, locks, q.RenewEvery == p.RenewEvery))
	}
	return rows
}

func tradeRow(p lockcore.Policy, locks int, recommends bool) TradeRow {
	return TradeRow{Parts: int(p.TTL / p.RenewEvery), RenewEvery: p.RenewEvery.Seconds(), Failures: lockcore.SafeFailures(p), Writes: lockcore.RenewalsPerSecond(p, locks), Recommends: recommends}
}
