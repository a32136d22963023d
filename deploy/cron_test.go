package deploy_test

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/deploy"
)

func TestCheckCron(t *testing.T) {
	const five, never = "want five fields", "no such day"
	for text, want := range map[string]string{
		"0 3 * * 1-5": "", "*/10 8-18 * * MON-FRI": "", "@daily": "", "@midnight": "", "0 3 1 JAN,JUL *": "", "0  3 * * *": "", "0 3 29 2 *": "",
		"5/20 0-22/2 1,15 */3 sun": "", "59 23 31 12 *": "", "0 3 31 2 1": "", // the 31st of February, or a Monday in it
		"": five, "0 3 * *": five, "0 3 * * * *": five, "TZ=UTC 0 3 * * *": five, "at three": five, "@often": five, "@5minutes": five,
		"60 3 * * *": `"60" is no minute`, "0 24 * * *": `"24" is no hour`, "0 3 0 * *": "no day of month", "0 3 32 * *": "no day of month", "0 3 * 13 *": "no month",
		"0 3 * * 7": "no day of week (0-6", "0 3 * * 5-7": "no day of week", "0 3 * * 1;5": "no day of week", "0 3 * * MOO": "no day of week", "0 3 L * *": "no day of month", "0 3 * * 1#2": "no day of week",
		"0,99 3 * * *": "no minute", "30-10 3 * * *": "no minute", "*/0 3 * * *": "no minute", "JAN 3 * * *": "no minute", "*/ 3 * * *": "no minute", "-1 3 * * *": "no minute", "1-2-3 3 * * *": "no minute",
		"0 3 30 2 *": never, "0 3 31 4,6,9,11 *": never, "0 3 30-31 FEB *": never,
	} {
		err := deploy.CheckCron(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
