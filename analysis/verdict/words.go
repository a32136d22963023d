package verdict

import (
	"cmp"
	"slices"
	"strings"
)

// Words of Abandonment.Timing and Need.
const (
	Timely       = "timely"
	Late         = "late"
	Missed       = "missed"
	Needed       = "needed"
	Needless     = "needless"
	Undetermined = "undetermined"
)

// measureAlert begins the name of a row about an alert.
const measureAlert = "alert"

// MeasureWords is a measure as people write it: re-executed, takeover max. The name of an alert stays as it is.
func MeasureWords(measure string) string {
	if name, is := strings.CutPrefix(measure, measureAlert+"."); is {
		if at := strings.LastIndexByte(name, '.'); at >= 0 {
			return "alert " + name[:at] + " " + strings.ReplaceAll(name[at+1:], "_", " ")
		}
		return "alert " + name
	}
	words := strings.NewReplacer(".", " ", "_", " ").Replace(measure)
	if again, is := strings.CutPrefix(words, "re "); is {
		return "re-" + again
	}
	return words
}

// Levels of overlap.
const (
	LevelBelief = "belief"
	LevelWork   = "work"
	LevelLease  = "lease" // of a system of somebody's own: what the keys show
	LevelEffect = "effect"
)

// Reasons joins why a question was not reached, and gives the first thing to do about it: one at a time.
func Reasons(missing []Missing) (why, next string) {
	var whys []string
	for _, l := range missing {
		if !slices.Contains(whys, l.Why) {
			whys = append(whys, l.Why)
		}
		next = cmp.Or(next, l.Next)
	}
	return Sentences(whys...), next
}

// Sentences joins sentences, each of which ends with a full stop then; empty ones are left out.
func Sentences(all ...string) string {
	var b strings.Builder
	for _, s := range all {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
		if !strings.HasSuffix(s, ".") {
			b.WriteByte('.')
		}
	}
	return b.String()
}
