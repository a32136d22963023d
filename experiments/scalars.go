package experiments

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// maxDuration keeps sums of durations far from overflow.
const maxDuration = 30 * 24 * time.Hour

// parseScalar sets v from n and returns "", or says what is wrong with n.
func parseScalar(n *yaml.Node, v reflect.Value, r rule) string {
	if n.Kind != yaml.ScalarNode {
		return fmt.Sprintf("one value is wanted, not %s", describe(n))
	}
	if v.Kind() != reflect.String && leadingZero.MatchString(n.Value) {
		return zeroLed(n)
	}
	switch {
	case v.Type() == durationType:
		d, problem := parseDuration(n)
		if r.signed {
			d, problem = parseOffset(n)
		}
		if problem == "" && r.positive && d == 0 {
			problem = "must be above 0"
		}
		v.SetInt(int64(d))
		return problem
	case r.perSecond:
		rate, problem := parseRate(n)
		v.SetFloat(rate)
		return problem
	}
	switch v.Kind() {
	case reflect.String:
		return parseString(n, v, r)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return fmt.Sprintf("true or false is wanted, not %s", describe(n))
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
func wanted(t reflect.Type, r rule) string {
	switch {
	case len(r.words) > 0:
		return "must be one of " + strings.Join(r.words, ", ")
	case t == durationType && r.positive:
		return "a duration above 0 is wanted: write it like 500ms, 30s, 2m or 1h30m"
	case t == durationType:
		return "a duration is wanted: write it like 500ms, 30s, 2m or 1h30m"
	case r.ident:
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

var identifier = whenAsked(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func parseString(n *yaml.Node, v reflect.Value, r rule) string {
	switch {
	case n.Tag != "!!str":
		return fmt.Sprintf("a text is wanted, not %s: put it in quotes", describe(n))
	case strings.ContainsRune(n.Value, 0):
		return "has a NUL character: no path, name or argument can have one"
	case len(r.words) > 0 && !slices.Contains(r.words, n.Value):
		if meant := Nearest(n.Value, r.words); meant != "" {
			v.SetString(meant) // so that what else is wrong is said of what was meant
		}
		return "unknown word " + unknownWord(n.Value, r.words)
	case r.ident && !identifier().MatchString(n.Value):
		return fmt.Sprintf("%q is no name: letters, digits, dots, dashes and underscores, at most 63", n.Value)
	case r.required && n.Value == "":
		return "the value is missing"
	}
	v.SetString(n.Value)
	return ""
}

func parseInt(n *yaml.Node, v reflect.Value, r rule) string {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Tag != "!!int" || err != nil {
		return fmt.Sprintf("a whole number is wanted, not %s", describe(n))
	}
	if low, high := int64(r.min), cmpOr(r.max, math.MaxInt32); i < low {
		return fmt.Sprintf("%d is too little: at least %d", i, low)
	} else if v.Kind() == reflect.Int && float64(i) > high {
		return fmt.Sprintf("%d is too much: at most %.0f", i, high)
	}
	v.SetInt(i)
	return ""
}

func parseFloat(n *yaml.Node, v reflect.Value, r rule) string {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprintf("a number is wanted, not %s", describe(n))
	}
	if f < 0 || f > cmpOr(r.max, math.MaxInt32) || r.positive && f == 0 {
		low := "from"
		if r.positive {
			low = "above"
		}
		return fmt.Sprintf("%s is out of range: %s 0 up to %g", n.Value, low, cmpOr(r.max, math.MaxInt32))
	}
	v.SetFloat(f)
	return ""
}

func cmpOr(limit, otherwise float64) float64 {
	if limit == 0 {
		return otherwise
	}
	return limit
}

// parseDuration reads 500ms, 30s, 1h30m; the unit is never left out, not even with 0.
func parseDuration(n *yaml.Node) (time.Duration, string) {
	if n.Kind != yaml.ScalarNode {
		return 0, fmt.Sprintf("a duration is wanted, not %s", describe(n))
	}
	text := n.Value
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Sprintf("a duration needs a unit: %ss?", text)
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		tidy := tidyDuration(text)
		if _, err := time.ParseDuration(tidy); err == nil && tidy != text {
			return 0, fmt.Sprintf("%q is no duration: did you mean %s?", text, tidy)
		}
		return 0, fmt.Sprintf("%q is no duration: write it like 500ms, 30s, 2m or 1h30m", text)
	case d < 0:
		return 0, fmt.Sprintf("%s is negative", text)
	case d > maxDuration:
		return 0, fmt.Sprintf("%s is too long: at most %s", text, figures.Spell(maxDuration))
	}
	return d, ""
}

// parseOffset is parseDuration for what may be negative.
func parseOffset(n *yaml.Node) (time.Duration, string) {
	size := *n
	rest, negative := strings.CutPrefix(n.Value, "-")
	size.Value = rest
	d, problem := parseDuration(&size)
	if negative {
		d = -d
	}
	return d, problem
}

var longUnit = regexp.MustCompile(`(?i)(milliseconds?|millis|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?)`)

// tidyDuration guesses what somebody meant by "10 S" or "5min".
func tidyDuration(s string) string {
	s = strings.ToLower(strings.ReplaceAll(s, " ", ""))
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

// cadence is the spelling of Repeat's `every`: the word settled, or a duration.
type cadence struct {
	settled bool
	every   time.Duration
}

func (c *cadence) parse(n *yaml.Node) string {
	if n.Value == "settled" {
		c.settled = true
		return ""
	}
	d, problem := parseDuration(n)
	if problem != "" {
		return problem + " (or the word settled)"
	}
	if d == 0 {
		return "must be above 0 (or the word settled)"
	}
	*c = cadence{every: d}
	return ""
}

func (c *cadence) format() string {
	if c.settled {
		return "settled"
	}
	return figures.Spell(c.every)
}

// amount is a limit that is a count or a duration.
type amount struct {
	isCount bool
	count   int
	time    time.Duration
}

func (a *amount) parse(n *yaml.Node) string {
	if n.Tag == "!!int" {
		a.isCount = true
		return parseInt(n, reflect.ValueOf(&a.count).Elem(), rule{})
	}
	var problem string
	a.time, problem = parseDuration(n)
	return problem
}

func (a *amount) format() string {
	if a.isCount {
		return strconv.Itoa(a.count)
	}
	return figures.Spell(a.time)
}
