package analysis

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// advice is what to change in a file, with what the file has at hand: nobody is told to write what stands there already.
type advice struct{ file *experiments.Experiment } // as loaded, in the numbers that its reader sees

func (j *judging) advice() advice { return advice{j.file} }

// apart keeps a fault away from others; "" where the file lets none be in effect beside it.
func (a advice) apart(f *experiments.Fault) string {
	if slices.ContainsFunc(a.file.AllowOverlap, func(pair [2]string) bool { return slices.Contains(pair[:], f.ID) }) {
		return " Keep other faults apart: give another `at`, or no allow_overlap."
	}
	return ""
}

// heldSurely is how a kill meets a holder.
func (a advice) heldSurely(f *experiments.Fault) string {
	switch f.Moment() {
	case fault.Acquired:
		return "Let the lock be held for longer, so that its holder still has it when the fault strikes."
	case fault.AfterGrant:
		return "Fire while the lock is surely held: on: acquired."
	}
	return "Fire while the lock is surely held: phase: after_grant, or on: acquired."
}

// outlast is how a fault costs its holder the lease, where every holder went on; does says which faults of the lock are meant.
func (a advice) outlast(lock string, does func(*experiments.Fault) bool) string {
	ttl, longest, any := a.ttl(lock), time.Duration(0), false
	for i := range a.file.Faults {
		if f := &a.file.Faults[i]; a.strikes(f, lock) && does(f) {
			longest, any = max(longest, f.For), true
		}
	}
	if any && longest > ttl {
		return fmt.Sprintf("Let at least two replicas want the lock, or promise nothing of a successor: the fault lasted for longer than the ttl of %s, and every holder went on after it.", figures.Exact(int64(ttl)))
	}
	return fmt.Sprintf("Let the fault outlast the lease (`for` above the ttl of %s), or promise nothing of a successor: every holder went on after the fault.", figures.Exact(int64(ttl)))
}

// holders is why nobody may be known to have held a lock.
func (a advice) holders() string {
	if a.file.Observed() {
		return "Check the lock's key, and that the service takes it."
	}
	return "Check that the worker reports its calls and its work."
}

// jeopardy is how the work of a lock gets into it.
func (a advice) jeopardy(lock string) string {
	ttl := a.ttl(lock)
	for i := range a.file.Faults {
		if f := &a.file.Faults[i]; f.Traits().Fails == lockcore.OpRenew && a.strikes(f, lock) && f.For > ttl {
			return fmt.Sprintf("Let the work outlast the lease: the fault %s lasts for longer than the ttl of %s, and no work surely did.", f.ID, figures.Exact(int64(ttl)))
		}
	}
	return fmt.Sprintf("Add a fault that outlasts the lease: renew_failures for longer than the ttl of %s.", figures.Exact(int64(ttl)))
}

// stop is how work ends before its lease does.
func (a advice) stop(lock string) string {
	if a.deadline(lock) {
		return "Stop the work before the lease ends, with a stop budget that it keeps, and fence its effects at the resource: who is paused stops nothing by a deadline."
	}
	return "Stop the work before the lease ends: use a policy with a deadline."
}

// giveUp is how a lock is given up when it has to be, by which part of its abandonments was wrong.
func (a advice) giveUp(lock, part string) string {
	switch l := a.file.Lock(lock); {
	case part == verdict.Late:
		return "Give the work a larger stop budget, or count fewer failures: N * interval + op timeout must stay below the ttl."
	case part == verdict.Missed && a.deadline(lock):
		return "See what kept the holder from its deadline, and fence its effects at the resource: who is paused gives nothing up."
	case part == verdict.Missed:
		return "Use a policy with a deadline (class standard or critical), so that the holder stops by itself before its lease ends."
	case l != nil && l.Policy.Class == lockcore.Standard:
		return "Give the work a smaller stop budget, or the lease a longer ttl: the deadline came before the store answered again."
	}
	return "Allow more failures before the lock is given up. With class standard only the deadline decides."
}

// deadline reports a lock whose holders stop by a deadline.
func (a advice) deadline(lock string) bool {
	l := a.file.Lock(lock)
	return l != nil && (l.Policy.Class == lockcore.Standard || l.Policy.Class == lockcore.Critical)
}

// trials is how a quantile gets as many trials of the lock as it needs.
func (a advice) trials(lock string, need int) string {
	if n := a.declared(lock); n >= need {
		return fmt.Sprintf("Let each of the %d shots that the file declares give a trial: see the faults of this run. Or promise a max.", n)
	}
	return fmt.Sprintf("Set repeat: {count: %d}, or promise a max.", need)
}

// repeats is the same where kills go on until the quantile is answered.
func (a advice) repeats(lock string, need int) string {
	if a.declared(lock) >= need {
		return "Run again and judge the runs together: lockdrill history --pool."
	}
	return fmt.Sprintf("Set at_most to %d or more, or run again and judge the runs together: lockdrill history --pool.", need)
}

// declared is how many shots the file has at most of one fault at the lock.
func (a advice) declared(lock string) (n int) {
	for i := range a.file.Faults {
		if f := &a.file.Faults[i]; a.strikes(f, lock) {
			n = max(n, f.Repeat.Count)
		}
	}
	return n
}

// strikes reports a fault that is aimed at the lock's holder, or at nobody's in particular.
func (a advice) strikes(f *experiments.Fault, lock string) bool {
	return f.Lock() == lock || f.Lock() == "" && (f.Traits().Lock == "" || f.Traits().Lock == lock)
}

func (a advice) ttl(lock string) time.Duration {
	if l := a.file.Lock(lock); l != nil {
		return l.Policy.TTL
	}
	return 0
}
