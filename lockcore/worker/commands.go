package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// maxCommand bounds one line: a configuration with hundreds of locks and the effect script fits many times.
const maxCommand = 8 << 20

// readCommands reads lines until in ends, ctx does, or a line is no command of this version; then it closes the channel.
func readCommands(ctx context.Context, in io.Reader, fail context.CancelCauseFunc) <-chan protocol.Command {
	commands := make(chan protocol.Command)
	go func() {
		defer close(commands)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxCommand)
		for lines.Scan() {
			c, err := parseCommand(lines.Bytes())
			if err != nil {
				fail(fmt.Errorf("%w: read command: %w", errBroken, err))
				return
			}
			select {
			case commands <- c:
			case <-ctx.Done():
				return
			}
		}
		if err := lines.Err(); err != nil {
			fail(fmt.Errorf("%w: read command: %w", errBroken, err))
		}
	}()
	return commands
}

// parseCommand reads one line; unknown fields are tolerated, a later version is not.
func parseCommand(line []byte) (protocol.Command, error) {
	var c protocol.Command
	if err := json.Unmarshal(line, &c); err != nil {
		return c, err
	}
	if c.V > protocol.Version {
		return c, fmt.Errorf("version %d of the protocol is not spoken here, only up to %d", c.V, protocol.Version)
	}
	return c, nil
}

// next is the next command; open is false where there will be none.
func next(ctx context.Context, commands <-chan protocol.Command) (c protocol.Command, open bool) {
	select {
	case c, open = <-commands:
		return c, open
	case <-ctx.Done():
		return c, false
	}
}
