package experiments

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// clockLayout is how a time of day is spelled.
const clockLayout = "15:04"

// Shut says why the experiment's windows and blackouts keep a run from being in progress at now, or "". next is the first minute
// from now on at which they do not; zero if there is none within the next four weeks.
func (e *Experiment) Shut(now time.Time) (why string, next time.Time) {
	if why = e.shut(now); why == "" {
		return "", now
	}
	const far = 28 * 24 * time.Hour
	for t := now.Truncate(time.Minute); t.Before(now.Add(far)); t = t.Add(time.Minute) {
		if t.After(now) && e.shut(t) == "" {
			return why, t
		}
	}
	return why, time.Time{}
}

func (e *Experiment) shut(now time.Time) string {
	for i := range e.Blackouts {
		if b := &e.Blackouts[i]; b.covers(now) {
			return "it is within the blackout " + b.String()
		}
	}
	if len(e.Windows) == 0 || slices.ContainsFunc(e.Windows, func(w Window) bool { return w.covers(now) }) {
		return ""
	}
	var all []string
	for i := range e.Windows {
		all = append(all, e.Windows[i].String())
	}
	return "it is outside of the windows " + strings.Join(all, "; ")
}

// covers reports whether now is within the stretch, its beginning included. A stretch over midnight belongs to the day it begins on.
func (w *Window) covers(now time.Time) bool {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return false
	}
	now = now.In(zone)
	if w.From == "" {
		return w.on(now)
	}
	clock := now.Format(clockLayout) // as a text: a day of 23 or 25 hours changes nothing
	if w.From < w.To {
		return w.on(now) && w.From <= clock && clock < w.To
	}
	return w.on(now) && clock >= w.From || w.on(now.AddDate(0, 0, -1)) && clock < w.To
}

func (w *Window) on(day time.Time) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, strings.ToLower(day.Weekday().String()[:3]))
}

func (w *Window) String() string {
	days, hours := strings.Join(w.Days, ","), "all day"
	if days == "" {
		days = "every day"
	}
	if w.From != "" {
		hours = w.From + "-" + w.To
	}
	return fmt.Sprintf("%s %s %s", days, hours, w.Zone)
}
