package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A store may have ids of its own for what it grants, as etcd has revisions: looks and refusals name epochs by them, and the grant says which is
// which. A grant whose answer was lost is known by its time. The judgement is the same as where all use one name.
func TestEpochsByTheStoresOwnIDs(t *testing.T) {
	for _, name := range []string{"key-stranger", "key-vanishes-late", "failover-granted-twice", "release-fails", "release-failures-ttl", "not-owned-renewals",
		"lost-acquire-reply-left", "lost-acquire-reply-undone", "acquire-replies-left", "acquire-replies-undone"} {
		e, err := experiments.Load("../scenarios/testdata/" + name + "/experiment.yaml")
		if err != nil {
			t.Fatal(err)
		}
		want, renamed := cases[name](), cases[name]()
		asked := map[string]bool{} // also those that got no answer, and with it no id
		for _, ev := range renamed.events {
			if ev.Kind == history.AcquireInvoke {
				asked[ev.Epoch] = true
			}
		}
		named := 0
		for i, ev := range renamed.events {
			switch {
			case ev.Look != nil && asked[ev.Epoch]:
				renamed.events[i].Epoch = "rev-" + ev.Epoch
				named++
			case ev.Kind == history.AcquireReturn:
				c := *ev.Call
				if c.Result == history.ResultGranted {
					c.ID = "rev-" + ev.Epoch
				}
				if asked[c.Holder] {
					c.Holder = "rev-" + c.Holder
				}
				renamed.events[i].Call = &c
			}
		}
		verdicts := [2]string{}
		for i, tp := range []*tape{want, renamed} {
			h := tp.history(t)
			text, err := Judge(e, h).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			verdicts[i] = string(text)
		}
		if named == 0 || verdicts[0] != verdicts[1] {
			t.Errorf("%s: %d looks by the store's ids; judged otherwise:\n%s\n%s", name, named, verdicts[0], verdicts[1])
		}
	}
}

// etcd's Mutex finds the key that its session had put by an acquire whose answer was lost, and is granted that. Both calls are of one epoch,
// which was granted when looks began to show it; the burst hit that acquire. Another process's call is none of it.
func TestAnAcquireThatFindsItsOwnKey(t *testing.T) {
	for _, again := range []string{"r1.1", "r2.1"} {
		ix := faulted(t, func(tp *tape) {
			tp.inject(5, "lost#1", "", history.Fault{Kind: "acquire_failures", Form: "lost_reply", Via: "proxy", Want: 1, Declared: 20e9, Victims: []string{"r1.1", "r2.1"}})
			tp.lostGrant(6, "r1.1", leader, "first")
			hit := tp.shots["lost#1"]
			hit.Victim = "r1.1"
			tp.add(6.0001, 6.0001, history.Event{Kind: history.FaultHit, Lock: leader.lock, Key: leader.key, Op: "lost#1", Fault: &hit})
			tp.look(6.003, leader, "rev-5", 6)
			tp.fault(6.0001, 6.0001, history.FaultConfirmed, "lost#1", "")
			tp.grant(8.5, again, leader, "second", 5)
			tp.events[len(tp.events)-1].Call.ID = "rev-5"
			tp.lift(9, "lost#1", "")
			tp.release(9.5, "second")
			tp.look(9.502, leader, "", 0)
		})
		k := ix.Keys[leader.key]
		e, hits, wrong := k.Find("second"), ids(ix.shot(t, "lost#1").MayHit(ix.Facts)), len(ix.Findings) > 0
		if again == "r2.1" {
			if !wrong || hits != "first" {
				t.Errorf("another's key was granted, and findings are %v, hit %s", ix.Findings, hits)
			}
			continue
		}
		if at := e.Granted; wrong || hits != "second" || at.From < ns(5.9) || at.To > ns(6.01) {
			t.Errorf("findings %v, hit %s, granted at %v", ix.Findings, hits, at)
		}
	}
}
