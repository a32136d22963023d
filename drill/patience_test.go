package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// A calibration that took too long once is repeated; one that always does ends the run in words, and one that fails is not repeated.
func TestACalibrationThatTakesTooLongIsRepeated(t *testing.T) {
	slow := fmt.Errorf("measure expiry: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		answers []error
		calls   int
		says    string
	}{
		"at once":         {[]error{nil}, 1, ""},
		"slow once":       {[]error{slow, nil}, 2, ""},
		"slow twice":      {[]error{slow, slow, nil}, 3, ""},
		"always slow":     {[]error{slow, slow, slow, slow}, calibrateTries, "it took too long 4 times in a row, so the machine or the store is too busy"},
		"out of reach":    {[]error{errors.New("connection refused")}, 1, "connection refused"},
		"slow, then gone": {[]error{slow, errors.New("connection refused")}, 2, "connection refused"},
	} {
		calls := 0
		got, err := patiently(context.Background(), calibrateTries, func(context.Context) (int, error) {
			calls++
			return calls, c.answers[calls-1]
		})
		if calls != c.calls || (err == nil) != (c.says == "") || err == nil && got != calls || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d calls, %d, %v", name, calls, got, err)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := patiently(ended, calibrateTries, func(context.Context) (int, error) { return 0, slow }); err == nil {
		t.Error("it went on after its end")
	}
}

// Where many rehearsals come to no end in time, one is tried for longer; where that does not either, a person is told so.
func TestAPredictionIsTriedAgainWithOneSeed(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration // a rehearsal
		seeds int64
		want  string
	}{
		"many": {predictWithin - 1, predictSeeds, ""},
		"one":  {predictAtMost - 1, 1, ""},
		"none": {predictAtMost + 1, 0, "no rehearsal of this drill ended within 15s on this machine"},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := predicted(context.Background(), func(ctx context.Context, seeds int64) (*history.Prediction, error) {
				select {
				case <-time.After(c.takes):
					return &history.Prediction{Seeds: seeds}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			if got.Seeds != c.seeds || !strings.HasPrefix(got.Why, c.want) || (got.Why == "") != (c.want == "") {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}
