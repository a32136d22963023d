package analysis

import (
	"bytes"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A store may have ids of its own for what it grants, as etcd has revisions: looks and refusals name epochs by them, and the grant says which is
// which. The judgement is the same as where all use one name.
func TestEpochsByTheStoresOwnIDs(t *testing.T) {
	for _, name := range []string{"key-stranger", "key-vanishes-late", "failover-granted-twice", "release-fails", "release-failures-ttl", "not-owned-renewals"} {
		e, err := experiments.Load("../scenarios/testdata/" + name + "/experiment.yaml")
		if err != nil {
			t.Fatal(err)
		}
		want, renamed := cases[name](), cases[name]()
		granted := map[string]bool{}
		for _, ev := range renamed.events {
			if ev.Kind == history.AcquireReturn && ev.Call.Result == history.ResultGranted {
				granted[ev.Epoch] = true
			}
		}
		named := 0
		for i, ev := range renamed.events {
			switch {
			case ev.Look != nil && granted[ev.Epoch]:
				renamed.events[i].Epoch = "rev-" + ev.Epoch
				named++
			case ev.Kind == history.AcquireReturn:
				c := *ev.Call
				if c.Result == history.ResultGranted {
					c.ID = "rev-" + ev.Epoch
				}
				if granted[c.Holder] {
					c.Holder = "rev-" + c.Holder
				}
				renamed.events[i].Call = &c
			}
		}
		verdicts := [2]string{}
		for i, tp := range []*tape{want, renamed} {
			h, err := history.Read(bytes.NewReader(tp.lines(name, digest(t, name))))
			if err != nil {
				t.Fatal(err)
			}
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
