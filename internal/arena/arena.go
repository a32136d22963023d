// Package arena hands out values that all end together, and hands the same memory out again afterwards: what is played through a
// million times allocates for the first time only. It is no allocator for values that end one by one. Its one invariant: no value is
// handed out twice between two resets.
package arena

// size of a piece: pointers into it stay good while others are added.
const size = 32

// Of is an arena of one type. The zero Of is ready. It is not safe for concurrent use.
type Of[T any] struct {
	pieces [][]T
	n      int
}

// Get hands out a value as whoever had it last has left it.
func (a *Of[T]) Get() *T {
	if a.n == size*len(a.pieces) {
		a.pieces = append(a.pieces, make([]T, size))
	}
	v := &a.pieces[a.n/size][a.n%size]
	a.n++
	return v
}

// New hands out a copy of v.
func (a *Of[T]) New(v T) *T {
	p := a.Get()
	*p = v
	return p
}

// Reset ends all values: the next ones are in their places.
func (a *Of[T]) Reset() { a.n = 0 }
