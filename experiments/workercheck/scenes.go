package workercheck

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// scene is one thing that was done to a worker, and when. A scene without a life was not played.
type scene struct {
	life     *life
	job      string
	from, to int64
	done     int64         // when the thing was done to it: the theft, the hang, the signal; 0 = it did not come to that
	undone   int64         // when it was taken back
	first    int64         // effects that the ledger had before
	last     int64         // and at the end
	after    keyState      // of the lock's key, at the end
	ended    bool          // of an end: it came
	took     time.Duration // of an end
}

func (s *scene) played() bool { return s.life != nil && s.done != 0 }

// acts are the scenes, in the order in which they are played.
type acts struct {
	first, repeat, refused, unanswered, theft, hang, arm, stop, pause, term, hangUp, unknown, loops scene

	fence, raised int64 // that the first epoch said, and what the stored one was raised to before the second; 0 = it was not found
	fencePlace    string
	raisedAt      int64
	leader        *life // of the loop, until its kill
	follower      *life
	ledgerFence   int64 // that a stranger has written while the worker stood still
}

// play goes through all scenes. A worker that does not get ready is in none; one that takes no job is in those of loops only.
func (b *bench) play(ctx context.Context) error {
	for _, part := range []struct {
		say string
		of  Subject
		do  func(context.Context) error
	}{
		{"jobs, and what can go wrong with their lock", Jobs, b.playJobs}, {"a pause, and SIGTERM", Jobs, b.playSignals},
		{"the end of standard input", Jobs, b.playHangUp}, {"a leader loop, and the leader's death", Loops, b.playLoops},
	} {
		if b.o.Only != "" && b.o.Only != part.of {
			continue
		}
		b.o.Notify(part.say)
		if err := part.do(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(b.lives) > 0 && !b.lives[0].ready {
			return nil
		}
	}
	return nil
}

// takesJobs reports whether the worker has answered the first offer with anything.
func (b *bench) takesJobs() bool {
	return b.seen.know(func() bool {
		return len(b.seen.of(b.lives[0].inc, 0, history.AcquireInvoke, history.AcquireReturn, history.JobAck)) > 0 || len(b.seen.calls) > 0
	})
}

func (b *bench) playJobs(ctx context.Context) error {
	l, err := b.start(ctx, "r1", b.jobs())
	if err != nil {
		return err
	}
	defer b.kill(ctx, l)
	if !l.ready {
		return nil
	}
	b.playFirst(ctx, l)
	if b.takesJobs() {
		for _, play := range []func(context.Context, *life){b.playRepeat, b.playRefused, b.playUnanswered, b.playTheft, b.playHang, b.playArm, b.playStop} {
			if err := b.clear(ctx, jobKey); err != nil {
				return err
			}
			play(ctx, l)
		}
	}
	return b.clear(ctx, jobKey)
}

func (b *bench) open(ctx context.Context, l *life, job string) scene {
	return scene{life: l, job: job, first: b.position(ctx), from: monotime.Now()}
}

// shut closes a scene, with a look at the key. All that belongs to it has been seen.
func (b *bench) shut(ctx context.Context, s *scene) {
	s.after = b.look(jobKey)
	s.last = b.position(ctx)
	b.heard(s.life.inc)
	s.to = monotime.Now()
}

// begin offers a job, and waits until it is worked on; false = that did not come about.
func (b *bench) begin(ctx context.Context, s *scene, l *life, job string, hold time.Duration) bool {
	*s = b.open(ctx, l, job)
	b.offer(l, job, hold)
	b.seen.await(ctx, 3*b.o.TTL, func() bool { return b.in(s, history.WorkEnter, history.JobAck) || b.dead(l) }) // an answer: there will be no work
	return b.seen.know(func() bool { return b.in(s, history.WorkEnter) })
}

// in reports whether the scene has had a line of these kinds. The witness is held.
func (b *bench) in(s *scene, kinds ...history.Kind) bool {
	return len(b.seen.of(s.life.inc, s.from, kinds...)) > 0
}

// acked waits for the answer to the scene's job.
func (b *bench) acked(ctx context.Context, s *scene, limit time.Duration) {
	b.seen.await(ctx, limit, func() bool {
		for _, l := range b.seen.of(s.life.inc, s.from, history.JobAck) {
			if l.Job.ID == s.job {
				return true
			}
		}
		return b.dead(s.life)
	})
}

// renewed waits for the first renewal of the scene that was answered, so that what follows hits a lock in its usual course.
func (b *bench) renewed(ctx context.Context, s *scene) {
	b.seen.await(ctx, b.o.TTL/2, func() bool { return b.in(s, history.RenewReturn) || b.dead(s.life) })
}

// exited waits for the end of the work, and of what comes with it.
func (b *bench) exited(ctx context.Context, s *scene, limit time.Duration) {
	b.seen.await(ctx, limit, func() bool { return b.in(s, history.WorkExit) || b.dead(s.life) })
	b.seen.await(ctx, b.o.TTL/2, func() bool { return b.in(s, history.ReleaseReturn, history.ReleaseSkipped) || b.dead(s.life) })
}

// end closes a scene with a look at the key. What the worker has not given back yet has a moment for it.
func (b *bench) end(ctx context.Context, s *scene) {
	every := time.NewTicker(b.o.TTL / 100)
	defer every.Stop()
	for until := time.Now().Add(b.o.TTL / 5); ctx.Err() == nil; <-every.C {
		b.shut(ctx, s)
		if s.after.Token == "" || time.Now().After(until) {
			return
		}
	}
}

// playFirst is a job that takes longer than the lock lasts without renewal. It is offered a second time while it is under way.
func (b *bench) playFirst(ctx context.Context, l *life) {
	s := &b.acts.first
	if b.begin(ctx, s, l, "job-1", b.o.TTL*6/5) {
		b.offer(l, s.job, b.o.TTL*6/5)
	}
	s.done = monotime.Now()
	b.acked(ctx, s, 4*b.o.TTL)
	b.findFence(ctx)
	b.end(ctx, s)
}

// findFence looks for the number that the first epoch was given among all that the store keeps, and raises it: as if the server's clock
// had been set back since.
func (b *bench) findFence(ctx context.Context) {
	b.seen.know(func() bool {
		for _, r := range b.seen.of(b.acts.first.life.inc, 0, history.AcquireReturn) {
			b.acts.fence = max(b.acts.fence, r.Fence)
		}
		return true
	})
	text, raised := strconv.FormatInt(b.acts.fence, 10), b.acts.fence+1_000_000_000
	defer func() { b.acts.raisedAt = monotime.Now() }()
	names, err := b.locks.Keys(ctx, "*").Result() // of a store that is ours alone
	if b.acts.fence == 0 || err != nil {
		return
	}
	for _, name := range names {
		switch kind := b.locks.Type(ctx, name).Val(); kind {
		case "string":
			if b.locks.Get(ctx, name).Val() == text && b.locks.SetArgs(ctx, name, raised, redis.SetArgs{KeepTTL: true}).Err() == nil {
				b.acts.raised, b.acts.fencePlace = raised, name
			}
		case "hash":
			for field, value := range b.locks.HGetAll(ctx, name).Val() {
				if value == text && b.locks.HSet(ctx, name, field, raised).Err() == nil {
					b.acts.raised, b.acts.fencePlace = raised, name+" "+field
				}
			}
		}
	}
}

// playRepeat offers the finished job again.
func (b *bench) playRepeat(ctx context.Context, l *life) {
	s := &b.acts.repeat
	b.begin(ctx, s, l, b.acts.first.job, b.o.TTL/5)
	s.done = monotime.Now()
	b.acked(ctx, s, 2*b.o.TTL)
	b.end(ctx, s)
}

// playRefused offers a job whose key is a stranger's.
func (b *bench) playRefused(ctx context.Context, l *life) {
	s := &b.acts.refused
	*s = b.open(ctx, l, "job-2")
	if b.put(ctx, jobKey, 4*b.o.TTL) != nil {
		return
	}
	s.done = monotime.Now()
	b.offer(l, s.job, b.o.TTL/5)
	b.acked(ctx, s, 2*b.o.TTL)
	b.shut(ctx, s)
}

// playUnanswered lets the call through that takes a key, and not its reply.
func (b *bench) playUnanswered(ctx context.Context, l *life) {
	s := &b.acts.unanswered
	*s = b.open(ctx, l, "job-10")
	l.gate.silence(true)
	s.done = monotime.Now()
	b.offer(l, s.job, b.o.TTL/5)
	b.seen.await(ctx, b.o.TTL*4/5, func() bool { return b.in(s, history.AcquireReturn) || b.dead(l) })
	l.gate.silence(false)
	s.undone = monotime.Now()
	b.end(ctx, s)
}

// playTheft gives a held key to a stranger.
func (b *bench) playTheft(ctx context.Context, l *life) {
	s := &b.acts.theft
	if !b.begin(ctx, s, l, "job-3", 3*b.o.TTL) || b.put(ctx, jobKey, 6*b.o.TTL) != nil {
		return
	}
	s.done = monotime.Now()
	b.exited(ctx, s, 4*b.o.TTL)
	b.shut(ctx, s)
}

// playHang lets no call and no reply through while a key is held.
func (b *bench) playHang(ctx context.Context, l *life) {
	s := &b.acts.hang
	if !b.begin(ctx, s, l, "job-4", 4*b.o.TTL) {
		return
	}
	b.renewed(ctx, s)
	l.gate.hang(true)
	s.done = monotime.Now()
	b.exited(ctx, s, 5*b.o.TTL)
	s.undone = monotime.Now()
	l.gate.hang(false)
	b.end(ctx, s)
}

// playArm asks for a burst of failing renewals, twice: one that ends by its count, one that is disarmed.
func (b *bench) playArm(ctx context.Context, l *life) {
	s := &b.acts.arm
	*s = b.open(ctx, l, "job-5")
	s.done = monotime.Now()
	reverted := func(shot int) func() bool {
		return func() bool {
			for _, r := range b.seen.of(l.inc, s.from, history.FaultReverted) {
				if r.Fault.ID == checkFault && r.Fault.Shot == shot {
					return true
				}
			}
			return b.dead(l)
		}
	}
	b.arm(l, 1, 2)
	b.offer(l, s.job, b.o.TTL*6/5)
	b.seen.await(ctx, 3*b.o.TTL, reverted(1))
	b.acked(ctx, s, 3*b.o.TTL)
	b.arm(l, 2, 1000)
	s.undone = monotime.Now()
	b.say(l, protocol.Command{Cmd: protocol.CmdDisarm, Disarm: &protocol.Disarm{Fault: checkFault, Shot: 2}})
	b.seen.await(ctx, 2*b.o.TTL, reverted(2))
	b.shut(ctx, s)
}

// checkFault is the fault that workers are armed with.
const checkFault = "check"

func (b *bench) arm(l *life, shot, count int) {
	b.say(l, protocol.Command{Cmd: protocol.CmdArm, Arm: &protocol.Arm{
		Fault: checkFault, Shot: shot, Spec: burst.Spec{Op: burst.Renew, Mode: burst.Error, Lock: jobLock, Count: count, For: 20 * b.o.TTL},
	}})
}
