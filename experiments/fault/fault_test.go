package fault_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// What a history names and this version does not know is no fault of a known kind: nothing follows from it.
func TestAnUnknownKindIsNothingKnown(t *testing.T) {
	s := fault.Seen("melt", "slowly", "")
	if got := s.Traits(); got.Class != "" || !got.Unknown || s.Kind() != "melt" || s.Form() != "slowly" || fault.New("melt") != nil {
		t.Errorf("%s: %+v", s.Kind(), got)
	}
	if text := s.Action(fault.Shot{Victim: "r1.1"}); !strings.Contains(text, "unknown kind melt") {
		t.Errorf("told as %q", text)
	}
}

// Of what is known of a kind, its events tell enough to say how it is judged: with the form that was seen, as if it had been declared.
func TestSeenIsAsDeclared(t *testing.T) {
	for _, spec := range []fault.Spec{
		&fault.Kill{HolderOf: "l", How: fault.Graceful}, &fault.Kill{HolderOf: "l", How: fault.Crash}, &fault.Pause{},
		&fault.Failures{Of: lockcore.OpRenew, Mode: fault.ModeError, Via: fault.ViaProxy}, &fault.Failures{Of: lockcore.OpRelease, Via: fault.ViaWorker},
		&fault.Latency{Stream: fault.StreamUp}, &fault.Cut{How: fault.Down}, &fault.SlowClose{Stream: fault.StreamBoth},
		&fault.Store{Do: fault.StorePause}, &fault.Store{Do: fault.StoreFlush}, &fault.Store{Do: fault.StoreFailover},
		&fault.DeleteKey{}, &fault.DeleteKey{To: fault.Stranger}, &fault.Clock{}, &fault.Object{}, &fault.Object{Aim: fault.Aim{HolderOf: "l"}},
	} {
		s := fault.Of(spec)
		want, got := s.Traits(), fault.Seen(s.Kind(), s.Form(), s.Traits().Via).Traits()
		want.Command, got.Command = nil, nil
		if want.Class != got.Class || want.Noun != got.Noun || want.Kills != got.Kills || want.InVictim != got.InVictim || want.OnTheWay != got.OnTheWay ||
			want.AtStore != got.AtStore || want.AtKey != got.AtKey || want.AtOnce != got.AtOnce || want.Fails != got.Fails || want.Plants != got.Plants ||
			want.FailsOver != got.FailsOver || want.Stands != got.Stands {
			t.Errorf("%s %s: declared %+v, seen %+v", s.Kind(), s.Form(), want, got)
		}
	}
}

// Every kind has its place in the order of classes, or none at all; and no two have one word.
func TestTheTableOfKinds(t *testing.T) {
	kinds := fault.Kinds()
	classes := []string{"", fault.ClassCrash, fault.ClassHandOver, fault.ClassPause, fault.ClassTheft, fault.ClassStore}
	for i, kind := range kinds {
		if slices.Contains(kinds[:i], kind) {
			t.Errorf("kind %s stands twice in the table", kind)
		}
		if made := fault.New(kind); made == nil || made.Kind() != kind || fault.Of(made).Traits().Noun == "" {
			t.Errorf("fault %s is made as %#v", kind, made)
		}
		if class := fault.Of(fault.New(kind)).Traits().Class; !slices.Contains(classes, class) {
			t.Errorf("kind %s has trials of class %q", kind, class)
		}
	}
}

func TestAimFitsLabels(t *testing.T) {
	aim := fault.Aim{Pods: fault.Labels(map[string]string{"app": "web", "tier": ""})}
	for _, c := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"app": "web", "x": "y"}, true},
		{map[string]string{"app": "web", "tier": "front"}, false},
		{map[string]string{"tier": ""}, false},
		{nil, false},
	} {
		if aim.Fits(c.labels) != c.want {
			t.Errorf("%s fits %v: %t", aim.Pods, c.labels, !c.want)
		}
	}
}

