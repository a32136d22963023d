package timeline

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// owners gives every replica a hue that stays over its lives.
type owners struct {
	names []string
	hue   map[string]int
}

func ownersOf(l *verdict.Lanes) owners {
	o := owners{hue: map[string]int{}}
	for _, r := range l.Replicas {
		o.hue[r.Name] = len(o.names)
		o.names = append(o.names, r.Name)
	}
	return o
}

// of is the class of an incarnation's fill; ok is false where it is nobody's that is known.
func (o owners) of(incarnation string) (class string, ok bool) {
	h, ok := o.hue[history.ReplicaOf(incarnation)]
	return "r" + count(h%hues), ok
}

// classes of the owners, each once.
func (o owners) classes() []string {
	var out []string
	for i := range min(len(o.names), hues) {
		out = append(out, "r"+count(i))
	}
	return out
}
