package watching

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
)

// service is some system with locks, which the test plays until its context ends.
type service struct {
	t     *testing.T
	redis *redis.Client
}

func (s *service) set(ctx context.Context, key, value string, ttl time.Duration) {
	if err := s.redis.Set(ctx, key, value, ttl).Err(); err != nil && ctx.Err() == nil {
		s.t.Error(err)
	}
}

func (s *service) every(ctx context.Context, period time.Duration, do func(n int)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for n := 0; ; n++ {
		do(n)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// The watch of a running service: what it finds, what it says of each lock, and what it does to the server.
func TestAWatchSeesLocksAndWritesNothing(t *testing.T) {
	addr := redistest.Start(t)
	s := &service{t: t, redis: redis.NewClient(&redis.Options{Addr: addr})}
	t.Cleanup(func() { _ = s.redis.Close() })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const secret = "hunter2-hunter2"
	for _, key := range []string{"sched:list"} {
		testkit.Must(t, s.redis.RPush(ctx, key, "x").Err())
	}
	s.set(ctx, "sched:counter", "7", 0)
	s.set(ctx, "other:leader", "x", time.Minute)
	go s.every(ctx, 300*time.Millisecond, func(int) { s.set(ctx, "sched:renewed", secret, 2*time.Second) })
	go s.every(ctx, 300*time.Millisecond, func(int) { // as Redisson has it
		if err := s.redis.Eval(ctx, "redis.call('hset', KEYS[1], ARGV[1], 1) return redis.call('pexpire', KEYS[1], 3000)", []string{"sched:redisson"}, secret+":41").Err(); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	go s.every(ctx, 600*time.Millisecond, func(n int) { s.set(ctx, "sched:ttl-hold", fmt.Sprint("token", n), 300*time.Millisecond) })
	go s.every(ctx, 500*time.Millisecond, func(n int) {
		s.set(ctx, "sched:explicit", fmt.Sprint("token", n), 5*time.Second)
		time.AfterFunc(250*time.Millisecond, func() { s.redis.Del(ctx, "sched:explicit") })
	})
	go s.every(ctx, 200*time.Millisecond, func(n int) {
		key := fmt.Sprintf("sched:job:%04d", n)
		s.set(ctx, key, fmt.Sprint("token", n), 3*time.Second)
		time.AfterFunc(400*time.Millisecond, func() { s.redis.Del(ctx, key) })
	})

	before := writes(t, s.redis)
	var last State
	enough := func(r map[string]Row) bool {
		return r["sched:renewed"].Renewals >= 8 && r["sched:redisson"].Renewals >= 8 && r["sched:ttl-hold"].Expiries >= 3 && r["sched:ttl-hold"].Grants >= 3 && r["sched:explicit"].Releases >= 3 && r["sched:job:*"].Releases >= 8
	}
	watching, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	w, err := New(Options{Redis: experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + addr}, Patterns: []string{"sched:*"}, Clock: monotime.Now})
	testkit.Must(t, err)
	err = w.Watch(watching, func(s State) {
		if last = s; enough(rows(s)) {
			done()
		}
	})
	if err != nil || last.Failed > 0 {
		t.Fatalf("the watch failed: %v, %+v", err, last)
	}
	after := writes(t, s.redis)
	stop()

	got := rows(last)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"sched:explicit", "sched:job:*", "sched:redisson", "sched:renewed", "sched:ttl-hold"}) {
		t.Errorf("it shows %v", names)
	}
	for name, want := range map[string]struct {
		ttl, renew time.Duration
		mode       lockcore.LoopMode
	}{"sched:renewed": {2 * time.Second, 300 * time.Millisecond, lockcore.LoopRenewed}, "sched:redisson": {3 * time.Second, 300 * time.Millisecond, lockcore.LoopRenewed}, "sched:ttl-hold": {300 * time.Millisecond, 0, lockcore.LoopTTLHold},
		"sched:explicit": {5 * time.Second, 0, lockcore.LoopExplicit}, "sched:job:*": {3 * time.Second, 0, ""}} {
		r := got[name]
		if (r.TTL-want.ttl).Abs() > 60*time.Millisecond || (r.RenewEvery-want.renew).Abs() > 60*time.Millisecond || r.Mode() != want.mode {
			t.Errorf("%s: ttl %s, renewed every %s, %s; want %+v\n%s", name, r.TTL, r.RenewEvery, r.Mode(), want, r.Sum(last.Every))
		}
	}
	if text := fmt.Sprintf("%+v", last.Rows); strings.Contains(text, secret) || strings.Contains(text, "token") {
		t.Errorf("a value is shown: %s", text)
	}
	// The service wrote these; whatever else writes came of the watch.
	for command, n := range after {
		if n > before[command] && !slices.Contains([]string{"set", "del", "eval", "hset", "pexpire"}, command) {
			t.Errorf("the watch wrote: %s, %d times", command, n-before[command])
		}
	}
	data, err := draft.Draft{Processes: experiments.Processes{Match: "x", Log: "/tmp/x"}, Redis: experiments.Redis{URL: "redis://" + addr}, Locks: last.Draft()}.Text()
	if err != nil {
		t.Fatalf("no draft: %v", err)
	}
	e, err := experiments.Parse("draft.yaml", data)
	if err != nil || len(e.System.Locks) != 4 || !strings.Contains(string(data), "# - name: sched-job") || strings.Contains(string(data), secret) {
		t.Errorf("the draft: %v\n%s", err, data)
	}
}

func rows(s State) map[string]Row {
	all := map[string]Row{}
	for _, r := range s.Rows {
		all[r.Name] = r
	}
	return all
}

// writes counts the calls of each command that the server itself says may write.
func writes(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	stats, err := c.Info(t.Context(), "commandstats").Result()
	testkit.Must(t, err)
	commands, err := c.Command(t.Context()).Result()
	testkit.Must(t, err)
	out := map[string]int{}
	for line := range strings.Lines(stats) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		if !ok {
			continue
		}
		name, figures, _ := strings.Cut(rest, ":")
		base, _, _ := strings.Cut(name, "|")
		if info := commands[base]; info != nil && slices.Contains(info.Flags, "write") {
			var calls int
			if _, err := fmt.Sscanf(figures, "calls=%d,", &calls); err != nil {
				t.Fatal(err)
			}
			out[name] = calls
		}
	}
	return out
}

// late is a context whose time is over and that has not told yet, as a socket of the same deadline finds it.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

// A look that its socket cut off at the end of the watch is no failed one, though the context tells only a moment later.
func TestAWatchIsOverWhenItsTimeIs(t *testing.T) {
	long, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	ended, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"no end": {t.Context(), false}, "later": {long, false}, "stopped": {ended, true}, "not told yet": {late{t.Context()}, true},
	} {
		if got := over(c.ctx); got != c.want {
			t.Errorf("%s: over is %t", name, got)
		}
	}
}
