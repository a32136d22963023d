package watching

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Job reports whether the row is of locks that are taken per job: many keys under one prefix.
func (r *Row) Job() bool { return len(r.members) > 1 }

// Mode is what happens to a loop's lock after its work, as far as that was seen; "" = it was not.
func (r *Row) Mode() lockcore.LoopMode {
	switch {
	case r.Job():
		return ""
	case r.Releases > 1 && r.Releases >= r.Expiries, r.Taken > 1 && r.Taken > r.Renewals+r.Expiries: // given back and taken again within one look
		return lockcore.LoopExplicit
	case r.Renewals > 3*(r.Releases+r.Expiries): // an end now and then is a death or a hand-over
		return lockcore.LoopRenewed
	case r.Releases > 0:
		return lockcore.LoopExplicit
	case r.Expiries > 0:
		return lockcore.LoopTTLHold
	}
	return ""
}

// of gathers one figure of all keys of the row.
func (r *Row) of(figure func(*Key) []time.Duration) (all []time.Duration) {
	for _, k := range r.members {
		all = append(all, figure(k)...)
	}
	return all
}

// Poll is how long a free lock of a loop waits for its next holder at most, as far as that was seen; 0 = it was not.
func (r *Row) Poll() time.Duration {
	switch r.Mode() {
	case lockcore.LoopExplicit:
		return median(r.of(func(k *Key) []time.Duration { return k.cycles }))
	case lockcore.LoopTTLHold, lockcore.LoopRenewed:
		if pickups := r.of(func(k *Key) []time.Duration { return k.pickups }); len(pickups) > 0 {
			return slices.Max(pickups)
		}
	}
	return 0
}

// Sum says what was seen of a lock and what a crash of its holder costs, in a sentence or two.
func (r *Row) Sum(look time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", r.Name)
	if r.Lease {
		b.Reset()
		fmt.Fprintf(&b, "Lease %s ", r.Name)
	}
	ttl := short(r.TTL)
	switch {
	case r.TTL == 0 && r.NoExpiry:
		b.WriteString("has no expiry: after a crash nothing frees it.")
		return b.String()
	case r.TTL == 0:
		b.WriteString("was neither granted nor renewed meanwhile: watch for longer than its TTL.")
		return b.String()
	case r.RenewEvery > 0:
		fmt.Fprintf(&b, "renews every %s with TTL %s: a crash costs %s to %s", short(r.RenewEvery), ttl, short(max(0, r.TTL-r.RenewEvery)), short(r.TTL))
	case r.Renewals > 0:
		fmt.Fprintf(&b, "was renewed once, with TTL %s: a crash costs up to that", ttl)
	case r.Mode() == lockcore.LoopTTLHold:
		fmt.Fprintf(&b, "is left to its TTL of %s and not renewed: a crash costs up to that", ttl)
	default:
		fmt.Fprintf(&b, "has TTL %s and was not renewed: a crash costs up to that", ttl)
	}
	if r.Job() {
		b.WriteString(", and then until the job is tried again")
	} else if poll := r.Poll(); poll > 0 {
		fmt.Fprintf(&b, ", and then up to %s until the next holder comes", short(poll))
	} else {
		b.WriteString(", and then one poll of the others")
	}
	if holds := r.of(func(k *Key) []time.Duration { return k.holds }); len(holds) > 0 {
		fmt.Fprintf(&b, ". It was held for %s (median of %s)", short(median(holds)), figures.Plural(len(holds), "hold"))
	}
	b.WriteString(".")
	if r.Taken > 0 {
		fmt.Fprintf(&b, " %s another value stood there before the lease was over: a theft, or a release and a grant within one look (%s).", times(r.Taken), short(look))
	}
	if r.Mode() == lockcore.LoopRenewed && often*r.RenewEvery < r.TTL {
		fmt.Fprintf(&b, " So many renewals in one lease may be none: if each is a release and a grant within one look (%s), its loop has mode: explicit, and its holder renews as its code says.", short(look))
	}
	b.WriteString(r.runOut())
	return b.String()
}

const often = 10 // renewals in a lease: three are usual

const fewExpiries = 3 // fewer may be deaths and restarts

// runOut says that leases ran out unreleased, where a quarter or more did. That may be meant, so it is no accusation. Of a loop that is
// always left to its TTL the sum says so already.
func (r *Row) runOut() string {
	if r.Expiries < fewExpiries || 3*r.Expiries < r.Releases || r.Mode() == lockcore.LoopTTLHold {
		return ""
	}
	leases := r.Expiries + r.Releases + r.Taken + r.Held
	text := fmt.Sprintf(" %d of %s ran out and were not released", r.Expiries, figures.Plural(leases, "lease"))
	if r.Renewals == 0 {
		text += ", and none was renewed. Their holders worked for longer than the TTL, died, or did not release: compare the TTL with how long the work takes, and read the holders' logs."
	} else {
		text += ". Their holders died, stopped renewing, or did not release: read the holders' logs."
	}
	return text + " If the service lets leases run out on purpose, nothing is wrong."
}

func times(n int) string {
	if n == 1 {
		return "Once"
	}
	return figures.Plural(n, "time")
}

func short(d time.Duration) string { return figures.Short(int64(d)) }

// evidence is what makes the row a lock's.
func (r *Row) evidence() draft.Evidence {
	switch {
	case r.Grants == 0:
		return draft.NoGrant
	case r.Grants <= r.Taken:
		return draft.Overwritten
	case r.Releases > 0 || slices.ContainsFunc(r.members, func(k *Key) bool { return k.changed }):
		return draft.HandedOn
	}
	return draft.Granted
}

// Draft is what the file of an experiment can say of the rows; of locks whose keys no file can have it says nothing.
func (s *State) Draft() (locks []draft.Lock) {
	for i := range s.Rows {
		r := &s.Rows[i]
		l := draft.Lock{TTL: r.TTL, RenewEvery: round(r.RenewEvery), Poll: roundUp(r.Poll()), Mode: r.Mode(), Values: r.Values, Evidence: r.evidence(), Seen: "Seen: " + r.Sum(s.Every)}
		switch {
		case r.TTL == 0 || !r.Draftable():
			continue
		case r.Lease:
			l.Lease = r.Name
		case r.Job():
			l.KeyPrefix, l.KeySuffix, _ = strings.Cut(r.Name, "*")
		default:
			l.Key = r.Name
		}
		if l.RenewEvery >= l.TTL {
			l.RenewEvery = 0
		}
		if l.Mode == lockcore.LoopRenewed && l.RenewEvery == 0 {
			l.Mode = ""
		}
		locks = append(locks, l)
	}
	return locks
}

// Draftable reports whether a file can have the name.
func (r *Row) Draftable() bool {
	return !strings.ContainsAny(strings.Replace(r.Name, "*", "", 1), " *?[]\\\"'")
}

// round writes a measured period with two digits or so: the figure that was configured is near.
func round(d time.Duration) time.Duration {
	return d.Round(stepOf(d))
}

func roundUp(d time.Duration) time.Duration {
	step := stepOf(d)
	return (d + step - 1) / step * step
}

func stepOf(d time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond} {
		if d >= 20*step {
			return step
		}
	}
	return time.Millisecond
}
