package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// promSays is what a Prometheus answers to a query: values by their labels, as PromQL writes these.
func promSays(t *testing.T, server, query string) map[string]float64 {
	t.Helper()
	code, body := got(t, server+"/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", query, code, err, body)
	}
	all := map[string]float64{}
	for _, r := range answer.Data.Result {
		delete(r.Metric, "__name__")
		delete(r.Metric, "instance")
		delete(r.Metric, "job")
		f, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(fmt.Sprint(r.Metric), "map")] = f
	}
	return all
}

// A real Prometheus scrapes a watch of a service in which a leader dies, with the rules that are exported for it: it knows who holds, how long
// nobody did, and raises the alert. The watch writes nothing to the locks, and shows no value but the holder's name in it.
func TestAPrometheusScrapesAWatch(t *testing.T) {
	t.Parallel()
	addr, dir := redistest.Start(t), t.TempDir()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	_ = free.Close()
	var said bytes.Buffer
	watch := lockdrill("watch", "--redis", "redis://"+addr, "--keys", "sched:*", "--holder", `^(?P<holder>s\d)`, "--listen", at)
	watch.Stderr = &said
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- watch.Wait() }()
	t.Cleanup(func() { _ = watch.Process.Kill() })
	rules := tryIn(t, dir, "export", "alerts", "--metrics", "watch", "-o", "rules.yaml")
	if rules.code != verdict.ExitPass {
		t.Fatalf("%+v", rules)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), []byte("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n- {job_name: locks, static_configs: [{targets: ['"+at+"']}]}\n"))
	server := promtest.Prometheus(t, dir).URL

	const ttl = 1500 * time.Millisecond
	lead := func(ctx context.Context, value string) { // until ctx ends: then it dies
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for ctx.Err() == nil {
			_ = c.Set(ctx, "sched:leader", value, ttl).Err() // what nobody holds fails the test below
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
	first, die := context.WithCancel(t.Context())
	t.Cleanup(die)
	go lead(first, "s1:hunter2")
	until(t, "prometheus to see who leads", func() bool {
		code, _ := got(t, server+"/-/ready")
		return code == http.StatusOK && promSays(t, server, "lockdrill_watch_holders")["[holder:s1 lock:sched:leader]"] == 1
	})
	die()
	until(t, "the lease to run out", func() bool { n, err := c.Exists(t.Context(), "sched:leader").Result(); return err == nil && n == 0 })
	gone := time.Now()
	until(t, "a while without a leader", func() bool { return time.Since(gone) > time.Second })
	second, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	go lead(second, "s2:hunter2")
	until(t, "prometheus to know of the takeover", func() bool {
		return promSays(t, server, `lockdrill_watch_takeover_seconds_count{bound="hi"}`)["[bound:hi lock:sched:leader]"] == 1
	})
	if n := promSays(t, server, "lockdrill_watch_leases_ended_total > 0"); len(n) != 1 || n["[how:ran_out lock:sched:leader]"] != 1 {
		t.Errorf("ends of leases: %v", n)
	}
	until(t, "the alert", func() bool {
		return promSays(t, server, `ALERTS{alertname="LockLeaseRanOut",alertstate="firing"}`) != nil && len(promSays(t, server, `ALERTS{alertname="LockLeaseRanOut",alertstate="firing"}`)) == 1
	})
	if n := promSays(t, server, `count({__name__=~"lockdrill_watch_.*",lock=~".*hunter2.*|s1.*"} or {__name__=~"lockdrill_watch_.*",holder=~".*hunter2.*"})`); len(n) > 0 {
		t.Errorf("values are shown: %v", n)
	}
	// Each series that a panel asks for is there.
	board := tryIn(t, dir, "export", "dashboard", "--metrics", "watch")
	for _, m := range regexp.MustCompile(`lockdrill_watch_\w+`).FindAllString(board.stdout, -1) {
		if len(promSays(t, server, m)) == 0 {
			t.Errorf("a panel asks for %s, and there is none", m)
		}
	}
	_ = watch.Process.Signal(os.Interrupt)
	if err := <-ended; err != nil || !strings.Contains(said.String(), "metrics at http://"+at+"/metrics") {
		t.Errorf("the watch ended with %v: %s", err, said.String())
	}
}

func TestWatchListenRefuses(t *testing.T) {
	t.Parallel()
	misused(t, t.TempDir(), "watch --redis redis://127.0.0.1:1 --keys x", map[string]string{
		"--holder ^(?P<holder>a)":             "so say --listen too",
		"--listen 127.0.0.1:0 --holder ^a":    "want a group (?P<holder>...)",
		"--listen 127.0.0.1:0 --holder ^(":    "--holder: error parsing regexp",
		"--listen 127.0.0.1:0 --draft x.yaml": "--listen and --draft: one at a time",
		"--listen 127.0.0.1:0 -f json":        "--listen and -f json: one at a time",
		"--listen nowhere":                    "--listen: listen tcp",
		"--listen 127.0.0.1:0":                "watch: ",
	})
	misused(t, t.TempDir(), "export watch", map[string]string{
		"--image a/b --redis redis://r:6379":                         "which keys? Say --keys",
		"--image a/b --keys x":                                       "--keys: of which Redis?",
		"--image a/b":                                                "where are the locks?",
		"--image a/b --redis redis://u:p@r:6379 --keys x":            "--redis: ",
		"--redis redis://r:6379 --keys x":                            "--image names the image",
		"--image a/b -n shop --holder x":                             "want a group (?P<holder>...)",
		"--image a/b -n s --redis redis://r:6379 --keys x --lease y": "--redis and --lease: one at a time",
	})
}
