// Package calendar reads cron expressions, for what runs by a schedule in a cluster or under a server of ours. It knows no clock. Its one
// invariant: what it accepts is accepted by the CronJobs of Kubernetes, and occurs.
package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/adhocore/gronx"
)

// gronx reads more than cron has: seconds, years, L, W and #. These are the forms of the five fields that a CronJob has.
const (
	number  = `(\*|\d+(-\d+)?)(/\d+)?`
	name    = `(\*|(\d+|[A-Za-z]{3})(-(\d+|[A-Za-z]{3}))?)(/\d+)?`
	numbers = number + `(,` + number + `)*`
	names   = name + `(,` + name + `)*`
)

// They are compiled by the first who asks: few commands read a schedule.
var (
	inNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + numbers + `$`) })
	inNames   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + names + `$`) })
)

// fields are the five, in their order.
var fields = []struct {
	says string
	form func() *regexp.Regexp
}{
	{"minute (0-59)", inNumbers},
	{"hour (0-23)", inNumbers},
	{"day of month (1-31)", inNumbers},
	{"month (1-12 or JAN-DEC)", inNames},
	{"day of week (0-6 or SUN-SAT)", inNames},
}

var (
	macro  = regexp.MustCompile(`^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$`)
	seven  = regexp.MustCompile(`(^|[,-])7`) // Sunday to gronx, nothing to Kubernetes
	anyDay = time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// CheckCron says what is wrong with a cron expression of five fields, or @daily and its like; nil = it is one, and it occurs.
func CheckCron(expression string) error {
	if macro.MatchString(expression) {
		return nil
	}
	given := strings.Fields(expression)
	if len(given) != len(fields) {
		return fmt.Errorf("schedule %q: want five fields (minute, hour, day of month, month, day of week), such as \"0 3 * * 1-5\", or @daily", expression)
	}
	read, err := gronx.Segments(expression) // names as numbers, and seconds before the rest
	if err != nil {
		return fmt.Errorf("schedule %q: %w", expression, err)
	}
	check := &gronx.SegmentChecker{}
	check.SetRef(anyDay)
	for i, f := range fields {
		if !f.form().MatchString(given[i]) || i == 4 && seven.MatchString(read[i+1]) {
			return fmt.Errorf("schedule %q: %q is no %s", expression, given[i], f.says)
		}
		for part := range strings.SplitSeq(read[i+1], ",") { // one by one: it looks no further than the first that is due
			if _, err := check.CheckDue(part, i+1); err != nil {
				return fmt.Errorf("schedule %q: %q is no %s", expression, given[i], f.says)
			}
		}
	}
	if _, err := gronx.NextTickAfter(expression, anyDay, false); err != nil {
		return fmt.Errorf("schedule %q: %w", expression, errNever)
	}
	return nil
}

var errNever = errors.New("there is no such day in any year")
