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
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

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
		x := steps(&fault.Failures{Of: lockcore.OpRenew}, &Reach{Send: untold, Await: c.events.await})
		window, seen, err := x.Confirm(t.Context(), undo.Record{Shot: shot}, history.At(1))
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
		kind  string
		fault fault.Failures
		shot  history.Event
		want  protocol.Arm
		armed []string
	}{
		{"renew_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "lost_reply", Share: 0.5}, history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Victim: "r1.1"}},
			protocol.Arm{Spec: burst.Spec{Op: "renew", Mode: "lost_reply", Share: 0.5, Lock: "job", Key: "k"}}, []string{"r1.1"}},
		{"acquire_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "delay", Delay: 3}, history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Victim: "r1.1"}},
			protocol.Arm{Spec: burst.Spec{Op: "acquire", Mode: "delay", Delay: 3, Lock: "job"}}, []string{"r1.1"}},
		{"release_failures", fault.Failures{Aim: fault.Aim{All: true}, Lock: "other", Mode: "error"}, history.Event{Fault: &history.Fault{Victims: []string{"r1.1", "r2.1"}}},
			protocol.Arm{Spec: burst.Spec{Op: "release", Mode: "error", Lock: "other"}}, []string{"r1.1", "r2.1"}},
	} {
		f := faultOf(c.kind, c.fault)
		var armed, disarmed []string
		var got protocol.Arm
		x := steps(f, &Reach{
			Clock: func() int64 { return 7 }, Await: both.await,
			Send: func(who string, cmd protocol.Command) error {
				if cmd.Cmd == protocol.CmdArm {
					armed, got = append(armed, who), *cmd.Arm
				} else if *cmd.Disarm == (protocol.Disarm{Fault: "b", Shot: 1}) {
					disarmed = append(disarmed, who)
				}
				return nil
			},
		})
		c.shot.Op = "b#1"
		c.shot.Fault.ID, c.shot.Fault.Shot, c.shot.Fault.Kind, c.shot.Fault.Want, c.shot.Fault.Declared = "b", 1, c.kind, 3, 9
		rec := undo.Record{Shot: c.shot}
		if _, err := x.Inject(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		c.want.Fault, c.want.Shot, c.want.Count, c.want.For = "b", 1, 3, 9
		if !reflect.DeepEqual(got, c.want) || !slices.Equal(armed, c.armed) {
			t.Errorf("%s: armed %v with %+v, want %v with %+v", c.kind, armed, got, c.armed, c.want)
		}
		if span, err := x.Revert(t.Context(), rec); err != nil || span != history.At(20) || !slices.Equal(disarmed, c.armed) {
			t.Errorf("%s: reverted at %v: %v; disarmed %v", c.kind, span, err, disarmed)
		}
		x.Await = recorded{burstOver("r2.1", "b#1", 0)}.await
		if _, err := x.Revert(t.Context(), rec); err == nil {
			t.Errorf("%s: a burst that r1.1 does not say is over was reported as reverted", c.kind)
		}
		x.Send = func(string, protocol.Command) error { return errors.New("gone") }
		if _, err := x.Inject(t.Context(), rec); voidOf(err) != "moved" {
			t.Errorf("%s: nobody is there: %v", c.kind, err)
		}
	}
}

func faultOf(kind string, b fault.Failures) fault.Spec {
	b.Of = lockcore.Op(strings.TrimSuffix(kind, "_failures"))
	return &b
}

