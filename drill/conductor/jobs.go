package conductor

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// stream offers the jobs of one `work` entry. Delivery is at least once by one rule, an acknowledgement time-out: every job that
// is not finished is offered again each Redeliver, to another replica where there is one.
type stream struct {
	work      *experiments.Work
	lock      *experiments.Lock
	world     *world
	next      int       // number of the next new job
	firstAt   int64     // when the stream began, 0 = not yet
	lastFirst int64     // when the last new job was offered
	longest   int64     // work of a job so far
	fresh     line      // never offered yet, because nobody was ready
	again     line      // offered; in the order of due, since each waits equally long
	names     []jobName // of all so far, in this drill or one before it
	kinds     []experiments.JobClass
	dealt     []int // jobs so far of each of them
	turn      int
	rests     int64 // until when nothing more is offered
}

type job struct {
	Offer
	due int64
}

type jobName struct{ id, key string }

// line is a queue of jobs.
type line struct {
	jobs []*job
	head int
}

func (l *line) push(j *job) {
	if l.empty() {
		l.reset()
	}
	l.jobs = append(l.jobs, j)
}

func (l *line) empty() bool { return l.head == len(l.jobs) }
func (l *line) first() *job { return l.jobs[l.head] }
func (l *line) leave()      { l.head++ }
func (l *line) reset()      { l.jobs, l.head = l.jobs[:0], 0 }

func newStream(e *experiments.Experiment, w *experiments.Work, world *world) *stream {
	return &stream{work: w, lock: e.Lock(w.Lock), world: world}
}

func (s *stream) reset() {
	s.next, s.firstAt, s.lastFirst, s.longest, s.turn, s.rests, s.kinds = 0, 0, 0, 0, 0, 0, nil
	s.fresh.reset()
	s.again.reset()
}

// A rate that the machine cannot keep must not keep Step from seeing the time or an interrupt, and thousands a second need no step each.
const (
	offersAtOnce = 200 // in one step
	offersEvery  = int64(time.Millisecond)
)

// offer gives out new jobs that are due by the rate and old ones that are due again.
func (c *Conductor) offer(now int64) {
	for _, s := range c.streams {
		if s.firstAt == 0 && c.anyReady() {
			s.firstAt = now
		}
		if s.firstAt != 0 && now >= s.rests {
			c.offerOf(s, now)
		}
		c.note(s.nextDue(c, now))
	}
}

func (c *Conductor) offerOf(s *stream, now int64) {
	room, before := offersAtOnce, len(c.out)
	for ; room > 0 && s.next < s.work.Jobs && now >= s.newDue() && !c.aborted; room-- {
		s.fresh.push(s.newJob(c, now))
	}
	for !s.fresh.empty() && c.give(s, s.fresh.first(), now) {
		s.fresh.leave()
	}
	for ; room > 0 && !s.again.empty() && s.again.first().due <= now; room-- {
		if j := s.again.first(); !c.world.finished[j.Job] && !c.give(s, j, now) {
			break // it stays first in line
		}
		s.again.leave()
	}
	if len(c.out) > before {
		s.rests = now + offersEvery
	}
}

// give offers a job to a replica, if there is one, and lines it up for the next time.
func (c *Conductor) give(s *stream, j *job, now int64) bool {
	to := c.recipient(s, j)
	if to == "" {
		return false
	}
	j.Again = j.To != ""
	j.To, j.due = to, now+int64(s.work.Redeliver)
	offer := j.Offer
	c.out = append(c.out, Action{Offer: &offer})
	if s.work.Redeliver > 0 {
		s.again.push(j)
	}
	return true
}

func (s *stream) newJob(c *Conductor, now int64) *job {
	s.next++
	s.lastFirst = now
	if len(s.names) < s.next {
		id := fmt.Sprintf("%s-%05d", s.work.Lock, s.next)
		s.names = append(s.names, jobName{id, s.lock.KeyOf(id)})
	}
	name := s.names[s.next-1]
	kind := s.deal()
	j := &job{Offer: Offer{Lock: s.work.Lock, Job: name.id, Key: name.key, Class: kind.Name, Hold: c.hold(*kind.Hold)}, due: now}
	s.longest = max(s.longest, int64(j.Hold))
	return j
}

// deal is the class of the next job: the one that is furthest behind its share, of equals the first in the file.
func (s *stream) deal() experiments.JobClass {
	if s.kinds == nil {
		s.kinds = s.work.Kinds()
		s.dealt = make([]int, len(s.kinds))
	}
	next, most := 0, math.Inf(-1)
	for i := range s.kinds {
		if behind := s.kinds[i].Share*float64(s.next) - float64(s.dealt[i]); behind > most+1e-9 {
			next, most = i, behind
		}
	}
	s.dealt[next]++
	return s.kinds[next]
}

// hold draws from the log-normal distribution that has the two quantiles.
func (c *Conductor) hold(h experiments.Hold) time.Duration {
	if h.P50 <= 0 || h.P99 <= h.P50 {
		return h.P50
	}
	const z99 = 2.3263478740408408
	sigma := math.Log(float64(h.P99)/float64(h.P50)) / z99
	return time.Duration(float64(h.P50) * math.Exp(sigma*c.rng.NormFloat64()))
}

func (s *stream) newDue() int64 {
	return s.firstAt + int64(float64(s.next)/s.work.Rate*float64(time.Second))
}

// nextDue is when offer has something to do, if nothing is observed until then.
func (s *stream) nextDue(c *Conductor, now int64) int64 {
	next := never
	if s.firstAt == 0 {
		return next
	}
	if s.next < s.work.Jobs && !c.aborted {
		next = s.newDue()
	}
	ready := c.anyReady()
	if !s.fresh.empty() && ready {
		next = now
	}
	if !s.again.empty() && (ready || s.again.first().due > now) {
		next = min(next, s.again.first().due)
	}
	return max(next, s.rests)
}

// done counts the finished jobs; the others are owed, offered or not.
func (s *stream) done() int { return s.world.done[s.work.Lock] }
func (s *stream) owed() int { return s.work.Jobs - s.done() }

func (c *Conductor) anyReady() bool {
	for _, r := range c.world.replicas {
		if r.ready {
			return true
		}
	}
	return false
}

// recipient is the next ready replica in turn; where there is a choice, neither the one that was offered the job last nor the one that
// holds its key: that one is at work on it, or cannot answer.
func (c *Conductor) recipient(s *stream, j *job) string {
	holder := ""
	if ep := c.world.held[j.Key]; ep != nil {
		holder = ep.inc
	}
	n := len(c.world.replicas)
	fallback := ""
	for i := range n {
		r := c.world.replicas[(s.turn+i)%n]
		switch {
		case !r.ready:
		case r.inc == holder:
			fallback = cmp.Or(fallback, r.inc)
		case r.inc == j.To:
			fallback = r.inc
		default:
			s.turn = (s.turn + i + 1) % n
			return r.inc
		}
	}
	return fallback
}
