package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// recordedLines are all lines of all histories that are recorded in this repository.
func recordedLines(t testing.TB) [][]byte {
	t.Helper()
	var lines [][]byte
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "history.jsonl") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range bytes.Split(text, []byte("\n")) {
			if i > 0 && len(line) > 0 {
				lines = append(lines, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 1000 {
		t.Fatalf("only %d recorded lines", len(lines))
	}
	return lines
}

// withoutNaN is e with a number in place of each NaN, which is equal to nothing, not even to itself.
func withoutNaN(e Event) Event {
	if e.Sample == nil {
		return e
	}
	sample := *e.Sample
	sample.Values = slices.Clone(sample.Values)
	for i := range sample.Values {
		if math.IsNaN(float64(sample.Values[i].Value)) {
			sample.Values[i].Value = Number(math.MaxFloat64)
		}
	}
	e.Sample = &sample
	return e
}

// bothWays reads a line by the walk and by encoding/json, and writes what came of it in both ways: they must agree.
func bothWays(line []byte) (walked bool, err error) {
	var want Event
	dec, derr := strictly(line, &want)
	rest := derr == nil && len(bytes.TrimSpace(line[dec.InputOffset():])) > 0
	for _, k := range []codec{{}, {names: new(names), slots: new(slots)}} {
		var got Event
		walked = k.parse(line, &got)
		switch {
		case !walked:
		case derr != nil || rest:
			return walked, fmt.Errorf("read what is no event (%v)", derr)
		case !reflect.DeepEqual(withoutNaN(got), withoutNaN(want)):
			return walked, fmt.Errorf("read %+v\nwant %+v", got, want)
		}
	}
	if derr != nil {
		return walked, nil
	}
	text, err := json.Marshal(want)
	if err != nil {
		return walked, err
	}
	if got, err := MarshalEvent(&want); err != nil || !bytes.Equal(got, text) {
		at := 0
		for at < min(len(got), len(text)) && got[at] == text[at] {
			at++
		}
		near := func(b []byte) []byte { return b[max(0, at-60):min(len(b), at+60)] }
		return walked, fmt.Errorf("at byte %d wrote ...%s...\nwant ...%s... (%v)", at, near(got), near(text), err)
	}
	return walked, nil
}

func TestWhatIsRecordedIsReadAndWrittenAsEncodingJSONDoes(t *testing.T) {
	lines := recordedLines(t)
	left := 0
	for i, line := range lines {
		if testing.Short() && i%7 > 0 {
			continue
		}
		walked, err := bothWays(line)
		if err != nil {
			t.Fatalf("%s\n%v", line, err)
		}
		if !walked {
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d of %d lines were left to encoding/json", left, len(lines))
	}
}

// Every field is walked over: each of every type alone, and all of them at once.
func TestEveryFieldIsWalked(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		for _, share := range []float64{1, 0.5, 0.05} {
			var e Event
			fill(reflect.ValueOf(&e).Elem(), rnd, share)
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if walked, err := bothWays(line); err != nil || !walked {
				t.Fatalf("seed %d: walked %t, %v", i, walked, err)
			}
		}
	}
}

// fill gives a share of the fields a value.
func fill(v reflect.Value, rnd *rand.Rand, share float64) {
	if v.Kind() != reflect.Struct && rnd.Float64() > share {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), rnd, share)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), rnd, share)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), rnd, share)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, rnd, 1)
		v.SetMapIndex(reflect.ValueOf("a"), value)
	case reflect.String:
		v.SetString([]string{"x", "r1.2", "a \"quoted\" <word> & ä", "line\nbreak", "\u2028\x7f", "not \xff UTF-8", strings.Repeat("long", 30)}[rnd.IntN(7)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(rnd.NormFloat64())
	case reflect.Int32:
		v.SetInt(int64(int32(rnd.Uint32())))
	default:
		v.SetInt((rnd.Int64() >> rnd.IntN(60)) % 1e17 * int64(1-2*rnd.IntN(2)))
	}
}

