package due

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/adhocore/gronx"

	"github.com/lockdrill/lockdrill/experiments"
)

var seed = []byte("0123456789abcdef0123456789abcdef")

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func times(t *testing.T, p experiments.Planned, after, until string) string {
	t.Helper()
	p.Name = "d"
	slots, more := Between(&p, seed, at(t, after), at(t, until), 100)
	if more {
		t.Fatal("more than 100 slots")
	}
	var all []string
	for _, s := range slots {
		all = append(all, s.At.UTC().Format("01-02T15:04"))
	}
	return strings.Join(all, " ")
}

func TestCron(t *testing.T) {
	for _, c := range []struct{ name, cron, zone, after, until, want string }{
		{"weekly, in its zone", "0 10 * * tue", "Europe/Berlin", "2026-03-17T00:00:00Z", "2026-04-07T00:00:00Z", "03-17T09:00 03-24T09:00 03-31T08:00"},
		{"the time itself is over", "0 10 * * *", "UTC", "2026-03-17T10:00:00Z", "2026-03-18T10:00:00Z", "03-18T10:00"},
		{"an hour that the clock leaves out", "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-31T00:00:00Z", "03-28T01:30 03-29T01:00 03-30T00:30"},
		{"at midnight", "@midnight", "UTC", "2026-03-29T00:30:00Z", "2026-03-30T01:30:00Z", "03-30T00:00"},
		{"quarters of an hour over the gap", "*/15 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "03-29T00:45 03-29T01:00 03-29T01:15 03-29T01:30"},
		{"an hour that the clock shows twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-27T00:00:00Z", "10-25T00:30 10-26T01:30"},
		{"hours over the hour that comes twice", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T03:00:00Z", "10-25T00:00 10-25T02:00 10-25T03:00"},
		{"asked within the second 02:30", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-27T00:00:00Z", "10-26T01:30"},
		{"leap days", "0 0 29 2 *", "UTC", "2023-01-01T00:00:00Z", "2033-01-01T00:00:00Z", "02-29T00:00 02-29T00:00 02-29T00:00"},
		{"leap days over a year that has none", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2105-01-01T00:00:00Z", "02-29T00:00"},
		{"the 31st", "0 12 31 * *", "UTC", "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "01-31T12:00 03-31T12:00 05-31T12:00"},
		{"day of the month or of the week", "0 12 13 * fri", "UTC", "2026-03-01T00:00:00Z", "2026-03-15T00:00:00Z", "03-06T12:00 03-13T12:00"},
		{"a zone that has no summer", "0 9 * * mon", "Asia/Kolkata", "2026-03-22T00:00:00Z", "2026-04-07T00:00:00Z", "03-23T03:30 03-30T03:30 04-06T03:30"},
		{"midnight that the clock leaves out", "0 0 * * *", "Africa/Cairo", "2026-04-22T12:00:00Z", "2026-04-26T00:00:00Z", "04-22T22:00 04-23T22:00 04-24T21:00 04-25T21:00"},
	} {
		if got := times(t, experiments.Planned{Cron: c.cron, Zone: c.zone}, c.after, c.until); got != c.want {
			t.Errorf("%s: %s %s after %s:\n%s, want\n%s", c.name, c.cron, c.zone, c.after, got, c.want)
		}
	}
}

// The second way to compute: every minute of a month is asked whether it is due by its own clock.
func TestCronIsTheMinutesThatAreDue(t *testing.T) {
	source := rand.Int63()
	r := rand.New(rand.NewSource(source))
	pick := func(all ...string) string { return all[r.Intn(len(all))] }
	for range 8 {
		expr := strings.Join([]string{
			pick("*/15", "0", "30", "5,35", fmt.Sprint(r.Intn(60))), pick("*", "2", "1-3", "*/6", fmt.Sprint(r.Intn(24))), pick("*", "*", "1", "31", "*/9"),
			pick("*", "3", "10", "mar-apr"), pick("*", "*", "mon", "tue,thu", "1-5"),
		}, " ")
		from := time.Date(2026, time.Month(1+r.Intn(12)), 1+r.Intn(28), r.Intn(24), r.Intn(60), 0, 0, time.UTC)
		until := from.AddDate(0, 0, 9)
		var want []time.Time
		for minute := from.Add(time.Minute); !minute.After(until); minute = minute.Add(time.Minute) {
			if due, err := gronx.New().IsDue(expr, minute); err != nil {
				t.Fatal(err)
			} else if due {
				want = append(want, minute)
			}
		}
		got, _ := Between(&experiments.Planned{Name: "d", Cron: expr}, nil, from, until, 1<<20)
		if len(got) != len(want) {
			t.Fatalf("seed %d: %s from %s: %d times, want %d", source, expr, from, len(got), len(want))
		}
		for i := range want {
			if !got[i].At.Equal(want[i]) {
				t.Fatalf("seed %d: %s from %s: %s, want %s", source, expr, from, got[i].At, want[i])
			}
		}
	}
}

func TestRandomTimes(t *testing.T) {
	p := experiments.Planned{Name: "surprise", Between: &experiments.Window{Days: []string{"mon", "wed"}, From: "09:00", To: "16:00", Zone: "Europe/Berlin"}}
	from := at(t, "2026-01-01T00:00:00Z")
	slots, _ := Between(&p, seed, from, from.AddDate(1, 0, 0), 1000)
	if len(slots) != 104 {
		t.Fatalf("%d days, want 104", len(slots))
	}
	early := 0
	for _, s := range slots[:40] {
		if s.At.Before(s.From) || !s.At.Before(s.To) || s.To.Sub(s.From) != 7*time.Hour || s.From.Hour() != 9 || !s.Shown().Equal(s.From) {
			t.Errorf("%+v", s)
		}
		if s.At.Sub(s.From) < 3*time.Hour+30*time.Minute {
			early++
		}
		// The same whenever it is asked for, also while the stretch goes on.
		if again, _ := Next(&p, seed, s.At.Add(-time.Second)); !again.At.Equal(s.At) || !again.From.Equal(s.From) {
			t.Errorf("%+v, and asked a second before: %+v", s, again)
		}
	}
	if early < 8 || early > 32 {
		t.Errorf("%d of 40 are in the first half", early)
	}
	same := 0
	others, _ := Between(&p, []byte("another seed"), from, from.AddDate(1, 0, 0), 1000)
	for i := range slots {
		if slots[i].At.Equal(others[i].At) {
			same++
		}
	}
	if same > 3 {
		t.Errorf("%d of 104 times are those of another seed", same)
	}
	night := experiments.Planned{Name: "night", Between: &experiments.Window{From: "22:00", To: "04:00", Zone: "Europe/Berlin"}}
	for day, want := range map[string]time.Duration{"2026-03-28T12:00:00Z": 5 * time.Hour, "2026-10-24T12:00:00Z": 7 * time.Hour, "2026-07-01T12:00:00Z": 6 * time.Hour} {
		if s, ok := Next(&night, seed, at(t, day)); !ok || s.To.Sub(s.From) != want || s.At.Before(s.From) {
			t.Errorf("%s: %+v, want a stretch of %s", day, s, want)
		}
	}
	if _, ok := Next(&experiments.Planned{Name: "by hand"}, seed, from); ok {
		t.Error("a drill on demand has a time")
	}
}

func TestDecide(t *testing.T) {
	s := &experiments.Schedule{
		Windows:       []experiments.Window{{From: "08:00", To: "18:00", Zone: "UTC"}},
		BlackoutDates: []experiments.Dates{{From: "2026-12-24", To: "2026-12-26", Zone: "UTC", Why: "holidays"}},
	}
	due := at(t, "2026-11-23T10:00:00Z")
	for _, c := range []struct {
		name                         string
		after                        time.Duration
		waiting                      bool
		overlap                      string
		wait                         time.Duration
		frozen, approval, run, alert string
		due                          time.Time
		want                         Verb
		why                          string
	}{
		{name: "free", want: Start},
		{name: "a tick late, with no wait", after: 20 * time.Second, want: Start},
		{name: "seen late, within its wait", after: 9 * time.Minute, wait: 10 * time.Minute, want: Start},
		{name: "seen too late", after: 11 * time.Minute, wait: 10 * time.Minute, want: Missed, why: "it was seen 11m later"},
		{name: "seen too late while frozen", after: time.Hour, frozen: "frozen", want: Missed},
		{name: "frozen", frozen: "the schedule is frozen", approval: "x", run: "x", alert: "x", wait: time.Hour, want: Skipped, why: "the schedule is frozen"},
		{name: "outside of the windows", due: at(t, "2026-11-23T07:59:00Z"), want: Skipped, why: "outside of the windows"},
		{name: "holidays", due: at(t, "2026-12-26T10:00:00Z"), want: Skipped, why: "blackout 2026-12-24 to 2026-12-26 (holidays)"},
		{name: "it waits into a blackout", due: at(t, "2026-11-23T17:59:00Z"), after: 2 * time.Minute, waiting: true, wait: time.Hour, want: Skipped, why: "outside"},
		{name: "not approved yet", approval: "nobody has approved it", run: "x", wait: time.Hour, want: Wait, why: "nobody has approved it"},
		{name: "not approved", approval: "nobody has approved it", waiting: true, after: 61 * time.Minute, wait: time.Hour, want: Unapproved, why: "after a wait of 1h"},
		{name: "busy, skip", run: "run 7", overlap: "skip", wait: time.Hour, want: Skipped, why: "run 7 has the target"},
		{name: "busy, queue", run: "run 7", alert: "x", overlap: "queue", wait: time.Hour, want: Wait},
		{name: "busy for too long", run: "run 7", overlap: "queue", wait: time.Hour, waiting: true, after: 61 * time.Minute, want: Skipped, why: "run 7 has the target, and that was so after a wait of 1h"},
		{name: "an alert", alert: "alerts: 2", wait: time.Hour, want: Wait},
		{name: "an alert, and no wait", alert: "alerts: 2", after: time.Second, want: Blocked, why: "alerts: 2"},
		{name: "free after a wait", waiting: true, after: 40 * time.Minute, wait: time.Hour, want: Start},
	} {
		if c.due.IsZero() {
			c.due = due
		}
		say := func(text string) func() string { return func() string { return text } }
		verb, why := Decide(s, &experiments.Planned{Name: "d", Wait: c.wait, Overlap: c.overlap}, Slot{Drill: "d", At: c.due},
			Facts{Now: c.due.Add(c.after), Waiting: c.waiting, Frozen: say(c.frozen), Unapproved: say(c.approval), Busy: say(c.run), Loud: say(c.alert)})
		if verb != c.want || !strings.Contains(why, c.why) || (why == "") != (verb == Start) {
			t.Errorf("%s: %s because %q, want %s because %q", c.name, verb, why, c.want, c.why)
		}
	}
}

// A year in virtual time, with an outage of three days: each slot is decided once, and none is lost.
func TestAYearOfDecisions(t *testing.T) {
	p := experiments.Planned{Name: "d", Cron: "30 2 * * *", Zone: "Europe/Berlin", Wait: 10 * time.Minute, Overlap: experiments.OverlapSkip}
	s := &experiments.Schedule{Drills: []experiments.Planned{p}, BlackoutDates: []experiments.Dates{{From: "2026-12-20", To: "2026-12-31", Zone: "Europe/Berlin"}}}
	quiet := func() string { return "" }
	count := map[Verb]int{}
	last, outage := at(t, "2026-01-01T00:00:00Z"), at(t, "2026-06-01T00:00:00Z")
	for now := last; now.Before(at(t, "2027-01-01T00:00:00Z")); now = now.Add(10 * time.Minute) {
		if now.After(outage) && now.Before(outage.Add(72*time.Hour)) || now.Before(last) {
			continue
		}
		if next, _ := Next(&p, nil, last); now.Before(next.At) {
			now = next.At.Truncate(10 * time.Minute)
			continue
		}
		slots, _ := Between(&p, nil, last, now, 100)
		for _, slot := range slots {
			verb, _ := Decide(s, &p, slot, Facts{Now: now, Frozen: quiet, Unapproved: quiet, Busy: quiet, Loud: quiet})
			count[verb]++
			last = slot.At
		}
	}
	if count[Start] != 365-3-12 || count[Missed] != 3 || count[Skipped] != 12 {
		t.Errorf("%v, want 350 started, 3 missed, 12 skipped", count)
	}
}

func TestFeed(t *testing.T) {
	s := &experiments.Schedule{
		BlackoutDates: []experiments.Dates{{From: "2026-11-25", Zone: "UTC", Why: "release; no drills, please"}},
		Drills: []experiments.Planned{
			{Name: "kill", Experiment: "kill.yaml", Cron: "0 10 * * *"},
			{Name: "surprise", Experiment: strings.Repeat("é", 60) + ".yaml", Approval: "required", Between: &experiments.Window{From: "09:00", To: "16:00", Zone: "UTC"}},
		},
	}
	now := at(t, "2026-11-23T12:00:00Z")
	feed := string(Feed(s, seed, now, ""))
	for _, want := range []string{
		"BEGIN:VEVENT\r\nUID:kill-20261124T100000Z@lockdrill\r\nDTSTAMP:20261123T120000Z\r\nDTSTART:20261124T100000Z\r\nSUMMARY:drill kill\r\n",
		"\\n\r\n does not run: it is within the blackout 2026-11-25 (release\\; no drills\\, \r\n please)\r\n",
		"DTSTART:20261123T090000Z\r\nDTEND:20261123T160000Z\r\nSUMMARY:drill surprise\r\n", // it goes on
		"STATUS:CANCELLED\r\n", "STATUS:TENTATIVE\r\n", "END:VCALENDAR\r\n",
	} {
		if !strings.Contains(feed, want) {
			t.Errorf("no %q in\n%.1500s", want, feed)
		}
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(feed, "\r\n"), "\r\n") {
		if len(line) > 75 || strings.ToValidUTF8(line, "?") != line {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	for _, slot := range Planned(s, seed, now, now.AddDate(0, 0, 9), 100) {
		if slot.Random() && strings.Contains(feed, stamp(slot.At)) {
			t.Errorf("the feed tells the random time %s", slot.At)
		}
	}
	if frozen := string(Feed(s, seed, now, "frozen")); strings.Contains(frozen, "CONFIRMED") || strings.Contains(frozen, "TENTATIVE") {
		t.Error("a frozen schedule has drills that run")
	}
}
