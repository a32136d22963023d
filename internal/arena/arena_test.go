package arena

import "testing"

// Values stay where they are while others come, are all different, and are in the same places after a reset, without an allocation.
func TestOf(t *testing.T) {
	var a Of[int]
	fill := func() []*int {
		var all []*int
		for i := range 3*size + 1 {
			all = append(all, a.New(i))
		}
		return all
	}
	first := fill()
	for i, p := range first {
		if *p != i {
			t.Fatalf("value %d is %d", i, *p)
		}
	}
	a.Reset()
	for i, p := range fill() {
		if p != first[i] {
			t.Fatalf("value %d has moved", i)
		}
	}
	a.Reset()
	if n := testing.AllocsPerRun(10, func() {
		for range size {
			a.Get()
		}
		a.Reset()
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
