package vocab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// WhenAsked is a pattern that is compiled when something is first held against it. A repetition with a count is laid out that many times:
// a few of these were a tenth of what every command did before it began.
func WhenAsked(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// maxDuration keeps sums of durations far from overflow.
const maxDuration = 30 * 24 * time.Hour

// parseScalar sets v from n and returns "", or says what is wrong with n.
func parseScalar(n *yaml.Node, v reflect.Value, r Rule) string {
	if n.Kind != yaml.ScalarNode {
		return fmt.Sprintf("one value is wanted, not %s", Describe(n))
	}
	if v.Kind() != reflect.String && leadingZero.MatchString(n.Value) {
		return zeroLed(n)
	}
	switch {
	case v.Type() == duration:
		d, problem := ParseDuration(n)
		if r.Signed {
			d, problem = parseOffset(n)
		}
		if problem == "" && r.Positive && d == 0 {
			problem = "must be above 0"
		}
		v.SetInt(int64(d))
		return problem
	case r.PerSecond:
		rate, problem := parseRate(n)
		v.SetFloat(rate)
		return problem
	}
	switch v.Kind() {
	case reflect.String:
		return parseString(n, v, r)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return fmt.Sprintf("true or false is wanted, not %s", Describe(n))
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return ""
	case reflect.Float64:
		return parseFloat(n, v, r)
	default:
		return parseInt(n, v, r)
	}
}

// wanted is what a value of type t must be, without the words of the one that stands there.
func wanted(t reflect.Type, r Rule) string {
	switch {
	case len(r.Words) > 0:
		return "must be one of " + strings.Join(r.Words, ", ")
	case t == duration && r.Positive:
		return "a duration above 0 is wanted: write it like 500ms, 30s, 2m or 1h30m"
	case t == duration:
		return "a duration is wanted: write it like 500ms, 30s, 2m or 1h30m"
	case r.Ident:
		return "a name is wanted: letters, digits, dots, dashes and underscores, at most 63"
	case t.Kind() == reflect.String:
		return "a text is wanted: if it looks like something else, put it in quotes"
	}
	return "another value is wanted: see docs/experiment-file.md"
}

var leadingZero = regexp.MustCompile(`^[-+]?0[0-9]`)

func zeroLed(n *yaml.Node) string {
	return fmt.Sprintf("%s begins with a zero: some readers take that for another base", n.Value)
}

// Identifier is a name that can stand in a path, a key and a metric's label.
var Identifier = WhenAsked(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func parseString(n *yaml.Node, v reflect.Value, r Rule) string {
	switch {
	case n.Tag != "!!str":
		return fmt.Sprintf("a text is wanted, not %s: put it in quotes", Describe(n))
	case strings.ContainsRune(n.Value, 0):
		return "has a NUL character: no path, name or argument can have one"
	case len(r.Words) > 0 && !slices.Contains(r.Words, n.Value):
		if meant := Nearest(n.Value, r.Words); meant != "" {
			v.SetString(meant) // so that what else is wrong is said of what was meant
		}
		return "unknown word " + UnknownWord(n.Value, r.Words)
	case r.Ident && !Identifier().MatchString(n.Value):
		return fmt.Sprintf("%q is no name: letters, digits, dots, dashes and underscores, at most 63", n.Value)
	case r.Required && n.Value == "":
		return "the value is missing"
	}
	v.SetString(n.Value)
	return ""
}

func parseInt(n *yaml.Node, v reflect.Value, r Rule) string {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Tag != "!!int" || err != nil {
		return fmt.Sprintf("a whole number is wanted, not %s", Describe(n))
	}
	if low, high := int64(r.Min), cmp.Or(r.Max, math.MaxInt32); i < low {
		return fmt.Sprintf("%d is too little: at least %d", i, low)
	} else if v.Kind() == reflect.Int && float64(i) > high {
		return fmt.Sprintf("%d is too much: at most %.0f", i, high)
	}
	v.SetInt(i)
	return ""
}

func parseFloat(n *yaml.Node, v reflect.Value, r Rule) string {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprintf("a number is wanted, not %s", Describe(n))
	}
	if f < 0 || f > cmp.Or(r.Max, math.MaxInt32) || r.Positive && f == 0 {
		low := "from"
		if r.Positive {
			low = "above"
		}
		return fmt.Sprintf("%s is out of range: %s 0 up to %g", n.Value, low, cmp.Or(r.Max, math.MaxInt32))
	}
	v.SetFloat(f)
	return ""
}

// ParseDuration reads 500ms, 30s, 1h30m; the unit is never left out, not even with 0.
func ParseDuration(n *yaml.Node) (time.Duration, string) {
	if n.Kind != yaml.ScalarNode {
		return 0, fmt.Sprintf("a duration is wanted, not %s", Describe(n))
	}
	text := n.Value
	_, number := strconv.ParseFloat(text, 64)
	d, err := time.ParseDuration(text)
	if _, seconds := time.ParseDuration(text + "s"); number == nil && seconds == nil {
		return 0, fmt.Sprintf("a duration needs a unit: %ss?", text)
	}
	switch {
	case err != nil && lengths().MatchString(text), d > maxDuration:
		return 0, fmt.Sprintf("%s is too long: at most %s", text, figures.Spell(maxDuration))
	case err != nil:
		tidy := tidyDuration(text)
		if _, err := time.ParseDuration(tidy); err == nil && tidy != text {
			return 0, fmt.Sprintf("%q is no duration: did you mean %s?", text, tidy)
		}
		return 0, fmt.Sprintf("%q is no duration: write it like 500ms, 30s, 2m or 1h30m", text)
	case d < 0:
		return 0, fmt.Sprintf("%s is negative", text)
	}
	return d, ""
}

// lengths are the texts of durations, of any length.
var lengths = WhenAsked(`^(` + firstPart + `)(` + furtherOne + `)*$`)

// parseOffset is ParseDuration for what may be negative.
func parseOffset(n *yaml.Node) (time.Duration, string) {
	size := *n
	rest, negative := strings.CutPrefix(n.Value, "-")
	size.Value = rest
	d, problem := ParseDuration(&size)
	if negative {
		d = -d
	}
	return d, problem
}

var inDays = regexp.MustCompile(`^([0-9]{1,2})d(?:ays?)?$`)

var longUnit = regexp.MustCompile(`(?i)(milliseconds?|millis|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?)`)

// tidyDuration guesses what somebody meant by "10 S" or "5min".
func tidyDuration(s string) string {
	s = strings.ToLower(strings.ReplaceAll(s, " ", ""))
	if days := inDays.FindStringSubmatch(s); days != nil {
		n, _ := strconv.Atoi(days[1])
		return fmt.Sprintf("%dh", 24*n)
	}
	return longUnit.ReplaceAllStringFunc(s, func(unit string) string {
		if strings.HasPrefix(unit, "mil") || strings.HasPrefix(unit, "ms") {
			return "ms"
		}
		return unit[:1]
	})
}

// parseRate reads 20/s, 90/m or 500/h into events a second.
func parseRate(n *yaml.Node) (float64, string) {
	count, unit, ok := strings.Cut(n.Value, "/")
	f, err := strconv.ParseFloat(count, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Sprintf("%q is no rate: write it like 20/s, 90/m or 500/h", n.Value)
	}
	if !ok {
		return 0, fmt.Sprintf("a rate needs a unit: %s/s?", n.Value)
	}
	seconds, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if !ok {
		return 0, fmt.Sprintf("%q is no rate: write it like 20/s, 90/m or 500/h", n.Value)
	}
	rate := f / seconds
	if rate <= 0 || rate > 1e6 {
		return 0, fmt.Sprintf("%s is out of range: above 0 up to 1000000/s", n.Value)
	}
	return rate, ""
}

// ParseRate reads a rate as a file has it, such as 20/s, 90/m or 500/h, and gives it per second.
func ParseRate(text string) (float64, error) {
	rate, problem := parseRate(&yaml.Node{Kind: yaml.ScalarNode, Value: text})
	if problem != "" {
		return 0, errors.New(problem)
	}
	return rate, nil
}

func formatRate(perSecond float64) string {
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + "/s"
}

// plainDefault is a value as a file would have it.
func plainDefault(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	n.Tag = n.ShortTag()
	return n
}

// ParseValue sets into, a pointer to a plain value, from n and returns "", or says what is wrong with n.
func ParseValue(n *yaml.Node, into any) string {
	return parseScalar(n, reflect.ValueOf(into).Elem(), Rule{})
}

// UnknownWord says that word is none of known: which one was probably meant, or which there are.
func UnknownWord(word string, known []string) string {
	if meant := Nearest(word, known); meant != "" {
		return fmt.Sprintf("%q: did you mean %q?", word, meant)
	}
	if len(known) == 0 {
		return fmt.Sprintf("%q: there is none", word)
	}
	if len(known) == 1 {
		return fmt.Sprintf("%q: there is only %s", word, known[0])
	}
	return fmt.Sprintf("%q: there are %s", word, strings.Join(known, ", "))
}

// Nearest is the known word that is nearest to word, or "" where none is near.
func Nearest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the least number of insertions, deletions, replacements and swaps of neighbours that make a into b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
