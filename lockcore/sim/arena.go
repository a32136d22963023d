package sim

// arena hands out values that all end with the world, and hands the same memory out again in the next one.
type arena[T any] struct {
	all []*T
	n   int
}

func (a *arena[T]) get() *T {
	if a.n == len(a.all) {
		a.all = append(a.all, new(T))
	}
	a.n++
	return a.all[a.n-1]
}

func (a *arena[T]) reset() { a.n = 0 }
