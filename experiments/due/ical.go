package due

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/experiments"
)

// What a feed holds at most: calendars of people, not of machines.
const (
	feedAhead = 90 * 24 * time.Hour
	feedMost  = 200 // slots of a drill
)

// Feed is an iCalendar (RFC 5545) of what is planned. A random time is told by its stretch only. frozen says why nothing may start, or "".
func Feed(s *experiments.Schedule, seed []byte, now time.Time, frozen string) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fold(&b, fmt.Sprintf(format, args...)) }
	line("BEGIN:VCALENDAR")
	line("VERSION:2.0")
	line("PRODID:-//lockdrill//drills//EN")
	line("X-WR-CALNAME:lockdrill")
	line("REFRESH-INTERVAL;VALUE=DURATION:PT1H")
	for _, slot := range Planned(s, seed, now, now.Add(feedAhead), feedMost) {
		p := s.Drill(slot.Drill)
		status, why := "CONFIRMED", frozen
		if p.Approval != "" {
			status = "TENTATIVE"
		}
		if why == "" {
			why = s.Shut(slot.Shown())
		}
		if slot.Random() && s.Shut(slot.To.Add(-time.Second)) == "" {
			why = frozen
		}
		if why != "" {
			status = "CANCELLED"
		}
		line("BEGIN:VEVENT")
		line("UID:%s-%s@lockdrill", p.Name, stamp(slot.Shown()))
		line("DTSTAMP:%s", stamp(now))
		line("DTSTART:%s", stamp(slot.Shown()))
		if slot.Random() {
			line("DTEND:%s", stamp(slot.To))
		}
		line("SUMMARY:%s", escape("drill "+p.Name))
		line("DESCRIPTION:%s", escape(description(p, slot, why)))
		line("STATUS:%s", status)
		line("TRANSP:TRANSPARENT")
		line("END:VEVENT")
	}
	line("END:VCALENDAR")
	return b.Bytes()
}

// Planned lists what is due after one time and up to another, by what may be told of it: at most so many slots of each drill. A stretch
// is listed until its end, whether its time has come or not.
func Planned(s *experiments.Schedule, seed []byte, after, until time.Time, most int) []Slot {
	var all []Slot
	for i := range s.Drills {
		p, from := &s.Drills[i], after
		if p.Between != nil {
			from = after.Add(-25 * time.Hour)
		}
		slots, _ := Between(p, seed, from, until.Add(25*time.Hour), most)
		for _, slot := range slots {
			if slot.Shown().After(until) || slot.Random() && !slot.To.After(after) {
				continue
			}
			all = append(all, slot)
		}
	}
	slices.SortStableFunc(all, func(a, b Slot) int { return a.Shown().Compare(b.Shown()) })
	return all
}

func description(p *experiments.Planned, slot Slot, why string) string {
	text := "experiment " + p.Experiment
	if slot.Random() {
		text += "\nat a random time within this stretch"
	}
	if p.Approval != "" {
		text += "\nruns only if its plan is approved"
	}
	if why != "" {
		text += "\ndoes not run: " + why
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r", "", "\n", `\n`).Replace(text)
}

// fold writes a content line: at most 75 bytes a line, and no character cut in two.
func fold(b *bytes.Buffer, text string) {
	const most = 75
	for room := most; len(text) > room; room = most - 1 {
		cut := room
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		b.WriteString(text[:cut] + "\r\n ")
		text = text[cut:]
	}
	b.WriteString(text + "\r\n")
}
