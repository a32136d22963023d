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
	words, err := printed(ctx, c.Run(q))
	if err != nil {
		return unknown(oneLine(err.Error()))
	}
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

// printed are the words that a command prints.
func printed(ctx context.Context, run command.Command) ([]string, error) {
	r, err := run.Run(ctx)
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("the command ended with status %d: %s", r.Exit, r.Said())
	}
	return strings.Fields(r.Stdout), err
}
