package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// diary is what the electors wrote, in its order, as they say themselves: the truth.
type diary struct {
	clock func() int64
	mu    sync.Mutex
	lines []written
}

// written is a record that was written within at.
type written struct {
	holder string
	at     history.Span
	unsure bool // cut off by the elector's end: the API server may have written it, then or later
}

// stamped is a lock whose writes stand in the diary.
type stamped struct {
	resourcelock.Interface
	diary *diary
}

func (s *stamped) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.diary.write(r, func() error { return s.Interface.Create(ctx, r) })
}

func (s *stamped) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.diary.write(r, func() error { return s.Interface.Update(ctx, r) })
}

func (d *diary) write(r resourcelock.LeaderElectionRecord, do func() error) error {
	w := written{holder: r.HolderIdentity, at: history.At(d.clock())}
	err := do()
	w.at.To, w.unsure = d.clock(), errors.Is(err, context.Canceled)
	if err == nil || w.unsure {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lines = append(d.lines, w)
	}
	return err
}

// electedFor is the electors' lease: an API server that a busy machine holds up for seconds ends no election.
const electedFor = 6 * time.Second

// elector runs client-go's election under a name until the returned function ends it and has waited for it.
func (d *diary) elector(t *testing.T, env *kubetest.Env, name string, release bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &stamped{&resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Name: "leader", Namespace: "default"}, Client: env.Client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			}, d},
			LeaseDuration: electedFor, RenewDeadline: electedFor * 3 / 4, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: release,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// What client-go writes is seen, every single record in its order and in a bracket that holds the truth, however often the way to the
// API server is cut; and no lease ends, by the looks, after a contender that waited for its end has it.
func TestKubeLeasesOfClientGo(t *testing.T) {
	env := kubetest.Start(t, kubetest.Options{NoNode: true})
	way := env.Listener(env.Kubeconfig)
	cluster, err := kube.Open(kube.Options{Kubeconfig: way.Kubeconfig, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	clock := func() int64 { return int64(time.Since(begun)) }
	p := NewNamed(cluster, map[string]string{"leader": "leader"}, pods(map[string]string{"web-1": "r1.1", "web-2": "r2.1"}), clock)
	t.Cleanup(func() { _ = p.Close() })
	var seen []history.Event
	// await looks until the lock is as wanted, and returns the look that showed it and the one before.
	await := func(what string, is func(*history.Look) bool) (found, before history.Event) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
			report, err := p.Look(t.Context(), false)
			if err != nil { // the way is cut
				continue
			}
			news := report(history.Span{})
			for i, e := range news {
				if err := e.Check(); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, e)
				if is(e.Look) {
					seen = append(seen, news[i+1:]...)
					return e, seen[len(seen)-len(news[i:])-1]
				}
			}
		}
		t.Fatalf("never %s; seen %+v", what, seen)
		return
	}
	held := func(by string) func(*history.Look) bool { return func(l *history.Look) bool { return l.Holder == by } }
	renewed := func(times int) func(*history.Look) bool {
		return func(*history.Look) bool { times--; return times == 0 }
	}
	if _, err := p.Look(t.Context(), false); err != nil { // there is no object yet
		t.Fatal(err)
	}
	seen = append(seen, history.Event{})
	d := &diary{clock: clock}
	crash := d.elector(t, env, "web-1_a", false)
	first, _ := await("held by r1.1", held("r1.1"))
	if last, _ := await("renewed", renewed(5)); last.Epoch != first.Epoch || last.Look.PTTL != int64(electedFor) || last.Look.Slack < 0 || last.Look.Slack > int64(electedFor) {
		t.Errorf("renewed: %+v %+v", last, last.Look)
	}
	leave := d.elector(t, env, "web-2_b", true)
	crash()
	second, before := await("taken over", held("r2.1"))
	early, late := before.From+before.Look.PTTL-before.Look.Slack, before.To+before.Look.PTTL
	if second.Epoch == first.Epoch || before.Look.Holder != "r1.1" || early > second.To {
		t.Errorf("taken over at %v, and the lease ended not before %d", second.Span, early)
	}
	if behind := time.Duration(second.From - late); behind > 10*time.Second {
		t.Errorf("taken over %s after the lease's end", behind)
	}
	way.Cut(false)
	await("renewed", renewed(5))
	way.Shut()
	d.elector(t, env, "web-1_c", true)
	leave() // and what follows, nobody sees while it is so
	for !slices.ContainsFunc(d.read(), func(w written) bool { return w.holder == "web-1_c" }) && time.Since(begun) < time.Minute {
		<-time.After(10 * time.Millisecond)
	}
	way.Open()
	third, released := await("handed over", held("r1.1"))
	if !released.Look.Released || !third.Look.Direct || third.Epoch == first.Epoch {
		t.Errorf("handed over: %+v, %+v", released.Look, third.Look)
	}
	d.agree(t, seen[1:])
}

func (d *diary) read() []written {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// agree holds what was seen against what was written: all of it up to the last look, one by one.
func (d *diary) agree(t *testing.T, seen []history.Event) {
	t.Helper()
	lines := d.read()
	if len(seen) < 10 {
		t.Fatalf("%d changes were seen, %d made", len(seen), len(lines))
	}
	for i, e := range seen {
		if len(lines) > 1 && lines[0].unsure && lines[0].holder != e.Look.Named {
			lines = lines[1:] // the last of an elector that ended: it was not written
		}
		if len(lines) == 0 {
			t.Fatalf("%d changes were seen, %d made", len(seen), i)
		}
		w := lines[0]
		lines = lines[1:]
		if e.Look.Named != w.holder || e.From > w.at.To && !w.unsure || e.To < w.at.From || e.Look.Prev != nil && !e.Look.Direct {
			t.Errorf("change %d: %q within %v, seen as %q within %v after %v, direct %t", i, w.holder, w.at, e.Look.Named, e.Span, e.Look.Prev, e.Look.Direct)
		}
	}
}
