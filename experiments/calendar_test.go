package experiments

import (
	"strings"
	"testing"
	"time"
)

func TestShut(t *testing.T) {
	office := Window{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "09:00", To: "17:30", Zone: "Europe/Berlin"}
	night := Window{Days: []string{"fri"}, From: "22:00", To: "02:00", Zone: "UTC"}
	at := func(s string) time.Time {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		name               string
		windows, blackouts []Window
		now, next          string // next "" = open; "-" = never
		why                string
	}{
		{"nothing declared", nil, nil, "2026-07-04T03:00:00Z", "", ""},
		{"inside", []Window{office}, nil, "2026-07-06T07:00:00Z", "", ""}, // Monday 09:00 in Berlin
		{"a minute before", []Window{office}, nil, "2026-07-06T06:59:10Z", "2026-07-06T07:00:00Z", "outside of the windows mon,tue,wed,thu,fri 09:00-17:30 Europe/Berlin"},
		{"the end is outside", []Window{office}, nil, "2026-07-06T15:30:00Z", "2026-07-07T07:00:00Z", "outside"},
		{"over a weekend with a change of the clocks", []Window{office}, nil, "2026-03-27T17:00:00Z", "2026-03-30T07:00:00Z", "outside"},
		{"over midnight, before", []Window{night}, nil, "2026-07-03T23:00:00Z", "", ""},
		{"over midnight, after", []Window{night}, nil, "2026-07-04T01:59:59Z", "", ""},
		{"over midnight, of another day", []Window{night}, nil, "2026-07-03T01:00:00Z", "2026-07-03T22:00:00Z", "outside"},
		{"one of two", []Window{office, night}, nil, "2026-07-04T01:00:00Z", "", ""},
		{"blackout", nil, []Window{night}, "2026-07-03T23:00:00Z", "2026-07-04T02:00:00Z", "within the blackout fri 22:00-02:00 UTC"},
		{"a blackout wins", []Window{office}, []Window{{Days: []string{"mon"}, Zone: "Europe/Berlin"}}, "2026-07-06T10:00:00Z", "2026-07-07T07:00:00Z", "blackout"},
		{"never", nil, []Window{{From: "00:00", To: "00:00", Zone: "UTC"}}, "2026-07-06T10:00:00Z", "-", "blackout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Experiment{Windows: c.windows, Blackouts: c.blackouts}
			why, next := e.Shut(at(c.now))
			switch {
			case c.next == "" && why != "":
				t.Errorf("shut: %s", why)
			case c.next == "":
			case !strings.Contains(why, c.why) || why == "":
				t.Errorf("shut because %q, want %q", why, c.why)
			case c.next == "-" && !next.IsZero():
				t.Errorf("opens %s, want never", next)
			case c.next != "-" && !next.Equal(at(c.next)):
				t.Errorf("opens %s, want %s", next.UTC(), c.next)
			}
		})
	}
}
