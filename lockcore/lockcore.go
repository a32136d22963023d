// Package lockcore is the lease protocol, pure: what a client may believe and must do (Machine), what a store answers (Table),
// how they are joined (Store and Ledger, the ports), how a lock is tuned (Policy), and what its timings add up to (Lints).
//
// There is no clock, goroutine, socket, context of its own or logger in it: time comes in as Instant, randomness as numbers.
// Its one invariant: whatever the order of inputs, a Machine never reports a lock as held past send time of the last
// success + TTL - drift.
package lockcore

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Instant is one reading of a replica's clocks. Durations are since an origin of the reader's choice, the same for all
// instants that a Machine sees.
type Instant struct {
	Mono time.Duration // CLOCK_MONOTONIC: stands still while the machine is suspended
	Wall time.Duration // wall clock: jumps
	Boot time.Duration // CLOCK_BOOTTIME: runs on while suspended; equals Mono where the system has none
}

// Fingerprint is how histories, reports and logs name an epoch: the first 12 hex digits of the token's SHA-256.
// The token itself is what allows a release, so it stays between the client and its store.
func Fingerprint(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:6])
}
