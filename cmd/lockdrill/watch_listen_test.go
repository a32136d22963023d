package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A watch of a service in which a leader dies shows to whoever scrapes it who holds, how the lease ended and how long nobody held, and every
// series that a panel of its dashboard asks for. It shows no value but the holder's name in it. On which of them an alert fires is the tests' of
// package deploy, by promtool.
func TestAWatchIsScraped(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = c.Close() })
	at := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	var said bytes.Buffer
	watch := lockdrill("watch", "--redis", "redis://"+c.Options().Addr, "--keys", "sched:*", "--holder", `^(?P<holder>s\d)`, "--listen", at)
	watch.Stderr = &said
	must(t, watch.Start())
	t.Cleanup(func() { _ = watch.Process.Kill() })
	page := ""
	shows := func(series string) func() bool {
		return func() bool {
			_, page = got(t, "http://"+at+"/metrics")
			return strings.Contains(page, "\n"+series+"\n")
		}
	}
	lead := func(value string, ttl time.Duration) {
		must(t, c.Set(t.Context(), "sched:leader", value, ttl).Err())
	}
	until(t, "the watch", func() bool { code, _ := got(t, "http://"+at+"/metrics"); return code == http.StatusOK })
	lead("s1:hunter2", 2*time.Second)
	until(t, "who leads", shows(`lockdrill_watch_holders{holder="s1",lock="sched:leader"} 1`))
	until(t, "the end of its lease", shows(`lockdrill_watch_leases_ended_total{how="ran_out",lock="sched:leader"} 1`))
	gone := time.Now()
	until(t, "a while without a leader", func() bool { return time.Since(gone) > time.Second })
	lead("s2:hunter2", time.Minute)
	took, dead, led := shows(`lockdrill_watch_takeover_seconds_count{bound="hi",lock="sched:leader"} 1`), false, 0
	until(t, "the takeover", func() bool {
		switch since := time.Since(gone); {
		case took():
			return true
		case dead && since > 2*time.Second:
			led, dead = led+1, false
			lead(fmt.Sprintf("s2:hunter2-%d", led), time.Minute)
		case !dead && since > 8*time.Second: // one that a look came too late for is not told: this leader dies, too
			gone, dead = time.Now(), true
			lead(fmt.Sprintf("s2:hunter2-%d", led), 500*time.Millisecond)
		}
		return false
	})
	until(t, "the next who leads", shows(`lockdrill_watch_holders{holder="s2",lock="sched:leader"} 1`))
	if strings.Contains(page, "hunter2") {
		t.Errorf("values are shown:\n%s", page)
	}
	for _, m := range regexp.MustCompile(`lockdrill_watch_\w+`).FindAllString(try(t, "export", "dashboard", "--metrics", "watch").stdout, -1) {
		if !strings.Contains(page, "\n"+m+"{") && !strings.Contains(page, "\n"+m+" ") {
			t.Errorf("a panel asks for %s, and there is none", m)
		}
	}
	_ = watch.Process.Signal(os.Interrupt)
	if err := watch.Wait(); err != nil || !strings.Contains(said.String(), "metrics at http://"+at+"/metrics") {
		t.Errorf("the watch ended with %v: %s", err, said.String())
	}
}

// A key with a line break in it stays one row.
func TestWatchTableKeepsAKeyOnItsLine(t *testing.T) {
	s := &watching.State{Rows: make([]watching.Row, 1)}
	s.Rows[0].Name = "two\nlines"
	if text := watchTable(s); strings.Count(text, "\n") != 3 || !strings.Contains(text, "two") || !strings.Contains(text, "lines") {
		t.Errorf("%q", text)
	}
}