// onTheWay is an injector with a tap in front of a real Redis, and a client that goes through it as r1.
func onTheWay(t *testing.T, f fault.Spec) (x *stepping, c *redis.Client, events *[]history.Event) {
	t.Helper()
	addr := redistest.Start(t)
	events = &[]history.Event{}
	x = steps(f, &Reach{
		Clock: monotime.Now,
		Glob:  func(_, key string) string { return "p:" + key + "*" },
		Bare:  func(name string) (string, string) { return "job", strings.TrimPrefix(name, "p:") },
	})
	x.Write = func(e history.Event) error { *events = append(*events, e); return nil } // the tap calls it one by one
	x.Tap = tap.New(tap.Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		Clock: monotime.Now, OnHit: x.Reach.Hit,
	})
	t.Cleanup(func() { _ = x.Tap.Close() })
	way, err := x.Tap.Listen("r1", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = redis.NewClient(&redis.Options{Addr: way, MaxRetries: -1, ReadTimeout: 300 * time.Millisecond, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return x, c, events
}

func wayShot(kind string, want int64, declared time.Duration) history.Event {
	return history.Event{Op: "b#1", Lock: "job", Key: "k", Fault: &history.Fault{
		ID: "b", Shot: 1, Kind: kind, Victim: "r1.2", Want: want, Declared: int64(declared), Via: fault.ViaProxy,
	}}
}

func TestBurstOnTheWayIsFeltCountedAndEnds(t *testing.T) {
	f := faultOf("renew_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "timeout", Via: "proxy"})
	x, c, events := onTheWay(t, f)
	rec := undo.Record{Shot: wayShot("renew_failures", 2, 20*time.Second)}
	ctx := t.Context()
	if _, err := x.Prepare(ctx, rec.Shot); err != nil {
		t.Fatal(err)
	}
	applied, err := x.Inject(ctx, rec)
	if err != nil {
		t.Fatal(err)
	}
	renew := redis.NewScript(`return redis.call("pexpire", KEYS[1], ARGV[2])`)
	patient := redis.NewClient(&redis.Options{Addr: c.Options().Addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: 20 * time.Second})
	defer patient.Close()
	for _, key := range []string{"p:k", "other"} {
		if err := patient.Set(ctx, key, "token", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	felt := 0
	for range 3 {
		if err := renew.Eval(ctx, c, []string{"p:k"}, "token", 1000).Err(); err != nil {
			felt++
		}
	}
	if err := renew.Eval(ctx, patient, []string{"other"}, "token", 1000).Err(); err != nil {
		t.Errorf("another key was struck: %v", err)
	}
	window, seen, err := x.Confirm(ctx, rec, applied)
	if err != nil || seen.Hits != 2 || felt < 2 || window.From < applied.From || window.To < window.From {
		t.Errorf("%v: %+v, felt %d, window %v after %v", err, seen, felt, window, applied)
	}
	if span, err := x.Revert(ctx, rec); err != nil || span.To < window.To {
		t.Errorf("reverted at %v: %v", span, err)
	}
	if span, err := x.Revert(ctx, rec); err != nil || span.To == 0 {
		t.Errorf("again: %v, %v", span, err)
	}
	_ = x.Tap.Close() // nothing is recorded any more
	if len(*events) != 2 {
		t.Fatalf("%d hits were recorded", len(*events))
	}
	e := (*events)[1]
	want := history.Fault{ID: "b", Shot: 1, Kind: "renew_failures", Victim: "r1.2", Want: 2, Hits: 2, Declared: int64(20 * time.Second), Via: "proxy"}
	if e.Op != "b#1" || e.Source != "runner" || e.Lock != "job" || e.Key != "k" || e.Epoch != lockcore.Fingerprint("token") || !reflect.DeepEqual(*e.Fault, want) {
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
		x, client, _ := onTheWay(t, f)
		rec := undo.Record{Shot: wayShot("release_failures", c.want, 20*time.Second)}
		applied, err := x.Inject(t.Context(), rec)
		if err != nil {
			t.Fatal(err)
		}
		c.does(client)
		x.Tap.End(rec.Shot.Op, "its time was up")
		_, _, err = x.Confirm(t.Context(), rec, applied)
		if voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	if _, err := steps(f, &Reach{}).Prepare(t.Context(), wayShot("release_failures", 1, 1)); err == nil {
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
