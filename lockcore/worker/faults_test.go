package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

func TestArmedRenewalsFailAndAreCounted(t *testing.T) {
	r := launch(t, startRedis(t), "r1.1", jobLock())
	r.offer("a", long)
	r.offer("b", long)
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:a" })
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:b" })
	arm := protocol.Arm{Fault: "burst", Shot: 2, Op: "renew", Mode: "error", Lock: "job", Key: "job:a", Count: 3, For: time.Minute}
	r.send(protocol.Command{Cmd: protocol.CmdArm, Arm: &arm})
	over := r.await(history.FaultReverted, nil)
	hits := r.all(history.FaultHit)
	if len(hits) != 3 || over.Fault.Hits != 3 || over.Op != "burst#2" || over.Fault.Kind != "renew_failures" || over.Fault.Want != 3 {
		t.Errorf("%d hits, then %+v; want 3", len(hits), over.Fault)
	}
	for _, e := range hits {
		if e.Key != "job:a" || e.Lock != "job" || e.Epoch == "" || e.Op != "burst#2" {
			t.Errorf("hit %+v", e)
		}
	}
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:a" && e.Outcome == history.OK && e.From > over.From })
	made := 0
	for _, e := range r.all(history.RenewReturn) {
		if e.Call.Fault != "" {
			made++
			if e.Outcome != history.Fail || e.Call.Result != history.ResultError || e.Key != "job:a" || e.Call.Fault != "burst#2" {
				t.Errorf("failed renewal %+v %+v, want a definite failure that names the shot", e, e.Call)
			}
		}
	}
	if made != 3 {
		t.Errorf("%d renewals name the shot, want 3", made)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// tellTale is a set of faults whose events are kept.
func tellTale() (*faults, *[]history.Event) {
	events := &[]history.Event{}
	return newFaults("r1.1", func(e history.Event) {
		e.Source = "r1.1"
		*events = append(*events, e)
	}), events
}

func last(t *testing.T, events *[]history.Event) history.Event {
	t.Helper()
	if len(*events) == 0 {
		t.Fatal("nothing was said")
	}
	e := (*events)[len(*events)-1]
	if err := e.Check(); err != nil {
		t.Errorf("event %s: %v", e.Kind, err)
	}
	return e
}

func TestFaultEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, events := tellTale()
		f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", For: time.Second})
		<-time.After(999 * time.Millisecond)
		if err := f.hit("l", "k", "token"); err == nil {
			t.Error("an armed fault does not hit")
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if err := f.hit("l", "k", "token"); err != nil {
			t.Errorf("hit after its time: %v", err)
		}
		if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 1 || len(*events) != 2 {
			t.Errorf("said %d events, the last %+v", len(*events), e.Fault)
		}
	})
}

func TestFaultFilterDisarmAndClose(t *testing.T) {
	f, events := tellTale()
	f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", Lock: "l", Key: "k", Count: 9})
	f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", Count: 9}) // a repetition
	if f.hit("l", "other", "t") != nil || f.hit("other", "k", "t") != nil {
		t.Error("hit what it was not aimed at")
	}
	err := f.hit("l", "k", "t")
	var named interface{ Fault() string }
	if !errors.Is(err, lockcore.ErrNotSent) || !errors.As(err, &named) || named.Fault() != "b#1" {
		t.Errorf("hit = %v, want one that was not sent and names b#1", err)
	}
	f.disarm(protocol.Disarm{Fault: "b", Shot: 2})
	if f.hit("l", "k", "t") == nil {
		t.Error("the end of another shot ended this one")
	}
	f.disarm(protocol.Disarm{Fault: "b", Shot: 1})
	if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 2 || f.hit("l", "k", "t") != nil {
		t.Errorf("after disarm: %+v", e.Fault)
	}
	f.arm(protocol.Arm{Fault: "b", Shot: 3, Op: "renew", Mode: "error", For: time.Hour})
	f.close()
	if e := last(t, events); e.Kind != history.FaultReverted || e.Op != "b#3" || f.hit("l", "k", "t") != nil {
		t.Errorf("after close: %+v", e)
	}
	if f.arm(protocol.Arm{Fault: "b", Shot: 4, Op: "renew", Mode: "error", Count: 1}); f.hit("l", "k", "t") != nil {
		t.Error("armed after the end")
	}
}

func TestFaultThatCannotBeMadeIsRevertedAtOnce(t *testing.T) {
	for _, arm := range []protocol.Arm{
		{Fault: "b", Shot: 1, Op: "acquire", Mode: "error", Count: 1},
		{Fault: "b", Shot: 1, Op: "renew", Mode: "lost_reply", Count: 1},
		{Fault: "b", Shot: 1, Op: "renew", Mode: "error"},
	} {
		f, events := tellTale()
		f.arm(arm)
		if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 0 || e.Fault.Detail == "" || f.hit("l", "k", "t") != nil {
			t.Errorf("arm %+v: said %+v", arm, e.Fault)
		}
	}
}
