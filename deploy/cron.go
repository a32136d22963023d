package deploy

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
	cronNumber  = `(\*|\d+(-\d+)?)(/\d+)?`
	cronName    = `(\*|(\d+|[A-Za-z]{3})(-(\d+|[A-Za-z]{3}))?)(/\d+)?`
	cronNumbers = cronNumber + `(,` + cronNumber + `)*`
	cronNames   = cronName + `(,` + cronName + `)*`
)

// They are compiled by the first who asks: few commands read a schedule.
var (
	inNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + cronNumbers + `$`) })
	inNames   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + cronNames + `$`) })
)

// cronFields are the five, in their order.
var cronFields = []struct {
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
	cronMacro  = regexp.MustCompile(`^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$`)
	cronSunday = regexp.MustCompile(`(^|[,-])7`) // Sunday to gronx, nothing to Kubernetes
	cronFrom   = time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// CheckCron takes what the CronJobs of Kubernetes take, and what occurs. It says what is
// wrong with a cron expression of five fields, or @daily and its like; nil = it is one.
func CheckCron(expression string) error {
	if cronMacro.MatchString(expression) {
		return nil
	}
	given := strings.Fields(expression)
	if len(given) != len(cronFields) {
		return fmt.Errorf("schedule %q: want five fields (minute, hour, day of month, month, day of week), such as \"0 3 * * 1-5\", or @daily", expression)
	}
	read, err := gronx.Segments(expression) // names as numbers, and seconds before the rest
	if err != nil {
		return fmt.Errorf("schedule %q: %w", expression, err)
	}
	check := &gronx.SegmentChecker{}
	check.SetRef(cronFrom)
	for i, f := range cronFields {
		if !f.form().MatchString(given[i]) || i == 4 && cronSunday.MatchString(read[i+1]) {
			return fmt.Errorf("schedule %q: %q is no %s", expression, given[i], f.says)
		}
		for part := range strings.SplitSeq(read[i+1], ",") { // one by one: it looks no further than the first that is due
			if _, err := check.CheckDue(part, i+1); err != nil {
				return fmt.Errorf("schedule %q: %q is no %s", expression, given[i], f.says)
			}
		}
	}
	if _, err := gronx.NextTickAfter(expression, cronFrom, false); err != nil {
		return fmt.Errorf("schedule %q: %w", expression, errNoSuchDay)
	}
	return nil
}

var errNoSuchDay = errors.New("there is no such day in any year")
