package drill

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Error is why a drill has no verdict; any other error is the tool's own breaking. Its exit status is ExitUsage (a setting or a file is
// wrong; nothing was touched), ExitRefused (a guard, or the target itself, said no before anything was touched), ExitAborted (interrupted
// before it began; everything is undone) or ExitDirty (not everything is undone).
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error {
	return &Error{verdict.ExitUsage, fmt.Errorf(format, args...)}
}

// reason is what the operating system says, without the path, which the caller has named.
func reason(err error) error {
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
