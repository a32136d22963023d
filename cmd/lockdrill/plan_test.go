package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores"
)

// A plan makes nothing: no folder, no process, no key; and it never says how a run would come out.
func TestAPlanTouchesNothing(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx := context.Background()
	must(t, client.Set(ctx, stores.EnvironmentKey, "staging", 0).Err())
	must(t, client.Set(ctx, "the-loop", "hunter2-token", time.Hour).Err())
	before, err := client.Info(ctx, "commandstats").Result()
	must(t, err)
	dir := guarded(t, "environment: staging\nredis: {mode: external, url: \"redis://"+addr+"\"}\n")
	got := tryIn(t, dir, "plan", "guarded.yaml", "--confirm", "guarded")
	if got.code != verdict.ExitPass || got.stderr != "" {
		t.Errorf("status %d, says %q", got.code, got.stderr)
	}
	says(t, got.stdout, "whoever holds loop then", lockcore.Fingerprint("hunter2-token"), "for another", "lockdrill:<run>:the-loop", "staging")
	for _, never := range []string{"PASS", "hunter2"} {
		if strings.Contains(got.stdout, never) {
			t.Errorf("the plan says %s:\n%s", never, got.stdout)
		}
	}
	onlyFile(t, dir, "guarded.yaml")
	if pids := ofRun(dir); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	after, err := client.Info(ctx, "commandstats").Result()
	must(t, err)
	for _, command := range commands(after) {
		switch command {
		case "get", "pttl", "evalsha_ro", "eval_ro", "time", "hello", "client|setinfo", "client|maint_notifications", "auth", "select", "ping", "info", "type", "acl|whoami", "acl|dryrun":
		default:
			if !strings.Contains(before, "cmdstat_"+command+":") {
				t.Errorf("the plan has sent %s", command)
			}
		}
	}
	if n, err := client.DBSize(ctx).Result(); err != nil || n != 2 {
		t.Errorf("%d keys (%v), want the two that were there", n, err)
	}
}

// commands are those that INFO commandstats counts.
func commands(stats string) []string {
	var all []string
	for line := range strings.Lines(stats) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":"); ok && strings.HasPrefix(line, "cmdstat_") {
			all = append(all, name)
		}
	}
	return all
}
