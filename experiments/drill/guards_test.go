package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

func TestARunThatLeavesItsWindowEnds(t *testing.T) {
	now := time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC) // a Monday
	e := &experiments.Experiment{Windows: []experiments.Window{{Days: []string{"mon"}, From: "11:00", To: "12:01", Zone: "UTC"}}}
	if word, why := mayGoOn(e, now); word != "" {
		t.Errorf("inside: %s, %s", word, why)
	}
	if word, why := mayGoOn(e, now.Add(time.Minute)); word != "window" || !strings.Contains(why, "11:00-12:01") {
		t.Errorf("outside: %q, %q", word, why)
	}
}
