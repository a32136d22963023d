package explore

import (
	"fmt"
	"reflect"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// fields is a machine whose key is written.
type fields struct {
	v     reflect.Value
	now   time.Duration
	p     lockcore.Policy
	state lockcore.State
}

func (f fields) in(states ...lockcore.State) bool {
	for _, s := range states {
		if f.state == s {
			return true
		}
	}
	return false
}

func (f fields) pending() int64 { return f.v.Field(pendingField).Int() }

// answerable: in these states the reply to the pending call is looked at.
func (f fields) answerable() bool {
	return f.in(lockcore.Seeking, lockcore.Undoing, lockcore.Holding, lockcore.Left, lockcore.Releasing) && f.pending() != 0
}

// field is what one field of a machine adds to its key.
type field func(f fields, v reflect.Value) int64

func plain(_ fields, v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case reflect.Float64:
		panic("a share cannot be told exactly by a whole number")
	}
	return v.Int()
}

func nothing(fields, reflect.Value) int64 { return 0 }

// where counts a field in some states only: elsewhere it is set before it is read.
func where(states []lockcore.State, then field) field {
	return func(f fields, v reflect.Value) int64 {
		if !f.in(states...) {
			return 0
		}
		return then(f, v)
	}
}

// ago is how long an Instant is past, at most a lease: validity is over then, and nobody asks since when. All clocks run alike.
func ago(f fields, v reflect.Value) int64 {
	return int64(min(f.now-time.Duration(v.Field(0).Int()), f.p.TTL))
}

// ahead is how far an instant is ahead. A renewal's schedule goes on from where it was, up to an interval late; of everything else that is
// past, nobody asks since when.
func ahead(f fields, v reflect.Value) int64 {
	least := time.Duration(0)
	if f.state == lockcore.Holding {
		least = -f.p.RenewEvery
	}
	return int64(max(time.Duration(v.Int())-f.now, least))
}

var (
	seeking = []lockcore.State{lockcore.Seeking, lockcore.Waiting, lockcore.Undoing}
	armable = []lockcore.State{lockcore.Waiting, lockcore.Undoing, lockcore.Holding, lockcore.Releasing}
)

// fieldsByName says of each field of a lockcore.Machine how it counts. A new one that is missing here stops every exploration.
var fieldsByName = map[string]field{
	"p":     nothing, // the same in all states
	"class": nothing, // follows from the policy
	"out":   nothing, // of the last Step
	"rand":  nothing, // of the last Step
	"last":  nothing, // no clock runs backwards, and none ahead of another
	"epoch": nothing, // a name
	"state": plain,
	"calls": nothing, // a name
	"pending": func(f fields, v reflect.Value) int64 {
		if !f.answerable() {
			return 0
		}
		return 1 + f.v.Field(callsField).Int() - v.Int()
	},
	"sentAt": func(f fields, v reflect.Value) int64 {
		if !f.answerable() || f.in(lockcore.Undoing, lockcore.Releasing) {
			return 0
		}
		return ago(f, v)
	},
	"attempt": where([]lockcore.State{lockcore.Undoing, lockcore.Releasing}, plain),
	"due": where(armable, func(f fields, v reflect.Value) int64 {
		if !f.v.Field(armedField).Bool() {
			return 0
		}
		return ahead(f, v)
	}),
	"armed":    where(armable, plain),
	"budget":   where(seeking, ahead),
	"pause":    where(seeking, plain),
	"waited":   plain,
	"told":     plain,
	"sent":     where([]lockcore.State{lockcore.Holding, lockcore.Left}, ago),
	"failures": where([]lockcore.State{lockcore.Holding}, failures),
	"unowned":  plain,
	"lost":     plain,
	"unsure":   plain,
}

// failures count where a class counts them.
func failures(f fields, v reflect.Value) int64 {
	if f.p.Class == lockcore.Critical || f.p.Class == lockcore.LegacyCount {
		return v.Int()
	}
	return 0
}

var pendingField, callsField, armedField = fieldNamed("pending"), fieldNamed("calls"), fieldNamed("armed")

func fieldNamed(name string) int {
	f, ok := reflect.TypeFor[lockcore.Machine]().FieldByName(name)
	if !ok {
		panic("a lockcore.Machine has no field " + name)
	}
	return f.Index[0]
}

// machineFields are those of fieldsByName in their order.
var machineFields = func() []field {
	t := reflect.TypeFor[lockcore.Machine]()
	if t.NumField() != len(fieldsByName) {
		panic(fmt.Sprintf("a lockcore.Machine has %d fields, and %d are known here", t.NumField(), len(fieldsByName)))
	}
	var list []field
	for i := range t.NumField() {
		f := fieldsByName[t.Field(i).Name]
		if f == nil {
			panic("how does lockcore.Machine." + t.Field(i).Name + " count in a key?")
		}
		list = append(list, f)
	}
	return list
}()
