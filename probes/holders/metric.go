package holders

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/probes"
)

// Metric finds the replica of which a gauge is above 0, by a scrape of its own.
type Metric struct {
	Lives  func() []Life
	Series string
	URL    func(Life) string                      // address of the exposition that tells of a replica; "" = there is none
	Labels func(Life, Question) map[string]string // what its series carries
}

const scrapeWithin = time.Second

// Word implements Source.
func (*Metric) Word() string { return "metric" }

// Ask implements Source. Each exposition is scraped once, after the token was seen.
func (m *Metric) Ask(ctx context.Context, q Question) Answer {
	ctx, cancel := context.WithTimeout(ctx, scrapeWithin)
	defer cancel()
	lives := m.Lives()
	var a Answer
	gone, why := 0, ""
	for i, s := range m.Tell(q)(ctx, func() int64 { return 0 }, lives) {
		if s.Holds {
			a.Holders = append(a.Holders, lives[i].Incarnation)
		} else if s.Gone != "" {
			gone, why = gone+1, cmp.Or(s.Why, s.Gone)
		}
	}
	if len(a.Holders) == 0 {
		switch answered := len(lives) - gone; {
		case gone == 0:
			a.Why = fmt.Sprintf("%s is above 0 of none of %d replicas", m.Series, answered)
		case answered == 0:
			a.Why = fmt.Sprintf("%s could not be read of any of %d replicas (%s)", m.Series, gone, why)
		default:
			a.Why = fmt.Sprintf("%s is above 0 of none of %d replicas, and could not be read of %d (%s)", m.Series, answered, gone, why)
		}
	}
	return a
}

// stamped is a sample with its bracket.
type stamped struct {
	history.Sample
	at history.Span
}

// scrapeAll scrapes the expositions of replicas, by their addresses.
func (m *Metric) scrapeAll(ctx context.Context, clock func() int64, lives []Life) map[string]stamped {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		urls    []string
		samples = map[string]stamped{}
	)
	for _, l := range lives {
		if url := m.URL(l); url != "" {
			urls = add(urls, url)
		}
	}
	for _, url := range urls {
		wg.Go(func() {
			sent := clock()
			s := stamped{Sample: m.scrape(ctx, url)}
			s.at = history.Span{From: sent, To: clock()}
			mu.Lock()
			defer mu.Unlock()
			samples[url] = s
		})
	}
	wg.Wait()
	return samples
}

func (m *Metric) scrape(ctx context.Context, url string) history.Sample {
	p, err := probes.NewMetrics(probes.Metric{Series: m.Series}, func() []probes.Target { return []probes.Target{{Name: "endpoint", URL: url}} })
	if err != nil {
		return history.Sample{Gone: history.GoneUnreadable}
	}
	defer func() { _ = p.Close() }()
	look, err := p.Look(ctx, true)
	if err != nil {
		return history.Sample{Gone: history.GoneTimeout}
	}
	for _, e := range look(history.Span{}) {
		return *e.Sample
	}
	return history.Sample{Gone: history.GoneUnreadable}
}
