package verdict

import "testing"

func TestMeasureWords(t *testing.T) {
	for measure, want := range map[string]string{
		"takeover.max":                       "takeover max",
		"re_executed":                        "re-executed",
		"metric.acquire_total.delta":         "metric acquire total delta",
		"alert.Leader_Gone{a=b.c}.goes_away": "alert Leader_Gone{a=b.c} goes away",
	} {
		if got := MeasureWords(measure); got != want {
			t.Errorf("%s is %q, want %q", measure, got, want)
		}
	}
}
