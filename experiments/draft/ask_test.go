package draft

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// Whatever is answered, also nothing and nonsense, is a file that validates, or an error that says why not.
func TestAnswersMakeAFile(t *testing.T) {
	for name, c := range map[string]struct {
		answers string
		ttl     time.Duration
		key     string
	}{
		"all":           {"billing\nredis://r:6379\nbilling:leader\n60s\n20s\nnone\nbilling\\.py\n4\n", time.Minute, "billing:leader"},
		"by default":    {"\n\nbilling:leader\n\n\n\n\n\n", time.Minute, "billing:leader"},
		"two locks":     {"b\n\na:b\n10s\n0s\nc:d\n20s\n\n\nx\n2\n", 10 * time.Second, "a:b"},
		"a wrong time":  {"b\n\na:b\nsixty\n60s\n\n\n\nthree\n", time.Minute, "a:b"},
		"they end soon": {"b\n\na:b\n", time.Minute, "a:b"},
	} {
		t.Run(name, func(t *testing.T) {
			var d Draft
			d.Ask(strings.NewReader(c.answers), new(strings.Builder))
			data, err := d.Text()
			if err != nil {
				t.Fatalf("%v of %+v", err, d)
			}
			e, err := experiments.Parse("asked.yaml", said(data))
			if err != nil || e.System.Locks[0].Key != c.key || e.System.Locks[0].Policy.TTL != c.ttl {
				t.Errorf("%v\n%s", err, data)
			}
		})
	}
}

// What is known already is not asked for.
func TestNothingIsAskedTwice(t *testing.T) {
	d := Draft{Name: "n", Redis: experiments.Redis{URL: "redis://h:1"}, Locks: []Lock{{Lease: "l"}}, Replicas: 2, Processes: experiments.Processes{Unit: "x@{name}.service"}}
	var asked strings.Builder
	if d.Ask(strings.NewReader(""), &asked); asked.Len() > 0 {
		t.Errorf("asked: %s", asked.String())
	}
}
