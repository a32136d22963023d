package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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

// Where many rehearsals come to no end in time, one is tried; where that does not either, a person is told so.
func TestAPredictionIsTriedAgainWithOneSeed(t *testing.T) {
	for name, c := range map[string]struct {
		ends map[int64]bool // by seeds
		want string
	}{
		"many": {map[int64]bool{predictSeeds: true}, ""},
		"one":  {map[int64]bool{1: true}, ""},
		"none": {nil, "no rehearsal of this drill ended within 3s on this machine"},
	} {
		got := predicted(context.Background(), func(_ context.Context, seeds int64) (*history.Prediction, error) {
			if c.ends[seeds] {
				return &history.Prediction{Seeds: seeds}, nil
			}
			return nil, context.DeadlineExceeded
		})
		if (got.Seeds > 0) != (c.want == "") || !strings.HasPrefix(got.Why, c.want) || strings.Contains(got.Why, "deadline") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
