package experiments

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// TestMarshalRoundTrip: a resolved file gives the same experiment back, and is written the same again.
func TestMarshalRoundTrip(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.yaml", "testdata/sheet/drill.yaml", "../scenarios/*.yaml", "../scenarios/witness/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		e, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("resolved.yaml", data)
		if err != nil {
			t.Fatalf("%s, resolved:\n%v\n%s", file, err, data)
		}
		again, err := Marshal(back)
		if unplaced(e); !reflect.DeepEqual(e, unplaced(back)) || err != nil || string(again) != string(data) {
			t.Errorf("%s comes back different (%v):\n%s\n%s", file, err, data, again)
		}
	}
}

// unplaced leaves out what a resolved file does not say: where things stood, and what profiles and defaults were told of.
func unplaced(e *Experiment) *Experiment {
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		l.Place, l.Assumed, l.Beyond = Place{}, nil, nil
	}
	for _, rows := range [][]SLO{e.SLOs, e.Expect} {
		for i := range rows {
			rows[i].Place = Place{}
		}
	}
	return e
}

// TestEveryValueComesBack: whatever values the fields have, what is written is read again, and is written the same again.
func TestEveryValueComesBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range 200 {
		g := generator{rand.New(rand.NewPCG(seed, uint64(i)))}
		var e, back Experiment
		g.section(reflect.ValueOf(&e).Elem())
		data, err := vocab.Text(vocabulary.Encode(&e), "experiment")
		if err != nil {
			t.Fatal(err)
		}
		f := vocabulary.Open("written.yaml", data, false)
		if f.Decode(&back); f.Err() != nil {
			t.Fatalf("case %d does not decode:\n%v\n%s", i, f.Err(), data)
		}
		again, err := vocab.Text(vocabulary.Encode(&back), "experiment")
		if !reflect.DeepEqual(unplaced(&e), unplaced(&back)) || err != nil || string(again) != string(data) {
			t.Fatalf("case %d comes back different (%v):\n%s\n%s", i, err, data, again)
		}
	}
}

func TestMarshalStandsAlone(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	// A profile that has been renamed since must not matter.
	text := strings.ReplaceAll(string(data), "cordum/scheduler-job", "cordum/gone")
	back, err := Parse("resolved.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if back.System.Locks[0].Policy != e.System.Locks[0].Policy || back.System.Locks[0].KeyPrefix != "cordum:scheduler:job:" {
		t.Errorf("the lock is %+v", back.System.Locks[0])
	}
}

func TestMarshalRefusesScaled(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.TimeScale = 0.5
	if _, err := Marshal(Scale(e)); err == nil {
		t.Error("a scaled experiment was marshalled")
	}
}

func TestSecretsStayOut(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.Redis = Redis{Mode: RedisExternal, URL: "rediss://10.0.0.5:6379/0"}
	e.System.Worker = []string{"./worker", "--password=hunter2", "redis://:hunter2@h:1"}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") || !strings.Contains(string(data), "10.0.0.5:6379") {
		t.Errorf("marshalled:\n%s", data)
	}
	if _, err := Parse("redacted.yaml", data); err != nil {
		t.Errorf("a redacted file is not valid any more: %v", err)
	}
}

// generator makes values of every field of the vocabulary, as the decoder takes them one by one.
type generator struct{ *rand.Rand }

// section sets the fields of a section.
func (g generator) section(v reflect.Value) {
	for _, d := range vocabulary.Fields(v.Type()) {
		to := v.FieldByIndex(d.Index)
		if d.Kind != "" {
			if kinds := fault.Kinds(); to.IsNil() && d.Kind == kinds[0] {
				kind := fault.New(kinds[g.IntN(len(kinds))])
				g.section(reflect.ValueOf(kind).Elem())
				to.Set(reflect.ValueOf(kind))
			}
			continue
		}
		g.value(to, d.Rule)
	}
	if x, is := v.Addr().Interface().(vocab.Filled); is {
		x.Fill()
	}
}

// value sets one value. It may stay zero where a file that leaves it out says the same.
func (g generator) value(v reflect.Value, r vocab.Rule) {
	stays := !r.Required && !r.Positive && r.Min == 0 && r.Default == "" && g.IntN(3) > 0
	switch x := v.Addr().Interface().(type) {
	case *PolicySheet: // is made into locks
	case *PodPatch:
		*x = pick[PodPatch](g, "", `{"annotations":{"a":"1"}}`)
	case *vocab.JSON:
		*x = pick[vocab.JSON](g, `{"a":{"b":[1,"1",true,null]}}`)
	case *cadence:
		*x = pick(g, cadence{settled: true}, cadence{every: g.duration()})
	case *amount:
		*x = pick(g, amount{isCount: true, count: g.IntN(9)}, amount{time: g.duration()})
	case *Lock:
		g.lock(x)
	case vocab.Spelled:
		for f := vocabulary.Blank("spelled"); ; f = vocabulary.Blank("spelled") { // until nothing in it contradicts the rest
			form := reflect.New(reflect.TypeOf(x.Spelling()).Elem())
			g.section(form.Elem())
			if x.SetSpelling(f, "", form.Interface()); f.Err() == nil {
				return
			}
		}
	case *time.Duration:
		if !stays {
			*x = g.duration() * pick(g, 1, map[bool]time.Duration{true: -1, false: 1}[r.Signed])
		}
	default:
		g.plain(v, r, stays)
	}
}

func (g generator) plain(v reflect.Value, r vocab.Rule, stays bool) {
	inner := r
	inner.Required = true
	switch v.Kind() {
	case reflect.Struct:
		g.section(v)
	case reflect.Array:
		for i := range v.Len() {
			g.value(v.Index(i), inner)
		}
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	}
	if stays {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		g.value(v.Elem(), inner)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+g.IntN(2), 2))
		for i := range v.Len() {
			g.value(v.Index(i), inner)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{g.name("a"): g.text(), g.name("b/c."): g.text()}))
	case reflect.Float64:
		v.SetFloat(min(1, cmp.Or(r.Max, 1e6)) * (1 - g.Float64()))
	case reflect.Int, reflect.Int64:
		v.SetInt(max(1, int64(r.Min)) + g.Int64N(max(1, min(int64(cmp.Or(r.Max, 1e6)), 1e6)-1)))
	case reflect.String:
		switch {
		case len(r.Words) > 0:
			v.SetString(pick(g, r.Words...))
		case r.Ident:
			v.SetString(g.name("n"))
		default:
			v.SetString(cmp.Or(g.text(), "x"))
		}
	}
}

// lock makes a lock as resolved files have it: with a policy that leaves nothing to be assumed.
func (g generator) lock(l *Lock) {
	p := &l.Policy
	for g.section(reflect.ValueOf(p).Elem()); p.Class == "" || p.OpTimeout == 0 || p.Release.Mode == "" || p.Release.AfterAbandon == "" || p.Acquire.Mode == ""; {
		g.section(reflect.ValueOf(p).Elem())
	}
	l.Name, l.Profile, l.Unfenced = g.name("l"), pick(g, "", "some/profile"), g.IntN(2) == 0
	if l.KeyPrefix, l.KeySuffix = g.name("p"), pick(g, "", ":lock"); l.Loop() {
		l.Key, l.KeyPrefix, l.KeySuffix = cmp.Or(g.text(), "x"), "", ""
	}
	for _, more := range []any{&l.AbandonedBy, &l.ToldBy, &l.Belief} {
		g.value(reflect.ValueOf(more).Elem(), vocab.Rule{})
	}
}

// duration is at least 1 ns, of any magnitude.
func (g generator) duration() time.Duration {
	return 1 + time.Duration(g.Int64N(int64(time.Hour)>>g.IntN(40)))
}

func (g generator) name(prefix string) string { return fmt.Sprintf("%s-%x", prefix, g.Uint32()) }

// text is something that YAML would read as something else, or in pieces, if it were not quoted.
func (g generator) text() string {
	return pick(g, "", "plain words", "12", "true", "~", "null", "a: b # c", "  spaces  ", "line\nbreak\n", "\ttab", "\"quoted\" 'twice'", "{flow}", "- list", "é\u2028ü", "0x1f", "1e3", "<<", "|", "@at")
}

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }
