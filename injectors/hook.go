package injectors

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
)

// hook is a fault that commands of the user's make, observe and undo. Its time is that of both, and a moment.
var hook = Row{Needs: func(h *Hit) bool { return h.Mark != nil }, Find: commandsOf, Do: runDo, See: runConfirm, End: runUndo,
	Takes: func(h *Hit) time.Duration { return 2*h.commands().Within + time.Second }}

// saidMost is how much of what a command prints a history keeps.
const saidMost = 1000

func (h *Hit) commands() *fault.Commands { return h.Spec.(fault.Commanding).Runs() }

// commandsOf writes down which command undoes it, and whom it strikes.
func commandsOf(_ context.Context, h *Hit) error {
	c := h.commands()
	h.Rec.Hook = &undo.Hook{Undo: c.Undo, Dir: c.Dir, Within: c.Within, Secrets: h.Secrets, Mark: h.Mark(undo.HookMark + h.Rec.Shot.Op)}
	switch v := h.Victim; {
	case h.fault().Victim == "":
	case v == nil:
		return void(history.NoTarget, "%s was never seen to start", h.fault().Victim)
	default:
		h.Rec.Hook.PID, h.Rec.Hook.Name = v.PID, cmp.Or(v.Called, v.Name)
		if v.Pod != nil {
			h.Rec.Hook.Name = v.Pod.Name
		}
	}
	return nil
}

// runDo runs do. One that fails may have done it in part: it is undone.
func runDo(ctx context.Context, h *Hit) (err error) {
	h.said, err = h.runHook(ctx, "do", h.commands().Do, h.Rec.Hook.Mark)
	return err
}

// runConfirm runs confirm: nobody else knows what there is to see.
func runConfirm(ctx context.Context, h *Hit) error {
	confirmed, err := h.runHook(ctx, "confirm", h.commands().Confirm, h.Rec.Hook.Mark)
	h.Window.To = h.now()
	if err != nil {
		return void(history.Unconfirmed, "%v", err)
	}
	said := []string{h.said, confirmed}
	if h.said == "" {
		said = said[1:]
	}
	h.Saw.Hits, h.Saw.Detail = 1, strings.TrimSuffix(strings.Join(said, "; "), "; ")
	return nil
}

// runUndo ends a do or a confirm whose runner is dead, since what it would still do nobody would undo, and then runs undo.
func runUndo(ctx context.Context, h *Hit) error {
	err := undo.EndMarked(ctx, h.Rec.Hook.Mark)
	if len(h.Rec.Hook.Undo) == 0 {
		h.Ended = h.Rec.Shot.Span
	} else if err == nil {
		_, err = h.runHook(ctx, "undo", h.Rec.Hook.Undo, "")
	}
	return err
}

// runHook runs one command of a hook, and tells what it has printed.
func (h *Hit) runHook(ctx context.Context, step string, words []string, mark string) (said string, err error) {
	r := h.Rec.Hook
	c := command.Command{Words: words, Dir: r.Dir, Within: r.Within, Most: saidMost, Secrets: r.Secrets, Env: r.Env(h.Rec.Shot, step)}
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
