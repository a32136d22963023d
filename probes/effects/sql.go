package effects

import (
	"context"
)

// SQL says which rows are read, and from where.
type SQL struct {
	Driver     string // postgres, mysql
	DSN        string // a secret
	Query      string // with one parameter, the cursor, and in its order
	Cursor     string // column that the rows are ordered by
	Start      string // query of one value, where the cursor begins; "" = the greatest there is, of whole numbers
	Overwrites bool   // rows are written over
}

var openSQL func(context.Context, SQL) (Reader, error) // nil = ErrBuild

// RegisterSQL says who reads rows, in a build that has the drivers.
func RegisterSQL(open func(context.Context, SQL) (Reader, error)) struct{} {
	openSQL = open
	return struct{}{}
}

// HasSQL reports whether somebody reads rows in this build.
func HasSQL() bool { return openSQL != nil }

// NewSQL returns a reader of the rows of a query.
func NewSQL(ctx context.Context, s SQL) (Reader, error) {
	if !HasSQL() {
		return nil, ErrBuild
	}
	return openSQL(ctx, s)
}
