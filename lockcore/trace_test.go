package lockcore_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

var update = flag.Bool("update", false, "rewrite the expected lines of testdata/*.txt")

// TestTraces plays testdata/*.txt. A line is an input, the lines with ">" below it are what the machine does:
//
//	policy NAME=VALUE ...     a new machine; what is not named is as in tracePolicy
//	TIME start | stop | leave | giveup | tick
//	TIME reply CALL RESULT [fence=N] [pttl=D]
//	TIME run HOW              until TIME: tick when due; calls are answered HOW after 1ms, or "hang" until their deadline
//	TIME clocks boot=D wall=D from now on these clocks are so far ahead of Mono
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if got == string(want) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("the machine does otherwise (-update rewrites the file):\n%s", firstDifference(string(want), got))
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

func tracePolicy() lockcore.Policy {
	return lockcore.Policy{
		TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Class: lockcore.Standard, OpTimeout: time.Second,
		Drift: 100 * time.Millisecond, StopBudget: 900 * time.Millisecond,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second},
	}
}

// trace is one file being played.
type trace struct {
	t          *testing.T
	out        strings.Builder
	m          *lockcore.Machine
	mono       time.Duration
	boot, wall time.Duration // ahead of mono
	calls      map[int]lockcore.Call
	open       int // the last call, until it is answered
}

func play(t *testing.T, text string) string {
	p := &trace{t: t}
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, ">") {
			continue
		}
		p.out.WriteString(line + "\n")
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			p.line(words)
		}
	}
	return p.out.String()
}

func (p *trace) line(words []string) {
	if words[0] == "policy" {
		policy := tracePolicy()
		for _, w := range words[1:] {
			setPolicy(p.t, &policy, w)
		}
		if err := policy.Validate(); err != nil {
			p.t.Fatalf("%v: %v", words, err)
		}
		p.m, p.calls, p.open = lockcore.NewMachine(policy), map[int]lockcore.Call{}, 0
		p.mono, p.boot, p.wall = 0, 0, 0
		return
	}
	at := p.duration(words[0])
	switch words[1] {
	case "run":
		p.run(at, words[2])
	case "clocks":
		for _, w := range words[2:] {
			name, value, _ := strings.Cut(w, "=")
			*map[string]*time.Duration{"boot": &p.boot, "wall": &p.wall}[name] = p.duration(value)
		}
		p.mono = at
	case "reply":
		in := lockcore.Input{Kind: lockcore.Reply, Call: p.number(words[2]), Result: lockcore.Result(words[3])}
		for _, w := range words[4:] {
			name, value, _ := strings.Cut(w, "=")
			if name == "fence" {
				in.Fence = int64(p.number(value))
			} else {
				in.PTTL = p.duration(value)
			}
		}
		p.step(at, in)
	default:
		p.step(at, lockcore.Input{Kind: lockcore.InputKind(words[1])})
	}
	if next, ok := p.m.Next(); ok {
		fmt.Fprintf(&p.out, "> next %s\n", next)
	}
}

// run plays a driver and a store that always answers alike.
func (p *trace) run(until time.Duration, how string) {
	for range 1000 {
		at, ok := p.m.Next()
		in := lockcore.Input{Kind: lockcore.Tick}
		if c, waits := p.calls[p.open]; waits {
			answered, result := p.mono+time.Millisecond, lockcore.Result(how)
			if how == "hang" {
				answered, result = c.Deadline, lockcore.Unknown
			}
			if !ok || answered <= at {
				at, ok = answered, true
				in = lockcore.Input{Kind: lockcore.Reply, Call: c.ID, Result: result, Fence: 1, PTTL: time.Minute}
			}
		}
		if !ok || at > until {
			p.mono = until
			return
		}
		p.step(at, in)
	}
	p.t.Fatalf("run until %s: the machine does not let time pass", until)
}

func (p *trace) step(at time.Duration, in lockcore.Input) {
	p.mono = at
	if in.Kind == lockcore.Reply {
		delete(p.calls, in.Call)
	}
	in.Rand = 0.5
	now := lockcore.Instant{Mono: at, Boot: at + p.boot, Wall: at + p.wall}
	for _, a := range p.m.Step(now, in, nil) {
		if a.Kind == lockcore.ActDo {
			p.calls[a.Call.ID], p.open = a.Call, a.Call.ID
		}
		fmt.Fprintf(&p.out, "> %s %s\n", at, describe(a))
	}
}

func describe(a lockcore.Action) string {
	s := string(a.Kind)
	if a.Kind == lockcore.ActDo {
		s += fmt.Sprintf(" %s call=%d epoch=%d try=%d by=%s", a.Call.Op, a.Call.ID, a.Call.Epoch, a.Call.Attempt, a.Call.Deadline)
	}
	for _, f := range []struct {
		name, value string
		set         bool
	}{
		{"ttl", a.Call.TTL.String(), a.Call.TTL != 0},
		{"fence", strconv.FormatInt(a.Fence, 10), a.Fence != 0},
		{"result", string(a.Result), a.Result != ""},
		{"reason", string(a.Reason), a.Reason != ""},
		{"failures", strconv.Itoa(a.Failures), a.Failures != 0},
		{"working", "yes", a.Working},
	} {
		if f.set {
			s += " " + f.name + "=" + f.value
		}
	}
	return s
}

func (p *trace) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *trace) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// setPolicy sets one field by its short name.
func setPolicy(t *testing.T, p *lockcore.Policy, word string) {
	name, value, _ := strings.Cut(word, "=")
	durations := map[string]*time.Duration{
		"ttl": &p.TTL, "every": &p.RenewEvery, "op": &p.OpTimeout, "drift": &p.Drift, "stop": &p.StopBudget,
		"acquire.timeout": &p.Acquire.Timeout, "acquire.budget": &p.Acquire.Budget,
		"backoff": &p.Acquire.Backoff.Every, "backoff.cap": &p.Acquire.Backoff.Cap, "release.timeout": &p.Release.Timeout,
	}
	ints := map[string]*int{"max": &p.MaxFailures, "release.attempts": &p.Release.Attempts}
	switch d, n := durations[name], ints[name]; {
	case d != nil:
		v, err := time.ParseDuration(value)
		if err != nil {
			t.Fatal(err)
		}
		*d = v
	case n != nil:
		v, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		*n = v
	case name == "undo":
		p.Acquire.Undo = lockcore.UndoMode(value)
	case name == "on_error":
		p.Acquire.OnError = lockcore.OnError(value)
	case name == "last_try":
		p.Acquire.LastTry = lockcore.LastTry(value)
	case name == "class":
		p.Class = lockcore.Class(value)
	case name == "acquire":
		p.Acquire.Mode = lockcore.AcquireMode(value)
		p.Acquire.Backoff.Mode = lockcore.BackoffFixed
	case name == "backoff.mode":
		p.Acquire.Backoff.Mode = lockcore.BackoffMode(value)
	case name == "release":
		p.Release.Mode = lockcore.ReleaseMode(value)
	case name == "retry":
		p.Release.Retry = lockcore.ReleaseRetry(value)
	case name == "after":
		p.Release.AfterAbandon = lockcore.AfterAbandon(value)
	default:
		t.Fatalf("policy has no %q", name)
	}
}
