package drill

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/probes/holders"
)

// A token that fits several replicas is the longest one's where the template parts words, also when that one has died.
func TestATokenIsTheLongestNames(t *testing.T) {
	for _, c := range []struct{ is, live, token, want string }{
		{"{name}-*", "s s-1 s-1-1", "s-1-1-7f3a", "s-1-1"},
		{"{name}-*", "s s-1 s-1-1", "s-1-7f3a", "s-1"},
		{"{name}-*", "s s-1 s-1-1", "s-7f3a", "s"},
		{"{name}-*", "s-1 s s-1", "s-1-7f3a", "s-1 s-1"}, // of one name
		{"lock/*-{name}", "s 1-s", "lock/7f3a-1-s", "1-s"},
		{"*-{name}-*", "s-1 s-2 s", "a-s-1-s-2-b", "s-1 s-2"}, // neither is longer
		{"{name}*", "s1 s10", "s10f3a", "s1 s10"},
		{"{host}:*", "s s-1", "h:7f3a", "s s-1"},
		{"{host}:{name}:*", "s s-1", "h:s-1:7f3a", "s-1"},
		{"{name}", "s s-1", "s-1", "s-1"},
		{"", "s s_1", "s_1:7f3a", "s_1"},
		{"", "s s_1", "s:7f3a", "s"},
	} {
		var lives []holders.Life
		for _, name := range strings.Fields(c.live) {
			lives = append(lives, holders.Life{Incarnation: name, Name: name, Known: map[string]string{experiments.KnownName: name, experiments.KnownHost: "h"}})
		}
		v := &holders.Value{Lives: func() []holders.Life { return lives }}
		v.Is = fits(c.is, v.Lives)
		held := func() string { return strings.Join(v.Recall(holders.Question{Key: "k", Value: c.token}).Holders, " ") }
		if got := held(); got != c.want {
			t.Errorf("%q: %s of %s is held by %q, want %q", c.is, c.token, c.live, got, c.want)
		}
		if c.want == "s-1-1" {
			if lives = lives[:2]; held() != "" {
				t.Errorf("%s is held by %q after its holder's death", c.token, held())
			}
		}
	}
}
