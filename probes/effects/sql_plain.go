//go:build !full

package effects

import "context"

// NewSQL returns a reader of the rows of a query.
func NewSQL(context.Context, SQL) (Reader, error) { return nil, ErrBuild }
