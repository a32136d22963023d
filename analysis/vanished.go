package analysis

import (
	"github.com/lockdrill/lockdrill/experiments"
)

// keysVanished counts grants whose key ended before its lease, by nobody's release and no fault.
func keysVanished(j *judging, l *experiments.Limit) figure {
	t, evidence := j.ix.VanishedOf(l.Lock)
	f := figure{Value: t.Value(), evidence: evidence, lacks: fewJobs(j.dups[l.Lock].Finished, l.MinJobs)}
	for _, e := range j.ix.EpochsOf(l.Lock) {
		if !e.Ghost && !e.Stranger {
			f.n++
		}
	}
	f.saw = t.Of(f.n, "grant", "lost its key before its lease was over", "may have lost its key before its lease was over")
	f.closer = "Let the holder's acts be seen: what it does under the lock after its key has gone tells a loss from a release. Effects tell it that carry the token (map.token)."
	if why, next := j.ix.Exp.Untold(l.Lock, l.Measure); why != "" { // a stored run may ask what is refused
		f.unfit, f.next = capital(why), capital(next)
	}
	return f
}
