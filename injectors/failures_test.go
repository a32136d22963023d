package injectors

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// answering is a replica r1.1 that does as it is told, and says so.
func (w *world) answering(hits ...history.Event) {
	armed := false
	w.look = func() bool { return armed }
	w.Send = func(_ string, c protocol.Command) error {
		armed = c.Cmd == protocol.CmdArm
		if !armed {
			hits = []history.Event{{Kind: history.FaultReverted, Fault: &history.Fault{Detail: "disarmed"}}}
		}
		for _, e := range hits {
			e.Source, e.Op, e.Span = "r1.1", "x#1", history.At(monotime.Now())
			_ = w.add(e)
		}
		return nil
	}
}

// tapped puts a tap before a Redis, and gives a client that goes through it.
func (w *world) tapped() *redis.Client {
	w.Helper()
	addr := redistest.Start(w)
	w.Glob = func(_, key string) string { return "p:" + key + "*" }
	w.Bare = func(name string) (string, string) { return "job", strings.TrimPrefix(name, "p:") }
	w.Tap = tap.New(tap.Options{Clock: monotime.Now, OnHit: w.Hit, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}})
	t := w.Tap
	w.Cleanup(func() { _ = t.Close() })
	w.Send = func(string, protocol.Command) error { return errors.New("nobody is told anything") }
	way, err := w.Tap.Listen("r1", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: way, MaxRetries: -1, ReadTimeout: 2 * time.Second, DisableIdentity: true})
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// renewing fails as long as renewals are made to fail.
func renewing(w *world, c *redis.Client) func() bool {
	renew := redis.NewScript(`return redis.call("pexpire", KEYS[1], ARGV[2])`)
	return func() bool { return renew.Eval(w.Context(), c, []string{"p:k"}, "token", 1000).Err() != nil }
}

func burstHit(who string, at int64) history.Event {
	return history.Event{Kind: history.FaultHit, Source: who, Op: "b#1", Span: history.At(at), Fault: &history.Fault{}}
}

func burstOver(who, op string, hits int64) history.Event {
	return history.Event{Kind: history.FaultReverted, Source: who, Op: op, Span: history.At(20), Fault: &history.Fault{Hits: hits, Detail: "its time was up"}}
}

func TestBurstIsConfirmedOnlyIfItHitWhatWasAsked(t *testing.T) {
	one, two := []string{"r1.1"}, []string{"r1.1", "r2.1"}
	for _, c := range []struct {
		name    string
		victims []string
		want    int64
		events  recorded
		hits    int64
		void    string
	}{
		{"all hit", one, 2, recorded{burstHit("r1.1", 5), burstHit("r1.1", 9), burstOver("r1.1", "b#1", 2)}, 2, ""},
		{"by time, some hit", one, 0, recorded{burstHit("r1.1", 5), burstOver("r1.1", "b#1", 1)}, 1, ""},
		{"by time, none hit", one, 0, recorded{burstOver("r1.1", "b#1", 0)}, 0, "unconfirmed"},
		{"too few", one, 3, recorded{burstHit("r1.1", 5), burstHit("r1.1", 9), burstOver("r1.1", "b#1", 2)}, 2, "unconfirmed"},
		{"no end seen", one, 2, recorded{burstHit("r1.1", 5), burstHit("r1.1", 9), burstOver("r1.1", "b#2", 2)}, 2, "unconfirmed"},
		{"died meanwhile", one, 2, recorded{burstHit("r1.1", 5), exit("signal: killed")}, 1, "moved"},
		{"another's hits", one, 1, recorded{burstHit("r2.1", 5), burstOver("r2.1", "b#1", 1), burstOver("r1.1", "b#1", 0)}, 0, "unconfirmed"},
		{"together enough", two, 2, recorded{burstHit("r1.1", 5), burstHit("r2.1", 9)}, 2, ""},
		{"together too few", two, 3, recorded{burstHit("r1.1", 5), burstHit("r2.1", 9), burstOver("r1.1", "b#1", 1), burstOver("r2.1", "b#1", 1)}, 2, "unconfirmed"},
		{"one of two died", two, 2, recorded{exit("signal: killed"), burstHit("r2.1", 5), burstHit("r2.1", 9)}, 2, ""},
		{"one of two died, by time", two, 0, recorded{exit("signal: killed"), burstHit("r2.1", 5), burstOver("r2.1", "b#1", 1)}, 1, ""},
	} {
		shot := history.Event{Op: "b#1", Fault: &history.Fault{ID: "b", Shot: 1, Kind: "renew_failures", Victims: c.victims, Want: c.want, Via: "worker"}}
		x := (&Reach{Send: untold, Await: c.events.await}).at(&fault.Failures{Of: lockcore.OpRenew}, shot)
		window, seen, err := x.Confirm(t.Context(), history.At(1))
		if voidOf(err) != c.void || (err == nil) != (c.void == "") || seen.Hits != c.hits {
			t.Errorf("%s: %v with %d hits, want %q with %d", c.name, err, seen.Hits, c.void, c.hits)
		}
		if (c.name == "all hit" || c.name == "together enough") && window != (history.Span{From: 5, To: 9}) {
			t.Errorf("%s: window %v, want first to last hit", c.name, window)
		}
	}
}

