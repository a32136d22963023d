package facts

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Rolling is one rolling restart: the shots of one fault that took each of the replicas that lived when it began.
type Rolling struct {
	Fault  string
	Window history.Span // from the first replica that was asked to end until the last one's end was seen
	Struck []string     // incarnations that it restarted
	Left   []string     // that it did not
}

// cost is what a rolling restart cost at one lock.
type cost struct {
	Moves   Dur // times that a key went to another replica
	Without Dur // nobody held the key, in all
	Longest Dur
	Late    int64 // how late the machine was in these
	Open    int   // keys that nobody took any more
	N       int
	Seen    []int64
}

// Rollings are the rolling restarts of the run. A shot at a life that began after the restart did is of the next one.
func (ix *Facts) Rollings() []*Rolling {
	var all []*Rolling
	for _, s := range ix.Shots {
		if !s.Does.Rolls || !s.Effective() {
			continue
		}
		end := max(s.Applied.To, s.confirmed.To)
		if n := len(all); n > 0 && all[n-1].Fault == s.ID && slices.Contains(all[n-1].Left, s.Victim) {
			r := all[n-1]
			r.Window.To = end
			r.Struck = append(r.Struck, s.Victim)
			r.Left = slices.DeleteFunc(r.Left, func(inc string) bool { return inc == s.Victim })
			continue
		}
		all = append(all, &Rolling{Fault: s.ID, Window: history.Span{From: s.Applied.From, To: end}, Struck: slices.Clone(s.victims),
			Left: slices.DeleteFunc(ix.livedAt(s.Applied.From), func(inc string) bool { return slices.Contains(s.victims, inc) })})
	}
	return all
}

// livedAt are the incarnations that lived at an instant.
func (ix *Facts) livedAt(at int64) []string {
	var lives []string
	for _, ev := range ix.Starts {
		inc := ev.Replica.Incarnation
		if d, dead := ix.Deaths[inc]; ev.To <= at && !(dead && d.From < at) {
			lives = append(lives, inc)
		}
	}
	return lives
}

// letGo is when the holder of e stopped to rely on it: it said so, or died, or the lease that nobody tells of ended.
func (ix *Facts) letGo(e *Epoch) history.Span {
	if e.Belief != nil {
		return e.Belief.End
	}
	end := ix.freedUnseen(e)
	if d, dead := ix.Deaths[e.Replica]; dead {
		end = first(end, d.Span)
	}
	return end
}

// CostOf is what r cost at a lock: each epoch of a loop that came to its end within it, and each of a job that a restart cut short, until
// the next one of its key.
func (ix *Facts) CostOf(r *Rolling, lock string) cost {
	var c cost
	for k, e := range ix.EpochsOf(lock) {
		end := ix.letGo(e)
		if e.Ghost || e.Stranger || end.To < r.Window.From || end.From > r.Window.To || !k.Loop && !cutShort(k, e, end, r) {
			continue
		}
		c.add(ix, k, e, end, r.Window)
	}
	return c
}

// cutShort reports that a replica was restarted while it had a job of k that nobody had finished when it let go of it at end.
func cutShort(k *Key, e *Epoch, end history.Span, r *Rolling) bool {
	by := func(f *effect) bool { return f.Epoch == e || f.Span.To <= end.To }
	return slices.Contains(r.Struck, e.Replica) && len(k.Jobs) > 0 &&
		slices.ContainsFunc(k.Jobs, func(j *job) bool { return !slices.ContainsFunc(j.Terminals, by) })
}

// add counts one key that was let go.
func (c *cost) add(ix *Facts, k *Key, e *Epoch, end, window history.Span) {
	next := k.Next(e)
	surely := end.From >= window.From && end.To <= window.To
	c.N++
	if next == nil {
		until := max(end.To, ix.watched(ix.Looker(k.Lock), end.From))
		if end.To == Open {
			until = end.From
		}
		c.Open++
		c.gap(Dur{max(0, until-end.To), Open}, surely, e.N)
		return
	}
	if next.Replica != e.Replica {
		c.Moves.Hi++
		if surely && next.Replica != "" && e.Replica != "" {
			c.Moves.Lo++
		}
	}
	c.gap(between(end, next.Granted), surely, e.N, next.N)
	c.Late += ix.lateness(end.From, next.Granted.To, ix.wayOf(k.Loop, next.Replica)...)
}

// gap adds a stretch in which nobody held the key.
func (c *cost) gap(d Dur, surely bool, evidence ...int64) {
	if !surely {
		d.Lo = 0
	}
	c.Without, c.Longest = c.Without.Add(d), c.Longest.Worst(d)
	c.Seen = append(c.Seen, evidence...)
}

// Within are the facts of one lock in a stretch of time.
func (ix *Facts) Within(lock string, w history.Span) *Facts {
	part := *ix
	part.within = &w
	part.byLock = map[string][]*Key{}
	for _, k := range ix.KeysOf(lock) {
		part.byLock[lock] = append(part.byLock[lock], k.during(w))
	}
	return &part
}
