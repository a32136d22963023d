package drill

import (
	"errors"
	"fmt"
	"io/fs"
)

// End is what a caller decides by where a drill did not come to its end.
type End string

// Ends of a drill without a verdict. Any other error is the tool's own breaking.
const (
	Usage   End = "usage"   // a setting or a file is wrong; nothing was touched
	Refused End = "refused" // a guard, or the target itself, said no before anything was touched
	Aborted End = "aborted" // interrupted before it began; everything is undone
	Dirty   End = "dirty"   // not everything is undone
)

// Error carries the end that it means.
type Error struct {
	End End
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &Error{Usage, fmt.Errorf(format, args...)} }

// reason is what the operating system says, without the path, which the caller has named.
func reason(err error) error {
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
