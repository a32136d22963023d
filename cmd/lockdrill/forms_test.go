package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Every document comes as text, as Markdown, as a page and as data, with the same status: a figure of the text stands in both others.
func TestEveryDocumentHasItsForms(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	for args, figure := range map[string]string{
		"plan first-drill --hash --verbose":                                             "gives up ttl 1s - drift 10ms",
		"tune --profile cordum/scheduler-job":                                           "over ttl 60s",
		"tune --p99 18s --jitter 4s --guard 2s --takeover 30s --seeds 1":                "= 22.64s, under ttl 24s",
		"rehearse first-drill --seeds 2":                                                "470ms to 1.62s by the timings",
		"rehearse first-drill --seeds 1 --sweep rate=6/s..7/s,steps=2,finer=0":          "of lock job from 6/s to 7/s",
		"history runs/base":                                                             "3 runs",
		"history --pool runs/base":                                                      "3 runs together",
		"compare base head --slo takeover --allow-different=system.locks.leader.policy": "base 3 runs",
	} {
		text := tryIn(t, dir, strings.Fields(args)...)
		if !strings.Contains(strings.Join(strings.Fields(text.stdout), " "), figure) {
			t.Errorf("%s: no %q in\n%s%s", args, figure, text.stdout, text.stderr)
		}
		for form, opens := range map[string]string{"md": "#", "html": "<!doctype html>"} {
			got := tryIn(t, dir, append(strings.Fields(args), "-f", form)...)
			if got.code != text.code || !strings.HasPrefix(got.stdout, opens) || !strings.Contains(strings.NewReplacer(`\`, "", "**", "").Replace(got.stdout), figure) {
				t.Errorf("%s -f %s: status %d, want %d; no %q at the start, or no %q in\n%s%s", args, form, got.code, text.code, opens, figure, got.stdout, got.stderr)
			}
			if strings.Contains(args, "--hash") && (!strings.Contains(got.stdout, "--plan sha256:") || !strings.Contains(got.stdout, "ttl: 1s")) {
				t.Errorf("%s -f %s: no hash, or no policy", args, form)
			}
		}
		if got := tryIn(t, dir, append(strings.Fields(args), "-f", "json")...); got.code != text.code || !json.Valid(bytes.TrimSpace([]byte(got.stdout))) {
			t.Errorf("%s -f json: status %d, want %d: %s", args, got.code, text.code, got.stdout)
		}
	}
}
