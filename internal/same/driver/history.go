package main

import (
	"encoding/json"
	"fmt"
	"slices"
)

// form is a normal form of a history: of each field of each kind of event a sum of its values, with the place of the event among those
// of its kind. The running number and the version of the format are left out, so that a kind or a field more does not change the others.
type form struct {
	events map[string]int
	sums   map[string]*uint64
	order  uint64
	key    []byte
	place  int
}

func newForm() *form {
	return &form{events: map[string]int{}, sums: map[string]*uint64{}, order: offset}
}

const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a

func mix[T []byte | string](sum uint64, b T) uint64 {
	for i := range len(b) {
		sum = (sum ^ uint64(b[i])) * prime
	}
	return (sum ^ 0xff) * prime
}

// add takes an event as a line of JSON without white space.
func (f *form) add(kind string, line []byte) {
	f.events[kind]++
	f.place = f.events[kind]
	f.order = mix(f.order, kind)
	f.key = append(append(f.key[:0], kind...), ' ')
	f.value(line, 0)
}

// value notes the value that begins at a place of the line, and gives the place behind it.
func (f *form) value(b []byte, at int) int {
	mark := len(f.key)
	switch b[at] {
	case '{':
		for at++; b[at] != '}'; {
			if b[at] == ',' {
				at++
			}
			end := endOf(b, at)
			f.key = append(append(f.key[:mark], '.'), b[at+1:end-1]...)
			at = f.value(b, end+1)
			f.key = f.key[:mark]
		}
		return at + 1
	case '[':
		n := 0
		f.key = append(f.key, "[]"...)
		for at++; b[at] != ']'; n++ {
			if b[at] == ',' {
				at++
			}
			at = f.value(b, at)
		}
		f.note(fmt.Appendf(nil, "%d in all", n))
		f.key = f.key[:mark]
		return at + 1
	}
	end := endOf(b, at)
	f.note(b[at:end])
	return end
}

// endOf is the place behind a string, a number or a word.
func endOf(b []byte, at int) int {
	if b[at] != '"' {
		for at < len(b) && b[at] != ',' && b[at] != '}' && b[at] != ']' {
			at++
		}
		return at
	}
	for at++; b[at] != '"'; at++ {
		if b[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func (f *form) note(value []byte) {
	sum := f.sums[string(f.key)]
	if sum == nil {
		sum = new(uint64)
		*sum = offset
		f.sums[string(f.key)] = sum
	}
	*sum = mix((*sum^uint64(f.place))*prime, value)
}

// pairs is the form as a document.
func (f *form) pairs() string {
	var all [][2]string
	for kind, n := range f.events {
		all = append(all, [2]string{kind, fmt.Sprint(n, " events")})
		delete(f.sums, kind+" .n")
	}
	for key, sum := range f.sums {
		all = append(all, [2]string{key, fmt.Sprintf("%016x", *sum)})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return pairs(append(all, [2]string{"order of kinds", fmt.Sprintf("%016x", f.order)}))
}

func pairs(all [][2]string) string {
	doc, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings
	}
	return string(doc)
}
