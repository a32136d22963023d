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

// Whoever wrote under a lease that had ended, and held the lock anew by then, is not told as somebody else.
func TestADuplicateOfOneReplicaUnderTwoLeases(t *testing.T) {
	d := Duplicate{Job: "j1", Kinds: []string{"stale"}, Writes: []TerminalWrite{
		{At: 18.5, Replica: "r3.1", Called: "s3", AfterEnd: &Range{Lo: 0.267}, Meanwhile: "s3 (r3.1)"}, {At: 19, Replica: "r2.1", Held: true}}}
	const want = "Job j1 was finished at T+18.5s by s3 (r3.1), 267ms after its lease had ended, while it held the lock under another lease, and at T+19.0s by r2.1, which held the lock (stale)"
	if got := d.Sentence(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
