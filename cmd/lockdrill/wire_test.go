package main

import (
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// A job prefix that covers a loop's key, or another prefix, does not take its entries.
func TestAKeyBelongsToItsLoopOrTheLongestPrefix(t *testing.T) {
	d := &drill{e: &experiments.Experiment{System: experiments.System{Locks: []experiments.Lock{
		{Name: "job", KeyPrefix: "x:"},
		{Name: "big", KeyPrefix: "x:big:"},
		{Name: "leader", Key: "x:leader", Policy: lockcore.Policy{Loop: &lockcore.Loop{}}},
	}}}}
	for key, want := range map[string]string{"x:leader": "leader", "x:leader-2": "job", "x:big:1": "big", "x:1": "job", "y": "unknown"} {
		if got := d.lockOf(key); got != want {
			t.Errorf("%s belongs to %s, want %s", key, got, want)
		}
	}
}