func TestLinesOfAnotherFormAreLeftToEncodingJSON(t *testing.T) {
	const line = `{"n":1,"kind":"run.cleanup","from":1,"to":1,"at":1,"source":"runner","note":{"what":"x","ok":true}}`
	for _, c := range []struct{ old, new string }{
		{`{"n":1,"kind":"run.cleanup"`, `{"kind":"run.cleanup","n":1`}, // another order
		{`"at":1`, `"at": 1`},
		{`"at":1`, `"At":1`},
		{`"at":1`, `"at":1,"at":1`},
		{`"note":{"what":"x","ok":true}`, `"note":{"what":"x","ok":true},"look":null`},
	} {
		text := strings.Replace(line, c.old, c.new, 1)
		walked, err := bothWays([]byte(text))
		if walked || err != nil {
			t.Errorf("%s: walked %t, %v", text, walked, err)
		}
		var e Event
		if err := new(Parser).Parse([]byte(text), &e); err != nil || e.Note == nil || e.Note.What != "x" || e.N != 1 {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{line[:len(line)-1], line + "}", line + " ", strings.Replace(line, `"at":1`, `"at":01`, 1), strings.Replace(line, `"at":1`, `"at":-`, 1),
		strings.Replace(line, `"at":1`, `"at":1.5`, 1), strings.Replace(line, `"at":1`, `"at":12345678901234567890`, 1),
		strings.Replace(line, `"from":1`, `"from":-9223372036854775808`, 1), strings.Replace(line, `"runner"`, `"run`+"\x01"+`ner"`, 1)} {
		if _, err := bothWays([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	var e Event
	if err := new(Parser).Parse([]byte(strings.Replace(line, `"at"`, `"new":{},"at"`, 1)), &e); err != nil || e.At != 1 {
		t.Errorf("a field that nobody knows: %+v, %v", e, err)
	}
}

func FuzzParse(f *testing.F) {
	lines := recordedLines(f)
	for i := 0; i < len(lines); i += 97 {
		f.Add(lines[i])
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		if _, err := bothWays(line); err != nil {
			t.Fatal(err)
		}
	})
}

// Next gives what Read gives, whatever is cut off, and however short the pieces are in which the file comes.
func TestTheReaderGivesWhatReadGives(t *testing.T) {
	var buf bytes.Buffer
	r, _ := NewRecorder(&buf, header, counter(), nil)
	for i := range 200 {
		if _, err := r.RecordNow(note(strings.Repeat("x", i*i*3))); err != nil {
			t.Fatal(err)
		}
	}
	for cut := buf.Len() - 150_000; cut < buf.Len(); cut += 30_011 {
		h, err := Read(bytes.NewReader(buf.Bytes()[:cut]))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewReader(iotest.OneByteReader(bytes.NewReader(buf.Bytes()[:cut])))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for {
			e, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil || !reflect.DeepEqual(withoutNaN(*e), withoutNaN(h.Events[n])) {
				t.Fatalf("event %d: %+v, %v", n, e, err)
			}
			n++
		}
		for i := range 50 {
			numbers := []int64{int64(n), 1, int64(i*7%n) + 1, int64(i*13%n) + 1, 2, int64(i*7%n) + 1}
			want := slices.Compact(slices.Sorted(slices.Values(numbers)))
			err := s.Marks().Events(bytes.NewReader(buf.Bytes()[:cut]), numbers, func(e *Event) {
				if e.N != want[0] || !reflect.DeepEqual(withoutNaN(*e), withoutNaN(h.Events[e.N-1])) {
					t.Fatalf("again: %+v, want %d", e, want[0])
				}
				want = want[1:]
			})
			if err != nil || len(want) > 0 {
				t.Fatalf("again: %v, and not %v", err, want)
			}
		}
		for _, n := range []int64{0, -1, int64(n) + 1, int64(n) + 200} {
			if err := s.Marks().Events(bytes.NewReader(buf.Bytes()[:cut]), []int64{n}, func(*Event) {}); err == nil {
				t.Fatalf("read event %d again, which was never there", n)
			}
		}
		if n != len(h.Events) || s.Torn() != h.Torn || s.Torn() == "" {
			t.Fatalf("%d events, want %d; torn %q, want %q", n, len(h.Events), s.Torn(), h.Torn)
		}
		if _, err := s.Next(); err != io.EOF {
			t.Fatalf("after the end: %v", err)
		}
	}
}

func TestAnEmptyLineIsNotTheEnd(t *testing.T) {
	var buf bytes.Buffer
	r, _ := NewRecorder(&buf, header, counter(), nil)
	_, _ = r.RecordNow(note("a"))
	buf.WriteString("\n")
	_, _ = r.RecordNow(note("b"))
	if h, err := Read(&buf); err == nil || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "line 3: EOF") {
		t.Errorf("%+v, %v", h, err)
	}
}

// What a recorded event and a read one cost: the histories of this repository, in their mixture.
func BenchmarkRecord(b *testing.B) {
	var events []Event
	for _, line := range recordedLines(b) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			b.Fatal(err)
		}
		events = append(events, e)
	}
	r, err := NewRecorder(io.Discard, header, counter(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := r.Record(events[i%len(events)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	lines := recordedLines(b)
	run := func(name string, one func(line []byte) error) {
		b.Run(name, func(b *testing.B) {
			bytes := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				line := lines[i%len(lines)]
				if err := one(line); err != nil {
					b.Fatal(err)
				}
				bytes += len(line)
			}
			b.SetBytes(int64(bytes / b.N))
		})
	}
	s := Reader{event: new(Event), codec: codec{names: new(names), slots: new(slots)}}
	run("walk", func(line []byte) error {
		if !s.codec.parse(line, s.event) {
			return errors.New("left to encoding/json")
		}
		return s.event.Check()
	})
	run("encoding/json", func(line []byte) error {
		var e Event
		if _, err := strictly(line, &e); err != nil {
			return err
		}
		return e.Check()
	})
}
