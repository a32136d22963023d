package workercheck

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// playEnd brings a life to its end in the midst of a job.
func (b *bench) playEnd(ctx context.Context, s *scene, l *life, job string, do func()) {
	if b.begin(ctx, s, l, job, 20*b.o.TTL) {
		s.done = monotime.Now()
		do()
		s.took, s.ended = b.awaitEnd(ctx, l)
		b.shut(ctx, s)
	}
}

func (b *bench) playStop(ctx context.Context, l *life) {
	b.playEnd(ctx, &b.acts.stop, l, "job-6", func() { b.say(l, protocol.Command{Cmd: protocol.CmdStop}) })
}

// playSignals stops a holder until its lock is another's, lets it go on, and then sends SIGTERM.
func (b *bench) playSignals(ctx context.Context) error {
	if !b.takesJobs() {
		return nil
	}
	l, err := b.start(ctx, "r1", b.jobs())
	if err != nil {
		return err
	}
	defer b.kill(ctx, l)
	if s := &b.acts.pause; l.ready && b.begin(ctx, s, l, "job-7", 6*b.o.TTL) {
		b.renewed(ctx, s)
		if err := b.standStill(ctx, s); err != nil {
			return err
		}
		b.exited(ctx, s, 3*b.o.TTL)
		b.shut(ctx, s)
	}
	if err := b.clear(ctx, jobKey); err != nil {
		return err
	}
	b.playEnd(ctx, &b.acts.term, l, "job-8", func() { _, _ = b.fleet.Signal(l.inc, syscall.SIGTERM) })
	return b.clear(ctx, jobKey)
}

// standStill pauses a life for longer than its lease; meanwhile a stranger takes the key and writes with a higher fence.
func (b *bench) standStill(ctx context.Context, s *scene) error {
	if _, err := b.fleet.Signal(s.life.inc, syscall.SIGSTOP); err != nil {
		return nil // it is dead, which shows
	}
	b.seen.await(ctx, b.o.TTL*3/2, func() bool { return false })
	err := b.put(ctx, jobKey, 6*b.o.TTL)
	b.seen.know(func() bool {
		for _, e := range b.seen.effects {
			b.acts.ledgerFence = max(b.acts.ledgerFence, e.Fence)
		}
		return true
	})
	b.acts.ledgerFence++ // above what stands still, and not above the next grant
	if err == nil {
		err = b.ledger.Eval(ctx, redisstore.EffectScript(), redisstore.KeysOf(b.stores.Ledger.Prefix).List(),
			jobKey, "job-of-a-stranger", 0, history.StateBegin, 0, "0123456789ab", b.acts.ledgerFence, "stranger/1", "stranger", 0, 0).Err()
	}
	s.done = monotime.Now()
	_, _ = b.fleet.Signal(s.life.inc, syscall.SIGCONT)
	if err != nil {
		return fmt.Errorf("be a stranger at the stores: %w", err)
	}
	return nil
}

// playUnknown offers a job with fields that no worker knows.
func (b *bench) playUnknown(ctx context.Context, l *life) {
	s := &b.acts.unknown
	*s = b.open(ctx, l, "job-11")
	s.done = monotime.Now()
	line := fmt.Sprintf(`{"v":1,"cmd":"offer","later":{"x":[1]},"offer":{"lock":%q,"job":%q,"key":%q,"hold":%d,"later":[{"y":null}]}}`+"\n",
		jobLock, s.job, jobKey, b.o.TTL/10)
	_ = b.fleet.SendLine(l.inc, []byte(line)) // one that is dead shows
	b.acked(ctx, s, 2*b.o.TTL)
	b.shut(ctx, s)
}

// playHangUp closes the standard input of a holder.
func (b *bench) playHangUp(ctx context.Context) error {
	if !b.takesJobs() {
		return nil
	}
	l, err := b.start(ctx, "r1", b.jobs())
	if err != nil {
		return err
	}
	defer b.kill(ctx, l)
	if l.ready {
		b.playUnknown(ctx, l)
		b.playEnd(ctx, &b.acts.hangUp, l, "job-9", func() { _ = b.fleet.HangUp(l.inc) })
	}
	return b.clear(ctx, jobKey)
}

// playLoops lets two lives lead a loop, and kills the leader.
func (b *bench) playLoops(ctx context.Context) error {
	s := &b.acts.loops
	var both [2]*life
	for i, name := range []string{"r1", "r2"} {
		l, err := b.start(ctx, name, b.loop())
		if err != nil {
			return err
		}
		defer b.kill(ctx, l)
		if both[i] = l; !l.ready {
			return nil
		}
	}
	*s = scene{life: both[0], from: monotime.Now()}
	ticked := func(but *life) func() bool {
		return func() bool { l := b.lastTick(both[:]); return l != nil && l != but }
	}
	if !b.seen.await(ctx, 6*b.o.TTL, ticked(nil)) {
		return nil
	}
	s.from = monotime.Now()
	b.seen.await(ctx, 2*b.o.TTL, func() bool { return false })
	b.seen.know(func() bool { b.acts.leader = b.lastTick(both[:]); return true })
	b.acts.follower = both[0]
	if b.acts.leader == both[0] {
		b.acts.follower = both[1]
	}
	s.done = monotime.Now()
	b.kill(ctx, b.acts.leader)
	s.ended = b.seen.await(ctx, 6*b.o.TTL, ticked(b.acts.leader))
	s.to = monotime.Now()
	b.say(b.acts.follower, protocol.Command{Cmd: protocol.CmdStop})
	b.awaitEnd(ctx, b.acts.follower)
	return nil
}

// lastTick is who has written the last accepted effect of the loop. The witness is held.
func (b *bench) lastTick(of []*life) *life {
	for i := len(b.seen.effects) - 1; i >= 0; i-- {
		for _, l := range of {
			if e := b.seen.effects[i]; e.Key == loopKey && e.Accepted && e.Writer == l.inc {
				return l
			}
		}
	}
	return nil
}
