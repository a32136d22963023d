package work

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

func TestTapes(t *testing.T) {
	for _, tt := range tapes {
		m, now := New(tt.spec, func() float64 { return 0.5 }), time.Duration(0)
		for i, line := range strings.Split(strings.TrimSpace(tt.tape), "\n") {
			in, want, _ := strings.Cut(line, "->")
			input := read(t, in, &now)
			if got := show(m.Step(now, input)); got != strings.TrimSpace(want) {
				t.Errorf("%s, line %d: %s -> %s, want %s", tt.name, i+1, strings.TrimSpace(in), got, strings.TrimSpace(want))
				break
			}
		}
	}
}

var kinds = map[string]Kind{
	"start": Start, "granted": Granted, "refusal": Refusal, "lost": Lost, "timer": Timer, "written": Written, "read": Read,
	"halted": Halted, "released": Released, "quit": Quit,
}

// read gives the input of a line, and the time that "@" names.
func read(t *testing.T, text string, now *time.Duration) Input {
	t.Helper()
	words := strings.Fields(text)
	name, at, timed := strings.Cut(words[0], "@")
	kind, known := kinds[name]
	if !known {
		t.Fatalf("input %q is not known", name)
	}
	if timed {
		d, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		*now = d
	}
	in := Input{Kind: kind, Receipt: lockcore.Receipt{Accepted: true}}
	for _, w := range words[1:] {
		switch w {
		case "over":
			in.Over = true
		case "held":
			in.Held = true
		case "busy":
			in.Busy = true
		case "unknown":
			in.Unknown, in.Receipt = true, lockcore.Receipt{}
		case "applied":
			in.Applied = true
		case "finished":
			in.Receipt.Before.Terminal = true
		case "refused":
			in.Receipt.Accepted = false
		default:
			t.Fatalf("word %q of an input is not known", w)
		}
	}
	return in
}

var thens = []string{Nothing: "nothing", Seek: "seek", GiveUp: "giveup", Write: "write", Look: "look", Rest: "rest", Pause: "pause",
	Labour: "labour", Halt: "halt", Release: "release", End: "end"}

// show writes a todo in the order in which it is done.
func show(d Todo) string {
	var out []string
	for _, flag := range []struct {
		on   bool
		name string
	}{
		{d.Cancel, "cancel"}, {d.Exit != "", "exit:" + string(d.Exit)}, {d.Leave, "leave"}, {d.Enter, "enter"},
		{d.Answer != "", "answer:" + d.Answer}, {d.Effect != (Effect{}), "effect:" + d.Effect.State},
	} {
		if flag.on {
			out = append(out, flag.name)
		}
	}
	if d.Effect.Terminal {
		out[len(out)-1] += "!"
	}
	then := thens[d.Then]
	switch d.Then {
	case Rest:
		then += fmt.Sprint(":", d.At)
	case Pause, Labour:
		then += fmt.Sprint(":", d.For)
	}
	return strings.Join(append(out, then), " ")
}

// A loop draws once for its first phase and once for each poll, whether it asks or not: the course of a simulated drill hangs on it.
func TestDraws(t *testing.T) {
	draws := 0
	s := loop(lockcore.LoopRenewed)
	s.Policy.Loop.Jitter = 0.1
	m := New(s, func() float64 { draws++; return 0.5 })
	for i, in := range []struct {
		kind  Kind
		draws int
	}{{Start, 1}, {Timer, 2}, {Refusal, 2}, {Timer, 3}, {Granted, 3}, {Written, 3}, {Written, 3}, {Timer, 3}, {Timer, 4}} {
		m.Step(0, Input{Kind: in.kind, Held: true, Receipt: lockcore.Receipt{Accepted: true}})
		if draws != in.draws {
			t.Errorf("step %d: %d draws, want %d", i+1, draws, in.draws)
		}
	}
	j := New(job(lockcore.Critical), nil)
	if do := j.Step(0, Input{Kind: Start}); do.Then != Seek {
		t.Errorf("a job draws nothing and seeks at once, got %v", do)
	}
}

// Whatever happens in whatever order, an effect is asked for only between a grant and the loss of it, and the lock is given back only
// when no stretch of work is under way.
func TestNoEffectWithoutTheLock(t *testing.T) {
	for _, s := range []Spec{job(lockcore.Critical), job(lockcore.LegacyWarn), loop(lockcore.LoopRenewed), loop(lockcore.LoopTTLHold), loop(lockcore.LoopExplicit), loopAfter(lockcore.LegacyWarn)} {
		walk(t, s, nil, 9)
	}
}

// walk tries every order of answers, losses and stops, up to a depth.
func walk(t *testing.T, s Spec, path []Input, depth int) {
	m := New(s, func() float64 { return 0.5 })
	do := m.Step(0, Input{Kind: Start})
	holds, working, lost := false, false, false
	for _, in := range path {
		do = step(&m, do, in)
		switch {
		case in.Kind == Granted:
			holds, lost = true, false
		case in.Kind == Lost:
			lost = true
		}
		working = working && do.Exit == ""
		if do.Leave {
			holds = false
		}
		working = working || do.Enter
		switch do.Then {
		case Write:
			if !holds || lost {
				t.Fatalf("%v: an effect without the lock", path)
			}
		case Release:
			if working {
				t.Fatalf("%v: the lock is given back under the work", path)
			}
			holds = false
		case Seek:
			if holds {
				t.Fatalf("%v: it asks for a lock that it has", path)
			}
		case End:
			if working || holds {
				t.Fatalf("%v: it ends at work, or with the lock", path)
			}
			return
		}
	}
	if depth == 0 {
		return
	}
	for _, in := range answers(do, holds, lost) {
		walk(t, s, append(path[:len(path):len(path)], in), depth-1)
	}
}

// step gives an input, and keeps what is waited for where nothing new is.
func step(m *Machine, before Todo, in Input) Todo {
	do := m.Step(0, in)
	if do.Then == Nothing {
		do.Then = before.Then
	}
	return do
}

// answers are what can happen next.
func answers(do Todo, holds, lost bool) []Input {
	accepted := lockcore.Receipt{Accepted: true}
	var out []Input
	switch do.Then {
	case Seek, GiveUp:
		out = []Input{{Kind: Granted, Held: true}, {Kind: Refusal}}
	case Write:
		out = []Input{{Kind: Written, Held: true, Receipt: accepted}, {Kind: Written, Held: true, Unknown: true}, {Kind: Written, Held: true}}
	case Look:
		out = []Input{{Kind: Read, Held: true}, {Kind: Read, Held: true, Applied: true}}
	case Rest, Pause, Labour:
		out = []Input{{Kind: Timer, Held: true}}
	case Halt:
		out = []Input{{Kind: Halted}}
	case Release:
		out = []Input{{Kind: Released}}
	}
	for i := range out {
		out[i].Over = lost
	}
	if holds && !lost {
		out = append(out, Input{Kind: Lost, Over: true})
	}
	return append(out, Input{Kind: Quit, Over: lost})
}
