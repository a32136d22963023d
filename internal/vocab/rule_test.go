package vocab

import "testing"

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"HolderOf": "holder_of", "TTL": "ttl", "P50": "p50", "URL": "url", "ReExecuted": "re_executed", "KeyPrefix": "key_prefix",
		"DuplicateTerminalStatesAbove": "duplicate_terminal_states_above", "MaxGap": "max_gap",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%s) is %s, want %s", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kill", "kil", 1}, {"slos", "solS", 2}, {"ab", "ba", 1}, {"replicas", "replicsa", 1}, {"kill", "pause", 5}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
