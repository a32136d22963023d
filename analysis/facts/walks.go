package facts

import (
	"iter"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// EpochsOf walks over the epochs of a lock that were surely granted, key by key in the order of grants.
func (ix *Facts) EpochsOf(lock string) iter.Seq2[*Key, *Epoch] {
	return surelyGranted(ix.byLock[lock])
}

// allEpochs walks over those of all locks.
func (ix *Facts) allEpochs() iter.Seq2[*Key, *Epoch] { return surelyGranted(ix.KeyOrder) }

func surelyGranted(keys []*Key) iter.Seq2[*Key, *Epoch] {
	return func(yield func(*Key, *Epoch) bool) {
		for _, k := range keys {
			for _, e := range k.Epochs {
				if !yield(k, e) {
					return
				}
			}
		}
	}
}

// only are those of all that are wanted, in a slice of their own.
func only[T any](all []T, wanted func(T) bool) (out []T) {
	for _, x := range all {
		if wanted(x) {
			out = append(out, x)
		}
	}
	return out
}

// calls walks over all calls of e.
func (e *Epoch) calls() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		for _, cs := range [][]*Call{e.Acquires, e.Renewals, e.Releases} {
			for _, c := range cs {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// ticks walks over the accepted ticks of k.
func (k *Key) ticks() iter.Seq[*effect] {
	return func(yield func(*effect) bool) {
		for _, f := range k.Effects {
			if f.State == history.StateTick && f.Fresh() && !yield(f) {
				return
			}
		}
	}
}

// Next is the epoch that was granted after e; nil where none was. A stranger's is none, nor is a ghost.
func (k *Key) Next(e *Epoch) *Epoch {
	if e.Rank == 0 {
		return nil
	}
	for _, o := range k.Epochs[e.Rank:] {
		if !o.Stranger && !o.Ghost {
			return o
		}
	}
	return nil
}

// following is the epoch that had the key next after that at place i, whoever put it there; nil where none did.
func (k *Key) following(i int) *Epoch {
	for _, o := range k.Epochs[i+1:] {
		if !o.Ghost {
			return o
		}
	}
	return nil
}

// preceding is the epoch that had the key before that at place i; nil where none did.
func (k *Key) preceding(i int) *Epoch {
	for _, o := range slices.Backward(k.Epochs[:i]) {
		if !o.Ghost {
			return o
		}
	}
	return nil
}

// Succeeded reports a fault after which somebody else was granted what its victim had of the lock.
func (ix *Facts) Succeeded(lock string) bool {
	return slices.ContainsFunc(ix.Shots, func(s *Shot) bool {
		return slices.ContainsFunc(s.Trials, func(t *Trial) bool { return t.E.Lock == lock && t.Next != nil })
	})
}
