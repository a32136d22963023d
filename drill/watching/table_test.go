package watching

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
)

// tape plays looks at one key, 50 ms apart, to a table.
type tape struct {
	table Table
	key   string
}

const ms = int64(time.Millisecond)

// look shows the key at an instant; "" = it is free. The look before was 50 ms earlier.
func (p *tape) look(at int64, epoch string, left time.Duration) {
	e := history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Key: p.key, Epoch: epoch, Span: history.Span{From: at * ms, To: (at + 1) * ms},
		Look: &history.Look{Present: epoch != "", PTTL: int64(left), Prev: &history.Span{From: (at - 50) * ms, To: (at - 49) * ms}}}
	p.table.See(e)
}

// Keys that differ by an id are one row, wherever the id stands; names of a few loops are not ids.
func TestKeysOfJobsAreOneRow(t *testing.T) {
	for key, want := range map[string]string{
		"job:17": "job:*", "job:a1": "job:*", "bull:q:17:lock": "bull:q:*:lock", "bull:{q}:17:lock": "bull:{q}:*:lock",
		"q/5e1f0c77-aa/lock": "q/*/lock", "app:eu1:leader": "app:eu1:leader", "17:lock": "17:lock", "leader": "leader", "job:": "job:",
	} {
		if got := Group(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// How a lease ends is told by what was left of it: each case differs from a neighbour in that alone.
func TestHowALeaseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		at   int64 // of the look that shows the end; the lease of 1s was granted at 1000
		next string
		want Row
	}{
		"free long before its end":      {1500, "", Row{Releases: 1}},
		"free once it is over":          {2010, "", Row{Expiries: 1}},
		"another's long before its end": {1500, "b", Row{Taken: 1, Grants: 1, Held: 1, Holder: "b"}},
		"another's once it is over":     {2010, "b", Row{Expiries: 1, Grants: 1, Held: 1, Holder: "b"}},
		"its own again: it was renewed": {1500, "a", Row{Renewals: 1, Held: 1, Holder: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := tape{key: "k"}
			p.look(1000, "a", time.Second)
			left := time.Second
			if c.next == "" {
				left = 0
			}
			p.look(c.at, c.next, left)
			got := p.table.Rows(c.at * ms)[0]
			c.want.Grants++
			if got.Releases != c.want.Releases || got.Expiries != c.want.Expiries || got.Taken != c.want.Taken || got.Grants != c.want.Grants ||
				got.Renewals != c.want.Renewals || got.Held != c.want.Held || got.Holder != c.want.Holder || got.TTL != time.Second {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The figures of the sentence: every 20.1 s with a TTL of 60 s.
func TestTheSumOfARenewedLoop(t *testing.T) {
	p := tape{key: "sched:leader"}
	for n := range int64(6) {
		p.look(1000+n*20_100, "a", 60*time.Second-20*time.Millisecond)
	}
	s := State{Rows: p.table.Rows(110_000 * ms), Every: 50 * time.Millisecond}
	want := "sched:leader renews every 20.1s with TTL 60s: a crash costs 39.9s to 60s, and then one poll of the others."
	if got := s.Rows[0].Sum(s.Every); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Then its holder dies, and the lease runs out; 30 s later the next holder comes.
	p.look(161_550, "", 0)
	p.look(191_550, "b", 60*time.Second)
	s.Rows = p.table.Rows(191_600 * ms)
	if got := s.Rows[0].Sum(s.Every); !strings.Contains(got, "a crash costs 39.9s to 60s, and then up to 30s until the next holder comes") {
		t.Errorf("got %s", got)
	}
	if l := s.Draft()[0]; l.TTL != time.Minute || l.RenewEvery != 20*time.Second || l.Poll != 30*time.Second || l.Mode != lockcore.LoopRenewed || l.Key != "sched:leader" {
		t.Errorf("the draft has %+v", l)
	}
}

// What was seen of a key says how much it is a lock: a draft strikes one that was granted, never a heartbeat before it.
func TestADraftStrikesWhatBehavesLikeALock(t *testing.T) {
	seconds := func(epochs ...string) func(*tape) {
		return func(p *tape) {
			for n, epoch := range epochs {
				p.look(int64(1000+n*1000), epoch, 3*time.Second)
			}
		}
	}
	beats := seconds("a", "a", "a", "a")
	for name, c := range map[string]struct {
		play func(*tape)
		want draft.Evidence
	}{
		"hb": {func(p *tape) {
			p.table.keys = map[string]*Key{p.key: {Name: p.key, Holder: "a", left: 3 * time.Second, at: 900 * ms}}
			beats(p)
		}, draft.NoGrant},
		"hb-of-clocks": {func(p *tape) {
			p.table.keys = map[string]*Key{p.key: {Name: p.key, Holder: "0", left: 3 * time.Second, at: 900 * ms}}
			seconds("1", "2", "3")(p)
		}, draft.Overwritten},
		"hb-anew":  {beats, draft.Granted},
		"released": {seconds("a", ""), draft.HandedOn},
		"ran-out":  {func(p *tape) { p.look(1000, "a", time.Second); p.look(3000, "", 0); p.look(4000, "b", time.Second) }, draft.HandedOn},
		"its-own":  {func(p *tape) { p.look(1000, "a", time.Second); p.look(3000, "", 0); p.look(4000, "a", time.Second) }, draft.Granted},
	} {
		p := tape{key: name}
		c.play(&p)
		s := State{Rows: p.table.Rows(10_000 * ms)}
		if got := s.Draft(); len(got) != 1 || got[0].Evidence != c.want {
			t.Errorf("%s: %+v, want evidence %d", name, got, c.want)
		}
	}
}

// Leases that run out unreleased are told of, with the figure; a few of them, and a loop that is always left to its TTL, are not.
func TestLeasesThatRunOutAreTold(t *testing.T) {
	const plain = "ran out and were not released"
	for name, c := range map[string]struct {
		expired, released int
		renewed           bool
		jobs              bool
		want              string
	}{
		"half of them":                   {12, 13, false, true, "12 of 26 leases ran out and were not released, and none was renewed. Their holders worked for longer than the TTL, died, or did not release"},
		"half of them, renewed":          {12, 13, true, true, "12 of 26 leases ran out and were not released. Their holders died, stopped renewing, or did not release"},
		"all of them":                    {6, 0, false, true, "6 of 7 leases " + plain},
		"a quarter":                      {4, 12, false, true, "4 of 17 leases " + plain},
		"fewer":                          {4, 13, false, true, ""},
		"two":                            {2, 0, false, true, ""},
		"a loop that is left to its TTL": {6, 0, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := tape{key: "job:1"}
			at := int64(1000)
			lease := func(end int64) {
				p.look(at, "a", time.Second)
				if c.renewed {
					p.look(at+100, "a", time.Second)
					end += 100
				}
				if end > 0 {
					p.look(at+end, "", 0)
				}
				at += 5000
			}
			for range c.expired {
				lease(1200)
			}
			for range c.released {
				lease(500)
			}
			if c.jobs {
				p.key = "job:2"
			}
			p.look(at, "b", time.Second) // is held
			row := p.table.Rows(at * ms)[0]
			got := row.Sum(50 * time.Millisecond)
			if c.want == "" && strings.Contains(got, plain) || !strings.Contains(got, c.want) {
				t.Errorf("%+v: %s", row, got)
			}
		})
	}
}

// A loop that gives its lock back and takes it again within one look has mode explicit: each value is another one. Where they are the same, it
// looks as if it were renewed, and the sum says what else it may be.
func TestALoopThatIsRetakenWithinALook(t *testing.T) {
	for name, c := range map[string]struct {
		token func(n int64) string
		every int64
		mode  lockcore.LoopMode
		hint  bool
	}{
		"a token each time":   {func(n int64) string { return fmt.Sprint("t", n) }, 200, lockcore.LoopExplicit, false},
		"the holder's name":   {func(int64) string { return "a" }, 200, lockcore.LoopRenewed, true},
		"renewed as is usual": {func(int64) string { return "a" }, 4000, lockcore.LoopRenewed, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := tape{key: "svc:leader"}
			for n := range int64(20) {
				p.look(1000+n*c.every, c.token(n), 12*time.Second)
			}
			s := State{Rows: p.table.Rows((1000 + 20*c.every) * ms), Every: 50 * time.Millisecond}
			if got := s.Draft()[0].Mode; got != c.mode {
				t.Errorf("mode %q, want %q", got, c.mode)
			}
			if got := s.Rows[0].Sum(s.Every); strings.Contains(got, "mode: explicit") != c.hint {
				t.Error(got)
			}
		})
	}
}

func TestAThiefIsNotTakenForSure(t *testing.T) {
	p := tape{key: "k"}
	p.look(1000, "a", time.Minute)
	p.look(1500, "b", time.Minute)
	rows := p.table.Rows(1500 * ms)
	if got := rows[0].Sum(50 * time.Millisecond); !strings.Contains(got, "Once another value stood there before the lease was over: a theft, or a release and a grant within one look (50ms).") {
		t.Errorf("got %s", got)
	}
}

// What no file can say is left out of the draft, and what is no lock out of the table.
func TestWhatIsNotDrafted(t *testing.T) {
	p := tape{key: "with space"}
	p.look(1000, "a", time.Minute)
	p.key = "counter"
	p.look(1000, "7", -1)
	rows := p.table.Rows(1000 * ms)
	if s := (State{Rows: rows}); len(rows) != 1 || len(s.Draft()) != 0 {
		t.Errorf("%d rows and %v", len(rows), s.Draft())
	}
}

// A Lease object is renewed by its holder; the watch finds it by itself and only reads.
func TestAWatchOfLeases(t *testing.T) {
	holder, seconds := "web-1", int32(15)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "billing", Namespace: "shop", ResourceVersion: "1"}}
	renew := func(n int) *coordinationv1.Lease {
		l := lease.DeepCopy()
		now := metav1.NowMicro()
		l.ResourceVersion = fmt.Sprint(n)
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &metav1.MicroTime{}}
		return l
	}
	client := fake.NewClientset(renew(1))
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 2; ctx.Err() == nil; n++ {
			if _, err := client.CoordinationV1().Leases("shop").Update(ctx, renew(n), metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	writes := 0
	var last State
	w := &Watcher{o: Options{Clock: monotime.Now}, cluster: kube.New(kubefake.Generic(client), "shop")}
	err := w.Watch(ctx, func(s State) {
		if last = s; len(s.Rows) > 0 && s.Rows[0].Renewals >= 5 {
			stop()
		}
	})
	<-ended
	for _, a := range client.Actions() {
		if verb := a.GetVerb(); verb != "get" && verb != "list" && verb != "watch" && verb != "update" { // update is the service's own
			writes++
		}
	}
	if err != nil || len(last.Rows) != 1 || last.Rows[0].Name != "billing" || last.Rows[0].Mode() != lockcore.LoopRenewed || writes > 0 {
		t.Fatalf("%v, %d writes: %+v", err, writes, last)
	}
	data, err := draft.Draft{Namespace: w.Namespace(), Selector: map[string]string{"app": "x"}, Locks: last.Draft()}.Text()
	testkit.Must(t, err)
	if e, err := experiments.Parse("draft.yaml", data); err != nil || e.System.Locks[0].Lease != "billing" || e.System.Locks[0].Policy.TTL.Round(time.Second) != 15*time.Second {
		t.Errorf("%v\n%s", err, data)
	}
}

// What stands in a key is told apart, and not kept.
func TestValuesAreTokensOrNames(t *testing.T) {
	for value, want := range map[string]draft.Values{
		"6f1c2d3e-1111-4222-8333-abcdefabcdef": draft.Tokens, "6f1c2d3e-1111-4222-8333-abcdefabcdef:57": draft.Tokens, "0123456789abcdef0123": draft.Tokens, "pZ4kQm1xT8bWv0LsYd2r": draft.Tokens,
		"scheduler-7d9f8b6c5-x2x4q": draft.Names, "ip-10-0-0-1:4711": draft.Names, "worker-1": draft.Names, "4711": draft.Names, `{"holder":"a"}`: draft.Names, "": "",
	} {
		if got := kindOf(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
