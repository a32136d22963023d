package explore

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// What tells two states apart, and why no more does:
//
//   - Instants count from now: policy, store and machine only ever compare instants. Those that are past count as past where nobody asks
//     by how much.
//   - Fences count by their order among those that can still be compared with one another: a new one is above all of them.
//   - Epochs, calls and attempts count back from the contender's last: they are names.
//   - Contenders are alike, so their order does not count.
//   - A field that is set before it is read the next time does not count: see machineFields.
//   - What somebody made wrong on purpose is not known here. Then every field counts as it is, and so does the time.
//
// TestWhatIsMergedHasOneFuture holds all of this to what the states then do.

// keyer writes one state's key.
type keyer struct {
	w      *World
	s      *state
	exact  bool
	fences []int64
	b      []byte
}

func (w *World) exact() bool {
	return w.Variant.Attempt != nil || w.Variant.Rules != nil || w.Variant.LateFence
}

// key is Search.Key of the world.
func (w *World) key(s *state, b []byte) []byte {
	k := &keyer{w: w, s: s, exact: w.exact(), b: b}
	k.rank()
	k.flags(s.flushed, s.deleted)
	k.num(int64(s.terminals))
	k.fence(s.accepted)
	if s.holder >= 0 {
		k.num(int64(s.ends - s.now))
	}
	if k.exact {
		k.num(int64(s.now))
		k.num(s.top)
		k.value(reflect.ValueOf(s.store.table))
		k.value(reflect.ValueOf(s.store.rules))
		for _, e := range s.ledger.Entries(0) {
			k.num(e.Fence)
			k.flags(e.Accepted, e.Terminal)
		}
	}
	blobs := make([]string, len(s.who))
	head := len(k.b)
	for i := range s.who {
		k.contender(i)
		blobs[i] = string(k.b[head:])
		k.b = k.b[:head]
	}
	sort.Strings(blobs)
	for _, blob := range blobs {
		k.num(int64(len(blob)))
		k.b = append(k.b, blob...)
	}
	return k.b
}

func (k *keyer) num(n int64) { k.b = binary.AppendVarint(k.b, n) }

func (k *keyer) flags(flags ...bool) {
	n := int64(0)
	for i, f := range flags {
		if f {
			n |= 1 << i
		}
	}
	k.num(n)
}

// rank lists the fences that can still be compared.
func (k *keyer) rank() {
	if k.exact {
		return
	}
	k.fences = append(k.fences, k.s.accepted)
	for _, c := range k.s.who {
		if c.work != resting {
			k.fences = append(k.fences, c.fence)
		}
	}
	for _, m := range k.s.messages {
		if m.fenced() {
			k.fences = append(k.fences, m.fence)
		}
	}
	slices.Sort(k.fences)
	k.fences = slices.Compact(k.fences)
}

func (k *keyer) fence(f int64) {
	if !k.exact {
		n, _ := slices.BinarySearch(k.fences, f)
		f = int64(n)
	}
	k.num(f)
}

func (k *keyer) contender(i int) {
	c := k.s.who[i]
	now := k.w.clock(k.s, c).Mono
	k.num(int64(c.lag))
	k.num(int64(c.work))
	owner := k.s.holder == i
	k.flags(owner, c.m != nil, c.open, c.ended, c.doubt && c.m != nil, c.undone && c.m != nil)
	if owner {
		k.num(int64(c.used - k.s.epoch))
	}
	if k.w.Attempts > 0 {
		k.num(int64(c.lives))
	}
	if c.work != resting {
		k.fence(c.fence)
		if k.exact {
			k.num(c.own)
		}
		if c.ended {
			k.num(int64(min(k.s.now-c.lag-c.since, Grid)))
		}
	}
	if c.m != nil {
		if k.w.waits() && !c.answered {
			k.num(int64(max(0, k.w.patience(k.s, c))))
		}
		k.flags(c.told, c.fence != 0)
		if c.open {
			k.num(int64(max(0, c.call.Deadline-now)))
		}
		k.machine(c.m, now)
	}
	k.messages(i, c)
}

// messages are those of one contender, in whatever order they were sent.
func (k *keyer) messages(i int, c *contender) {
	var list []string
	head := len(k.b)
	for _, m := range k.s.messages {
		if m.who != i {
			continue
		}
		current := m.life == c.lives && (c.m != nil || c.work != resting) // else nobody is there to hear of it
		k.num(int64(m.kind))
		k.flags(m.again, current)
		k.num(int64(c.used - m.epoch))
		switch m.kind {
		case effect:
			k.flags(m.state == "done")
			if k.exact {
				k.num(m.own)
			}
		case reply:
			k.b = append(k.b, m.result[0], m.result[1])
			if k.w.waits() {
				k.num(int64(m.pttl))
			}
		}
		if m.fenced() {
			k.fence(m.fence)
		}
		if m.kind != effect {
			k.b = append(k.b, m.op[0], m.op[2])
			if current && c.m != nil {
				k.num(int64(c.call.ID - m.call))
			}
		}
		list = append(list, string(k.b[head:]))
		k.b = k.b[:head]
	}
	sort.Strings(list)
	for _, m := range list {
		k.b = append(k.b, m...)
	}
}

// machine is what a machine will go by. The policy is the same in all states.
func (k *keyer) machine(m lockcore.Attempt, now time.Duration) {
	healthy, ok := m.(*lockcore.Machine)
	if !ok || k.exact {
		k.value(reflect.ValueOf(m))
		return
	}
	v := reflect.ValueOf(healthy).Elem()
	f := fields{v: v, now: now, p: k.w.Policy, state: healthy.State()}
	for i := range v.NumField() {
		k.num(machineFields[i](f, v.Field(i)))
	}
}

// value is every field of anything, as it is.
func (k *keyer) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		k.flags(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.num(v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		k.num(int64(v.Uint()))
	case reflect.Float64:
		k.num(int64(math.Float64bits(v.Float())))
	case reflect.String:
		k.num(int64(v.Len()))
		k.b = append(k.b, v.String()...)
	case reflect.Pointer, reflect.Interface:
		k.flags(v.IsNil())
		if !v.IsNil() {
			k.value(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[lockcore.Policy]() || v.Type() == reflect.TypeFor[time.Location]() {
			return
		}
		for i := range v.NumField() {
			k.value(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		k.num(int64(v.Len()))
		for i := range v.Len() {
			k.value(v.Index(i))
		}
	case reflect.Map:
		k.entries(v)
	case reflect.Func: // the same in all states
	default:
		panic(fmt.Sprintf("a state with a %s cannot be told from others", v.Type()))
	}
}

func (k *keyer) entries(v reflect.Value) {
	var list []string
	head := len(k.b)
	for it := v.MapRange(); it.Next(); {
		k.value(it.Key())
		k.value(it.Value())
		list = append(list, string(k.b[head:]))
		k.b = k.b[:head]
	}
	sort.Strings(list)
	k.num(int64(len(list)))
	for _, e := range list {
		k.b = append(k.b, e...)
	}
}
