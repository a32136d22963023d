package explore

import "github.com/lockdrill/lockdrill/lockcore"

// Grid is how many steps of time a lease lasts.
const Grid = 4

// World is who contends under which policy, what may go wrong, and who is wrong on purpose.
type World struct {
	Policy     lockcore.Policy // every duration that matters is a multiple of TTL / Grid
	Contenders int
	Attempts   int // to hold the key, of each contender; 0 = as many as the depth has room for

	// Requests, replies and effects arrive in any order, at any time after they were sent, or never.
	Twice   bool // each may arrive a second time
	Refused bool // a request may surely not be sent: a refused connection
	Pauses  bool // a contender may be late with anything, for any time: also between a look at its lock and what it then does
	Drift   bool // a contender's clock may fall behind the store's by Policy.Drift, and catch up, in each step of time
	GiveUps bool // the caller's context may end at any time
	Deaths  bool // a contender may die at any time, and come back
	Flush   bool // the store may lose everything, once
	Delete  bool // somebody may delete the key, once

	OwnsWork bool             // hold the policy to WorkIsOwned even where its class does not promise it
	Ignores  bool             // hold machines that are wrong on purpose to EarlyIsIgnored and StaleIsIgnored: most keep a state of their own
	Variant  lockcore.Variant // what is wrong on purpose; the contenders are of one process
	NoBegin  bool             // work is entered without an effect

	calm map[string]bool // machines, by their keys, that were seen to ignore what they should: see idle
}

// Promises, as they are named where one is broken.
const (
	NoStaleEffect    = "an effect of an older epoch was accepted after one of a newer"
	OneTerminal      = "a job was finished twice"
	FencesGrow       = "a grant's fence is not above all earlier ones"
	OwnFence         = "an effect was accepted under a fence that is not its epoch's"
	NoForeignRelease = "a release ended another's lease"
	NoForeignRenewal = "a renewal gave a lease to who had none"
	LeaseEnds        = "a lease has no end within its TTL"
	HeldIsOwned      = "a machine calls a lock held that the store does not keep for it"
	WorkIsOwned      = "work goes on while the store does not keep the lock for it"
	WorkStopsFirst   = "a release was sent while the work went on"
	NoLateRenewal    = "a renewal was sent after the work had stopped"
	LossIsHeeded     = "a machine was told that its key is gone, and goes on"
	Undone           = "an acquire of unknown outcome was never undone"
	StaleIsIgnored   = "a reply to a call that was over changed something"
	EarlyIsIgnored   = "a tick before its time changed something"
	ToldInTime       = "a caller waits for longer than its budget"
	ReleaseIsTried   = "a lock that was held ended without a release, and without a word"
	ReleasedIsFree   = "a lock that was given back is still kept"
)
