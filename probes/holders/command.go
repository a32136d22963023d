package holders

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/internal/command"
)

// Command runs a command of the user's that prints the holder's name, pid or pod.
type Command struct {
	Lives func() []Life
	Run   func(Question) command.Command
}

// Word implements Source.
func (*Command) Word() string { return "command" }

// Ask implements Source.
func (c *Command) Ask(ctx context.Context, q Question) Answer {
	r, err := c.Run(q).Run(ctx)
	switch {
	case err != nil:
		return unknown(oneLine(err.Error()))
	case r.Exit != 0:
		return unknown(fmt.Sprintf("the command ended with status %d: %s", r.Exit, r.Said()))
	}
	words := strings.Fields(r.Stdout)
	if len(words) == 0 {
		return unknown("the command printed nobody")
	}
	var a Answer
	for _, word := range words {
		found := named(c.Lives(), Life.called, word)
		if len(found.Holders) == 0 {
			return unknown(fmt.Sprintf("the command printed %.40q, which is no replica that lives", word))
		}
		a.Holders = append(a.Holders, found.Holders...)
	}
	return a
}