func TestBurstArmsWhatItIsAimedAtAndDisarms(t *testing.T) {
	both := recorded{burstOver("r1.1", "b#1", 0), burstOver("r2.1", "b#1", 0)}
	for _, c := range []struct {
		fault fault.Spec
		shot  history.Event
		want  burst.Spec
		armed []string
	}{
		{faultOf("renew_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "lost_reply", Share: 0.5}), history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Victim: "r1.1", Want: 3}},
			burst.Spec{Op: "renew", Mode: "lost_reply", Share: 0.5, Lock: "job", Key: "k", Count: 3}, []string{"r1.1"}},
		{faultOf("acquire_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "delay", Delay: 3}), history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Victim: "r1.1", Want: 3}},
			burst.Spec{Op: "acquire", Mode: "delay", Delay: 3, Lock: "job", Count: 3}, []string{"r1.1"}},
		{faultOf("release_failures", fault.Failures{Aim: fault.Aim{All: true}, Lock: "other", Mode: "error"}), history.Event{Fault: &history.Fault{Victims: []string{"r1.1", "r2.1"}, Want: 3}},
			burst.Spec{Op: "release", Mode: "error", Lock: "other", Count: 3}, []string{"r1.1", "r2.1"}},
		{&fault.Clock{Offset: time.Second}, history.Event{Fault: &history.Fault{Victim: "r1.1"}}, burst.Spec{Op: "clock", Mode: "offset", Delay: time.Second}, []string{"r1.1"}},
	} {
		kind := c.fault.Kind()
		var armed, disarmed []string
		var got protocol.Arm
		c.shot.Op = "b#1"
		c.shot.Fault.ID, c.shot.Fault.Shot, c.shot.Fault.Kind, c.shot.Fault.Declared = "b", 1, kind, 9
		x := (&Reach{
			Clock: func() int64 { return 7 }, Await: both.await,
			Send: func(who string, cmd protocol.Command) error {
				if cmd.Cmd == protocol.CmdArm {
					armed, got = append(armed, who), *cmd.Arm
				} else if *cmd.Disarm == (protocol.Disarm{Fault: "b", Shot: 1}) {
					disarmed = append(disarmed, who)
				}
				return nil
			},
		}).at(c.fault, c.shot)
		if _, err := x.Inject(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.want.For = 9
		if !reflect.DeepEqual(got, protocol.Arm{Fault: "b", Shot: 1, Spec: c.want}) || !slices.Equal(armed, c.armed) {
			t.Errorf("%s: armed %v with %+v, want %v with %+v", kind, armed, got, c.armed, c.want)
		}
		if span, err := x.Revert(t.Context()); err != nil || span != history.At(20) || !slices.Equal(disarmed, c.armed) {
			t.Errorf("%s: reverted at %v: %v; disarmed %v", kind, span, err, disarmed)
		}
		x.Await = recorded{burstOver("r2.1", "b#1", 0)}.await
		if _, err := x.Revert(t.Context()); err == nil {
			t.Errorf("%s: what r1.1 does not say is over was reported as reverted", kind)
		}
		x.Send = func(string, protocol.Command) error { return errors.New("gone") }
		if _, err := x.Inject(t.Context()); voidOf(err) != "moved" {
			t.Errorf("%s: nobody is there: %v", kind, err)
		}
	}
}

func untold(string, protocol.Command) error { return nil }

func faultOf(kind string, b fault.Failures) fault.Spec {
	b.Of = lockcore.Op(strings.TrimSuffix(kind, "_failures"))
	return &b
}

func TestBurstOnTheWayIsFeltCountedAndEnds(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	c := w.tapped()
	w.shot, w.lasts = history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Want: 2, Via: fault.ViaProxy}}, 20*time.Second
	x := w.prepare(faultOf("renew_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "timeout", Via: "proxy"}))
	applied, err := x.Inject(ctx)
	if err != nil {
		t.Fatal(err)
	}
	renew := redis.NewScript(`return redis.call("pexpire", KEYS[1], ARGV[2])`)
	patient := c.WithTimeout(20 * time.Second)
	for _, key := range []string{"p:k", "other"} {
		if err := patient.Set(ctx, key, "token", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	felt := 0
	for range 3 {
		if err := renew.Eval(ctx, c.WithTimeout(300*time.Millisecond), []string{"p:k"}, "token", 1000).Err(); err != nil {
			felt++
		}
	}
	if err := renew.Eval(ctx, patient, []string{"other"}, "token", 1000).Err(); err != nil {
		t.Errorf("another key was struck: %v", err)
	}
	window, seen, err := x.confirm(applied)
	if err != nil || seen.Hits != 2 || felt < 2 || window.From < applied.From || window.To < window.From {
		t.Errorf("%v: %+v, felt %d, window %v after %v", err, seen, felt, window, applied)
	}
	for range 2 {
		if span, err := x.Revert(ctx); err != nil || span.To < window.To {
			t.Errorf("reverted at %v: %v", span, err)
		}
	}
	_ = w.Tap.Close() // nothing is recorded any more
	events := w.Past()
	if len(events) != 2 {
		t.Fatalf("%d hits were recorded", len(events))
	}
	e := events[1]
	want := history.Fault{ID: "x", Shot: 1, Kind: "renew_failures", Form: "timeout", Victim: "r1.1", Want: 2, Hits: 2, Declared: int64(20 * time.Second), Via: "proxy"}
	if e.Op != "x#1" || e.Source != "runner" || e.Lock != "job" || e.Key != "k" || e.Epoch != lockcore.Fingerprint("token") || !reflect.DeepEqual(*e.Fault, want) {
		t.Errorf("recorded %+v %+v", e, e.Fault)
	}
}

func TestBurstOnTheWayThatHitsNothingIsVoid(t *testing.T) {
	f := faultOf("release_failures", fault.Failures{Aim: fault.Aim{All: true}, Mode: "error", Via: "proxy"})
	for _, c := range []struct {
		want int64
		does func(*redis.Client) // through the proxy, or not
		says string
	}{
		{1, func(*redis.Client) {}, "go round it"},
		{0, func(c *redis.Client) { c.Expire(t.Context(), "p:k", time.Second) }, "hit no release"},
		{2, func(c *redis.Client) { c.Del(t.Context(), "p:k") }, "1 of 2"},
	} {
		w := newWorld(t)
		client := w.tapped()
		w.shot, w.lasts = history.Event{Fault: &history.Fault{Want: c.want, Via: fault.ViaProxy}}, 20*time.Second
		x := w.prepare(f)
		applied, err := x.Inject(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.does(client)
		w.Tap.End(x.Rec.Shot.Op, "its time was up")
		if _, _, err = x.confirm(applied); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	if _, err := newWorld(t).prepared(f); err == nil {
		t.Error("a burst without its proxy was prepared")
	}
}

// A burst on the way that has most of its time to go is ended at once: by the runner, and at a lockdrill proxy by its record alone.
func TestABurstOnTheWayIsEndedEarly(t *testing.T) {
	for _, c := range rowsTried() {
		if f, is := c.spec.(*fault.Failures); !is || f.Via != fault.ViaProxy {
			continue
		}
		for _, by := range []string{"the runner", "its record"} {
			t.Run(c.name+", by "+by, func(t *testing.T) {
				w := newWorld(t)
				c.stand(w)
				if w.lasts = time.Hour; by == "its record" && w.API == "" {
					return // a tap is the runner's, and ends with it
				}
				s := w.prepare(c.spec)
				applied, err := s.Inject(t.Context())
				if err != nil || !w.look() {
					t.Fatalf("made: %v", err)
				}
				if by == "the runner" {
					_, err = s.Revert(t.Context())
				} else {
					err = s.elsewhere()
				}
				if err != nil || w.look() {
					t.Errorf("it goes on: %v", err)
				}
				if _, saw, err := s.confirm(applied); err != nil || saw.Hits != 1 {
					t.Errorf("it hit %d: %v", saw.Hits, err)
				}
			})
		}
	}
}