// A mild fault of the network keeps nobody away; one that no call outlives does.
func TestOutlasts(t *testing.T) {
	for _, c := range []struct {
		of   fault.Spec
		want bool
	}{
		{&fault.Latency{Add: 600 * time.Millisecond, Stream: fault.StreamDown}, false},
		{&fault.Latency{Add: 600 * time.Millisecond, Stream: fault.StreamBoth}, true},
		{&fault.Jitter{By: 500 * time.Millisecond, Stream: fault.StreamUp}, true},
		{&fault.Bandwidth{Rate: 1, Stream: fault.StreamDown}, true},
		{&fault.Bandwidth{Rate: 2, Stream: fault.StreamDown}, false},
		{&fault.SlowClose{Delay: time.Hour, Stream: fault.StreamBoth}, false},
		{&fault.Cut{How: fault.Hole}, true},
	} {
		w, _ := fault.Of(c.of).Wire()
		if got := w.Outlasts(time.Second); got != c.want {
			t.Errorf("%s %s outlasts a second: %t", c.of.Kind(), fault.Of(c.of).Magnitude(), got)
		}
	}
}

// A Toxiproxy is told a fault in its own words: whole milliseconds, microseconds between slices, and nothing where a proxy is disabled.
func TestToxicsAreToldInToxiproxysWords(t *testing.T) {
	for _, c := range []struct {
		of   fault.Spec
		want string
	}{
		{&fault.Latency{Add: 2600 * time.Microsecond, Jitter: time.Millisecond}, "latency map[jitter:1 latency:3]"},
		{&fault.Jitter{By: 20 * time.Millisecond}, "latency map[jitter:20 latency:20]"},
		{&fault.Bandwidth{Rate: 7}, "bandwidth map[rate:7]"},
		{&fault.Slices{Size: 9, Delay: 1500 * time.Microsecond}, "slicer map[average_size:9 delay:1500]"},
		{&fault.LimitData{Bytes: 1234}, "limit_data map[bytes:1234]"},
		{&fault.SlowClose{Delay: time.Second}, "slow_close map[delay:1000]"},
		{&fault.Cut{How: fault.Hole}, "timeout map[]"},
		{&fault.Cut{How: fault.Reset}, "reset_peer map[]"},
		{&fault.Cut{How: fault.Down}, " map[]"},
	} {
		if called, attributes := fault.Of(c.of).Toxic(); fmt.Sprint(called, " ", attributes) != c.want {
			t.Errorf("%s: %s %v, want %s", c.of.Kind(), called, attributes, c.want)
		}
	}
	for _, f := range []fault.Spec{&fault.LimitData{Bytes: 1000}, &fault.Cut{How: fault.Hole}} {
		if red := fault.Of(f).Traits().Reddens(); !slices.Contains(red, "lock_debt") || !slices.Contains(red, "orphan_acquires") {
			t.Errorf("that neither a release nor what gives a grant back gets through %T is no lock's fault: %v", f, red)
		}
	}
}

// No text of any kind and form keeps a word in braces or brackets that nobody filled in, and a story says once how long a fault lasts.
func TestTextsAreFilledIn(t *testing.T) {
	shot := fault.Shot{Victim: "r1.1", Key: "the-key", Holding: true, Lasts: 90 * time.Second, Want: 3, Configured: "+2s"}
	for _, kind := range fault.Kinds() {
		for _, form := range []string{"", "graceful", "evict", "force_delete", "rollout", "upstream", "delay", "lost_reply", "pause", "freeze", "restart", "stop", "flush", "failover",
			"freeze_leader", "stop_leader", "stranger", "slow", "refuse_writes", "lose_reply", "drain", "cordon", "aimed"} {
			for _, pod := range []bool{false, true} {
				f := fault.Seen(kind, form, fault.ViaProxy)
				shot.Pod = pod
				says := f.Describe(pod)
				for _, text := range []string{says.Does, says.Confirmed, says.Undone, f.Action(shot), f.Magnitude(), f.Measured(fault.Measured{Observed: 1, Hits: 2})} {
					if strings.ContainsAny(text, "{}[]") {
						t.Errorf("%s %s: %s", kind, form, text)
					}
				}
				if told := f.Action(shot); strings.Count(told, "1m30s") > 1 {
					t.Errorf("%s %s says its time twice: %s", kind, form, told)
				}
			}
		}
	}
}
