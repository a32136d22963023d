package holders

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// stated is a source that says what it is told to.
type stated struct {
	word string
	mu   sync.Mutex
	says []string
	asks int
}

func (s *stated) Word() string { return s.word }

func (s *stated) Ask(context.Context, Question) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	return Answer{Holders: s.says, Why: "it was not told"}
}

func (s *stated) say(who ...string) { s.mu.Lock(); defer s.mu.Unlock(); s.says = who }

// until asks until it is answered as wanted.
func until(t *testing.T, c *Chain, q Question, want witness.Named) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := c.Named(q)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("named %+v, want %+v", got, want)
		}
		runtime.Gosched()
	}
}

// The chain tries sources in their order, keeps what it knows of a token, and asks all of them again before a shot.
func TestAChainHoldsSourcesAgainstOneAnother(t *testing.T) {
	first, second := &stated{word: "metric"}, &stated{word: "command", says: []string{"r2.1"}}
	c := NewChain(monotime.Now, first, second)
	defer c.Close()
	q := Question{Lock: "l", Key: "k", Value: "token"}
	until(t, c, q, witness.Named{Holder: "r2.1", By: "command"})
	asks := second.asks
	for range 100 {
		c.Named(q)
	}
	if second.asks != asks {
		t.Errorf("asked %d times more of a token whose holder is known", second.asks-asks)
	}
	confirm := func(victim string, want history.VoidReason, words string) {
		t.Helper()
		err := c.Confirm(t.Context(), q, victim)
		if want == "" && err == nil {
			return
		}
		if v, ok := err.(*Void); !ok || v.Void() != want || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "token") {
			t.Errorf("confirm %s: %v, want %q with %q", victim, err, want, words)
		}
	}
	confirm("r2.1", "", "")
	confirm("r1.1", history.HolderDisputed, "said r1.1 before, and says r2.1 now")
	first.say("r1.1")
	confirm("r2.1", history.HolderDisputed, "metric says r1.1, command says r2.1")
	first.say("r1.1", "r2.1")
	second.say()
	confirm("r2.1", history.HolderDisputed, "metric says r1.1 and r2.1")
	first.say()
	confirm("r2.1", history.HolderUnknown, "metric: it was not told; command: it was not told")
	first.say("r1.1")
	q.Value = "another"
	until(t, c, q, witness.Named{Holder: "r1.1", By: "metric"})
	first.say("r1.1", "r2.1")
	q.Value = "a third"
	until(t, c, q, witness.Named{Disputed: "metric says r1.1 and r2.1"})
}

// A value that is a name is its next life's once the one before is gone, and nobody's while none lives: then it stays whose it was.
func TestAChainFollowsANameToItsNextLife(t *testing.T) {
	lives := fleet{two[0]}
	c := NewChain(monotime.Now, &Value{Lives: func() []Life { return lives }, Is: begins}, &stated{word: "command"})
	defer c.Close()
	q := Question{Lock: "l", Key: "k", Value: "sched-a"}
	for _, inc := range []string{"r1.1", "", "r1.2"} {
		if lives = nil; inc != "" {
			next := two[0]
			next.Incarnation = inc
			lives = fleet{next}
		}
		if got, want := c.Named(q), (witness.Named{Holder: cmp.Or(inc, "r1.1"), By: "value", Name: true}); got != want {
			t.Errorf("named %+v, want %+v", got, want)
		}
	}
}

// In the background the chain opens windows for a token that nobody else knows, and no other question waits for them.
func TestAChainFindsTheConnectionByItself(t *testing.T) {
	t.Parallel()
	c := startRedis(t)
	a := replica(t, c, "r1.1", "lock", "tok")
	s, costs := watcher(t, c, time.Second, fleet{a}.lives)
	chain := NewChain(monotime.Now, &Value{Lives: fleet{a}.lives, Is: begins}, s)
	defer chain.Close()
	q := Question{Lock: "l", Key: "lock", Value: "tok", Since: monotime.Now()}
	until(t, chain, q, witness.Named{Holder: "r1.1", By: "client"})
	if err := chain.Confirm(t.Context(), q, "r1.1"); err != nil {
		t.Error(err)
	}
	if n := len(costs()); n != 1 {
		t.Errorf("%d windows, want 1", n)
	}
}

// A proxy on the replicas' route says which connection carried the token: its listener's name, or its other end, leads to the replica.
func TestAProxySaysWhoCarriedTheToken(t *testing.T) {
	c := startRedis(t)
	p := tap.New(tap.Options{Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", c.Options().Addr)
	}, Clock: monotime.Now, Rules: tap.Rules{Keys: []string{"lock*"}}})
	t.Cleanup(func() { _ = p.Close() })
	addr, err := p.Listen("sched-b", "127.0.0.1:0")
	testkit.Must(t, err)
	api := httptest.NewServer(p.API())
	t.Cleanup(api.Close)
	way := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = way.Close() })
	life := replica(t, way, "r7.1", "lock", "tok")
	lives := append(slices.Clone(two), life)
	for deadline := time.Now().Add(10 * time.Second); len(p.Carriers("lock")) == 0; runtime.Gosched() { // it has the key before its first command is seen whole
		if time.Now().After(deadline) {
			t.Fatal("the proxy has seen no token of the key")
		}
	}
	for _, s := range []struct {
		is          Fits
		value, want string
	}{{begins, "tok", "[r2.1]"}, {nil, "tok", "[r7.1]"}, {begins, "other", "[]"}} {
		got := NewProxy(api.URL, s.is, lives.lives).Ask(t.Context(), Question{Key: "lock", Value: s.value})
		if fmt.Sprint(got.Holders) != s.want || len(got.Holders) == 0 && got.Why == "" {
			t.Errorf("%+v: %v (%s)", s, got.Holders, got.Why)
		}
	}
}
