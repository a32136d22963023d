package injectors

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
)

// Hook is a fault that commands of the user's make, observe and undo.
type Hook struct {
	Fault   func(id string) fault.Spec // as the experiment declares it
	Mark    func(name string) string   // of the run, for the environment of what it starts
	Secrets []string                   // names of environment variables
	Past    func() []history.Event     // all that is recorded so far
	Clock   func() int64

	mu   sync.Mutex
	said map[string]string // by do, of shots whose confirmation is to come
}

// saidMost is how much of what a command prints a history keeps.
const saidMost = 1000

func (h *Hook) commands(shot history.Event) *fault.Commands {
	return h.Fault(shot.Fault.ID).(fault.Commanding).Runs()
}

// Within is how long a shot may take: both of its commands, and a moment.
func (h *Hook) Within(shot history.Event) time.Duration {
	return 2*h.commands(shot).Within + time.Second
}

// Prepare writes down which command undoes it, and whom it strikes.
func (h *Hook) Prepare(_ context.Context, shot history.Event) (undo.Record, error) {
	c := h.commands(shot)
	r := undo.Record{Hook: &undo.Hook{Undo: c.Undo, Dir: c.Dir, Within: c.Within, Secrets: h.Secrets, Mark: h.Mark(undo.HookMark + shot.Op)}}
	if shot.Fault.Victim == "" {
		return r, nil
	}
	victim := startOf(h.Past(), shot)
	if victim == nil {
		return r, &voidError{history.NoTarget, shot.Fault.Victim + " was never seen to start"}
	}
	r.Hook.PID, r.Hook.Name = victim.PID, cmp.Or(victim.Called, victim.Name)
	if victim.Pod != nil {
		r.Hook.Name = victim.Pod.Name
	}
	return r, nil
}

// Inject runs do. One that fails may have done it in part: it is undone.
func (h *Hook) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(h.Clock())
	said, err := runHook(ctx, r, "do", h.commands(r.Shot).Do, r.Hook.Mark)
	span.To = h.Clock()
	if err != nil {
		return span, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said == nil {
		h.said = map[string]string{}
	}
	h.said[r.Shot.Op] = said
	return span, nil
}

// Confirm runs confirm: nobody else knows what there is to see.
func (h *Hook) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	h.mu.Lock()
	said := []string{h.said[r.Shot.Op]}
	h.mu.Unlock()
	confirmed, err := runHook(ctx, r, "confirm", h.commands(r.Shot).Confirm, r.Hook.Mark)
	window := history.Span{From: applied.From, To: h.Clock()}
	if err != nil {
		return window, history.Fault{}, &voidError{history.Unconfirmed, err.Error()}
	}
	if said = append(said, confirmed); said[0] == "" {
		said = said[1:]
	}
	return window, history.Fault{Hits: 1, Detail: strings.TrimSuffix(strings.Join(said, "; "), "; ")}, nil
}

// Revert runs undo, once nothing is left of what makes the fault.
func (h *Hook) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	if len(r.Hook.Undo) == 0 {
		return r.Shot.Span, endHook(ctx, r)
	}
	span := history.At(h.Clock())
	err := endHook(ctx, r)
	if err == nil {
		_, err = runHook(ctx, r, "undo", r.Hook.Undo, "")
	}
	span.To = h.Clock()
	return span, err
}

// endHook ends a do or a confirm whose runner is dead: what it would still do, nobody would undo.
func endHook(ctx context.Context, r undo.Record) error { return undo.EndMarked(ctx, r.Hook.Mark) }

// runHook runs one command of a hook, and tells what it has printed.
func runHook(ctx context.Context, r undo.Record, step string, words []string, mark string) (said string, err error) {
	c := command.Command{Words: words, Dir: r.Hook.Dir, Within: r.Hook.Within, Most: saidMost, Secrets: r.Hook.Secrets, Env: r.Hook.Env(r.Shot, step)}
	if mark != "" {
		c.Env = append(c.Env, undo.MarkEnv+"="+mark)
	}
	result, err := c.Run(ctx)
	said = result.Said()
	if err == nil && result.Exit != 0 {
		err = fmt.Errorf("%s ended with exit status %d", words[0], result.Exit)
	}
	switch {
	case err != nil && said != "":
		return said, fmt.Errorf("%s: %w: %s", step, err, said)
	case err != nil:
		return said, fmt.Errorf("%s: %w", step, err)
	case said != "":
		return step + ": " + said, nil
	}
	return "", nil
}
