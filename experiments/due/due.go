// Package due says when the drills of a schedule are due, and what becomes of one that is.
//
// It is pure: the time, and whatever else is to be known, is handed in. Its one invariant: the times of a drill depend on the schedule,
// its time zones and the seed, never on when or how often they are asked for.
package due

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/adhocore/gronx"

	"github.com/lockdrill/lockdrill/experiments"
)

// Slot is one time at which a drill is due.
type Slot struct {
	Drill    string
	At       time.Time
	From, To time.Time // of a random time: the stretch within which it is; else zero
}

// Random reports a time that nobody is to know before.
func (s Slot) Random() bool { return !s.From.IsZero() }

// Shown is what may be told of the slot before its time: its time, or the beginning of its stretch.
func (s Slot) Shown() time.Time {
	if s.Random() {
		return s.From
	}
	return s.At
}

// Next is the first slot of a drill after a time; false = there is none.
func Next(p *experiments.Planned, seed []byte, after time.Time) (Slot, bool) {
	switch {
	case p.Cron != "":
		at, ok := cronNext(p, after)
		return Slot{Drill: p.Name, At: at}, ok
	case p.Between != nil:
		return randomNext(p, seed, after)
	}
	return Slot{}, false
}

// hiddenHours are at most so many times of the clock's that come to no new moment: a change of the clocks hides some of them.
const hiddenHours = 24 * 60

// cronNext reads the expression on the clock of its zone. A time that the clock shows twice counts once, the first time; one that it
// leaves out is the moment at which the clock is set forward.
func cronNext(p *experiments.Planned, after time.Time) (time.Time, bool) {
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Time{}, false
	}
	expr := p.Cron
	if expr == "@midnight" { // unknown to gronx
		expr = "@daily"
	}
	local := after.In(zone)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	for range hiddenHours {
		if wall, err = gronx.NextTickAfter(expr, wall, false); err != nil {
			return time.Time{}, false
		}
		if at := instant(wall, zone); at.After(after) {
			return at, true
		}
	}
	return time.Time{}, false
}

// instant is the first moment at which a clock in zone shows wall; where none ever does, the moment at which it is set forward.
func instant(wall time.Time, zone *time.Location) time.Time {
	shows := func(t time.Time) bool {
		_, offset := t.Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(wall)
	}
	by := func(near time.Time) time.Time {
		_, offset := near.In(zone).Zone()
		return wall.Add(-time.Duration(offset) * time.Second).In(zone)
	}
	before, then := by(wall.Add(-24*time.Hour)), by(wall.Add(24*time.Hour))
	switch {
	case shows(before):
		return before
	case shows(then):
		return then
	}
	set, _ := before.ZoneBounds()
	return set
}

// farthest is how far ahead a random time is sought: the days of a week are all that a stretch can say.
const farthest = 8

func randomNext(p *experiments.Planned, seed []byte, after time.Time) (Slot, bool) {
	w := p.Between
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return Slot{}, false
	}
	local := after.In(zone)
	for i := -1; i < farthest; i++ { // from the day before: its stretch may go over midnight
		day := time.Date(local.Year(), local.Month(), local.Day()+i, 0, 0, 0, 0, time.UTC)
		if !w.Starts(day) {
			continue
		}
		until := day
		if w.To <= w.From {
			until = day.AddDate(0, 0, 1)
		}
		from, to := instant(clock(day, w.From), zone), instant(clock(until, w.To), zone)
		s := Slot{Drill: p.Name, From: from, To: to, At: from.Add(draw(seed, p.Name, day, to.Sub(from)))}
		if s.At.After(after) {
			return s, true
		}
	}
	return Slot{}, false
}

// clock is the time of day, such as 09:30, on a day.
func clock(day time.Time, text string) time.Time {
	t, _ := time.Parse("15:04", text) // checked when the schedule was read
	return day.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute)
}

// draw is the day's share of a stretch, in whole seconds. Whoever does not have the seed cannot know it.
func draw(seed []byte, drill string, day time.Time, stretch time.Duration) time.Duration {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(drill + "\x00" + day.Format(time.DateOnly)))
	seconds, _ := bits.Mul64(binary.BigEndian.Uint64(mac.Sum(nil)), uint64(max(stretch/time.Second, 0)))
	return time.Duration(seconds) * time.Second
}

// Between lists the slots of a drill after one time and up to another, at most so many; more = there are others.
func Between(p *experiments.Planned, seed []byte, after, until time.Time, most int) (all []Slot, more bool) {
	for {
		s, ok := Next(p, seed, after)
		if !ok || s.At.After(until) {
			return all, false
		}
		if len(all) == most {
			return all, true
		}
		all = append(all, s)
		after = s.At
	}
}
