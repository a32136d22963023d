package undo

import (
	"fmt"

	"github.com/lockdrill/lockdrill/history"
)

// HookMark begins the name in the mark of what makes and confirms a hook.
const HookMark = "hook/"

// Env is what a command of the hook is told, at one of its steps: do, confirm or undo.
func (h *Hook) Env(shot history.Event, step string) []string {
	env := []string{"LOCKDRILL_STEP=" + step, "LOCKDRILL_FAULT=" + shot.Op}
	if h.PID > 0 {
		env = append(env, fmt.Sprintf("LOCKDRILL_VICTIM_PID=%d", h.PID))
	}
	if h.Name != "" {
		env = append(env, "LOCKDRILL_VICTIM_NAME="+h.Name)
	}
	if shot.Key != "" {
		env = append(env, "LOCKDRILL_VICTIM_KEY="+shot.Key)
	}
	return env
}
