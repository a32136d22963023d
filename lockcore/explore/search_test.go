package explore

import "hash/maphash"

// Search visits every state that can be reached from Start in at most Depth steps, the nearest first, so that what it finds it
// finds by the fewest steps.
type Search[S any] struct {
	Start S
	Depth int
	// Next yields what one step makes of a state, always in the same order. A step that breaks a promise names it.
	Next func(from S, yield func(to S, broken string))
	// Check names the promise that a state breaks by itself; it is asked once for each. nil = none does.
	Check func(s S) string
	// Key appends what tells states apart: those with the same key are one. It is kept as a hash of 128 bits; with ten million
	// states, the odds that any two of them are taken for one are below 1 in 10^24.
	Key func(s S, b []byte) []byte
	// Label says in words what the nth step from a state is. It is asked only for a counterexample.
	Label func(from S, nth int) string
	// Merged, where set, is told of each state that is dropped because one with its key is known. All states are then kept.
	Merged func(known, dropped S)
}

// Found is what a search has seen.
type Found struct {
	States      int      // different ones
	Transitions int      // steps taken, those to known states included
	Depth       int      // of the last state; of a counterexample, its length
	Whole       bool     // nothing lies deeper: every state there is was seen
	Broken      string   // the promise that was broken; "" = none
	Trace       []string // how, one step a line
}

type hash [2]uint64

// node is how a state was reached first.
type node struct {
	parent int32
	nth    int32
}

type item[S any] struct {
	state S
	id    int32
}

// run is a search under way.
type run[S any] struct {
	Search[S]
	seeds [2]maphash.Seed
	known map[hash]int32
	nodes []node
	kept  []S // where Merged asks for them
	next  []item[S]
	buf   []byte
	found Found
}

// Run searches.
func (q Search[S]) Run() Found {
	r := &run[S]{Search: q, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: map[hash]int32{}}
	r.add(q.Start, node{parent: -1})
	for depth := 1; depth <= q.Depth; depth++ {
		level := r.next
		r.next = nil
		for i := range level {
			if r.expand(level[i]) {
				r.found.Depth = depth
				return r.result()
			}
			level[i] = item[S]{} // free what is done with: a level can be large
		}
		if len(r.next) == 0 {
			r.found.Whole = true
			break
		}
		r.found.Depth = depth
	}
	return r.result()
}

func (r *run[S]) result() Found {
	r.found.States = len(r.nodes)
	return r.found
}

// expand takes every step from a state, and reports whether one of them breaks a promise.
func (r *run[S]) expand(from item[S]) bool {
	nth := int32(0)
	r.Next(from.state, func(to S, broken string) {
		if r.found.Broken != "" {
			return
		}
		r.found.Transitions++
		step := node{parent: from.id, nth: nth}
		nth++
		if broken == "" {
			broken = r.add(to, step)
		}
		if broken != "" {
			r.found.Broken = broken
			r.found.Trace = r.trace(step)
		}
	})
	return r.found.Broken != ""
}

// add keeps a state that is new, and names the promise that it breaks.
func (r *run[S]) add(s S, how node) string {
	r.buf = r.Key(s, r.buf[:0])
	h := hash{maphash.Bytes(r.seeds[0], r.buf), maphash.Bytes(r.seeds[1], r.buf)}
	if id, is := r.known[h]; is {
		if r.Merged != nil {
			r.Merged(r.kept[id], s)
		}
		return ""
	}
	id := int32(len(r.nodes))
	r.known[h] = id
	r.nodes = append(r.nodes, how)
	if r.Merged != nil {
		r.kept = append(r.kept, s)
	}
	r.next = append(r.next, item[S]{s, id})
	if r.Check == nil {
		return ""
	}
	return r.Check(s)
}

// trace walks from the start again, along the way that was found.
func (r *run[S]) trace(last node) []string {
	way := []int32{last.nth}
	for id := last.parent; r.nodes[id].parent >= 0; id = r.nodes[id].parent {
		way = append(way, r.nodes[id].nth)
	}
	var lines []string
	s := r.Start
	for i := len(way) - 1; i >= 0; i-- {
		lines = append(lines, r.Label(s, int(way[i])))
		from, n := s, int32(0)
		r.Next(from, func(to S, _ string) {
			if n == way[i] {
				s = to
			}
			n++
		})
	}
	return lines
}
