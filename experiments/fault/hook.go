package fault

import (
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Hook is a fault that commands of the user's make, observe and undo. Aimed at a replica, it is told which that is; without an aim it
// strikes what the commands say.
type Hook struct {
	Aim
	Commands
	Struck bool `file:"-"` // a replica, as events tell, which do not say by which aim
}

// Commands are lists of words, run without a shell on the runner's host. Exit status 0 means that it is done, seen, undone.
type Commands struct {
	Do      []string      `rule:"required"` // the command that makes the fault
	Undo    []string      // the command that ends it, when for is over; it may be run twice
	Confirm []string      `rule:"required"`            // the command that sees whether it took effect
	Within  time.Duration `rule:"positive" scale:"no"` // for each of the commands
	Dir     string        // where they are run: a folder's whole path; by default where lockdrill was started
}

// Commanding is a fault that runs commands of the user's on the runner's host.
type Commanding interface {
	Spec
	Runs() *Commands
}

// Runs are the commands themselves.
func (c *Commands) Runs() *Commands { return c }

// Lists are the commands, by the words of a file.
func (c *Commands) Lists() map[string][]string {
	return map[string][]string{"do": c.Do, "undo": c.Undo, "confirm": c.Confirm}
}

// mostWithin keeps a hook that hangs from keeping the clean-up.
const mostWithin = time.Minute

func newHook(form, _ string) Spec {
	return &Hook{Commands: Commands{Within: 10 * time.Second}, Struck: form == aimed}
}

// aimed is the form of a hook that strikes a replica.
const aimed = "aimed"

func (*Hook) Kind() string { return "hook" }

func (h *Hook) Form() string {
	if h.Struck || h.Aim != (Aim{}) {
		return aimed
	}
	return ""
}

func (*Hook) Magnitude() string { return "" }

// Traits: what its commands do to the locks nobody knows. Its victim may lose its lease, as by a pause.
func (h *Hook) Traits() Traits {
	t := Traits{Noun: "hook", Called: "hook", Elsewhere: true}
	if h.Form() == aimed {
		t.Class, t.Elsewhere = ClassPause, false
	}
	if len(h.Undo) > 0 {
		t.GoesOn = "what undo ends goes on until then"
	}
	return t
}

func (*Hook) Whom() string { return "holder_of, replica or neither" }

func (*Hook) Barred(Around) string { return "" }

func (h *Hook) Check(c Checker) {
	h.check(c, h.Whom(), false)
	if h.All {
		c.Check("all", "a hook is told of one victim: %s", h.Whom())
	}
	if h.Within > mostWithin {
		c.Check("within", "%s is over %s, the most that a command may take", figures.Spell(h.Within), figures.Spell(mostWithin))
	}
	if h.Dir != "" && !strings.HasPrefix(h.Dir, "/") {
		c.Check("dir", "%q does not begin with /: a folder's whole path", h.Dir)
	}
}

func (h *Hook) Describe(bool) Description {
	undone := "nothing to undo, the file says: no undo"
	if len(h.Undo) > 0 {
		undone = "by the file's command: " + strings.Join(h.Undo, " ")
	}
	return Description{"runs the file's command: " + strings.Join(h.Do, " "), "the file's command says so: " + strings.Join(h.Confirm, " "), undone}
}

func (*Hook) Action(s Shot) string {
	if s.Victim == "" {
		return "ran a command" + s.lasting()
	}
	return "ran a command" + s.on()
}

func (*Hook) Measured(Measured) string { return "" }
