package follow

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What a log has, and the lines that its writers meant.
func TestLinesAreAsTheirWritersMeantThem(t *testing.T) {
	docker := func(text, stream string) string {
		return `{"log":"` + text + `","stream":"` + stream + `","time":"2026-01-01T00:00:0` + map[string]string{"stdout": "1", "stderr": "2"}[stream] + `.5Z"}`
	}
	cri := func(tag, stream, text string) string {
		return "2026-01-01T00:00:01.123456789+02:00 " + stream + " " + tag + " " + text
	}
	for _, c := range []struct {
		name  string
		raw   []string
		lines []string // text, then whole where that is another
		cut   []string // texts of lines that never ended
	}{
		{"plain", []string{"a", "", "b"}, []string{"a", "", "b"}, nil},
		{"CR, BOM and a hole", []string{"\xef\xbb\xbfa\r", "\x00\x00b"}, []string{"a", "b"}, nil},
		{"colours", []string{"\x1b[32mINFO\x1b[0m got \x1b[1;36mkey=\x1b[0mk\x1b]0;title\x07 token=t\x1b[0m"}, []string{"INFO got key=k token=t"}, nil},
		{"docker", []string{docker(`one\r\n`, "stdout")}, []string{"one"}, nil},
		{"docker's pieces, of two streams", []string{docker("on", "stdout"), docker(`err\n`, "stderr"), docker("e a", "stdout"), docker(`gain\n`, "stdout")}, []string{"err", "one again"}, nil},
		{"docker's colours", []string{docker(`\u001b[1mone\u001b[0m\n`, "stdout")}, []string{"one"}, nil},
		{"CRI", []string{cri("F", "stdout", "one two")}, []string{"one two"}, nil},
		{"CRI's pieces, of two streams", []string{cri("P", "stdout", "on"), cri("F", "stderr", "err"), cri("P:x", "stdout", "e a"), cri("F", "stdout", "gain")}, []string{"err", "one again"}, nil},
		{"the last piece never came", []string{cri("P", "stderr", "half")}, nil, []string{"half"}},
		{"docker, spaced", []string{`{"log": "one\n", "stream": "stdout", "time": "2026-01-01T00:00:01Z"}`}, []string{"one"}, nil},
		{"no envelopes", []string{`{"log":"text","stream":"audit","time":"2026-01-01T00:00:01Z"}`, "2026 stdout F text", "2026-01-01T00:00:01Z stdout X text", `{"log": 7}`},
			[]string{`{"log":"text","stream":"audit","time":"2026-01-01T00:00:01Z"}`, "2026 stdout F text", "2026-01-01T00:00:01Z stdout X text", `{"log": 7}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Lines
			var got, cut []string
			for i, raw := range c.raw {
				l.Add([]byte(raw), false, history.At(int64(i)), func(x Line) { got = append(got, string(x.Text)) })
			}
			l.End(99, func(x Line) { cut = append(cut, string(x.Text)) })
			if !slices.Equal(got, c.lines) || !slices.Equal(cut, c.cut) {
				t.Errorf("%q and %q cut, want %q and %q", got, cut, c.lines, c.cut)
			}
		})
	}
}

// A joined line stands in one envelope, and was written from its first piece to its last.
func TestPiecesKeepTheirEnvelopeAndTheirTime(t *testing.T) {
	for _, c := range []struct{ first, last, whole string }{
		{"2026-01-01T00:00:01Z stdout P a", "2026-01-01T00:00:02Z stdout F b", "2026-01-01T00:00:02Z stdout F ab"},
		{`{"log":"a","stream":"stdout","time":"2026-01-01T00:00:01Z"}`, `{"log":"b\n","stream":"stdout","time":"2026-01-01T00:00:02Z"}`,
			`{"log":"ab\n","stream":"stdout","time":"2026-01-01T00:00:02Z"}`},
	} {
		var l Lines
		var got []Line
		tell := func(x Line) { got = append(got, x) }
		l.Add([]byte(c.first), false, history.Span{From: 3, To: 4}, tell)
		l.Add([]byte(c.last), false, history.Span{From: 5, To: 6}, tell)
		if len(got) != 1 || string(got[0].Text) != "ab" || string(got[0].Whole) != c.whole || got[0].At != (history.Span{From: 3, To: 6}) || got[0].Cut {
			t.Errorf("%+v, want %s", got, c.whole)
		}
	}
	var l Lines
	var got Line
	for range Limit/1000 + 1 {
		l.Add([]byte("2026-01-01T00:00:01Z stdout P "+strings.Repeat("x", 1000)), false, history.Span{}, nil)
	}
	l.Add([]byte("2026-01-01T00:00:02Z stdout F end"), false, history.Span{}, func(x Line) { got = x })
	if len(got.Text) != Limit || !got.Cut {
		t.Errorf("%d bytes of a line without end, cut %v", len(got.Text), got.Cut)
	}
}

func TestTheEndOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	testkit.Must(t, os.WriteFile(path, []byte("first\n2026-01-01T00:00:01Z stdout P a\n2026-01-01T00:00:02Z stdout F b\nunended"), 0o600))
	var got []string
	whole, err := Tail(path, 75, history.Span{}, func(x Line) {
		got = append(got, string(x.Text))
		if x.Cut != (string(x.Text) == "unended") {
			t.Errorf("%s: cut %v", x.Text, x.Cut)
		}
	})
	if err != nil || whole || !slices.Equal(got, []string{"ab", "unended"}) {
		t.Errorf("whole %t, %v, %q", whole, err, got)
	}
	if whole, err := Tail(t.TempDir(), 80, history.Span{}, nil); err != nil || !whole {
		t.Errorf("a folder has no lines: %v", err)
	}
}

// A pattern is for what a writer wrote or, where it has none of that, for the line as the log has it.
func TestALineIsFoundInItsEnvelopeToo(t *testing.T) {
	var told []Line
	new(Lines).Add([]byte("2026-11-27T01:04:35.949Z stdout F \x1b[1mtaken\x1b[0m key=a"), false, history.Span{}, func(l Line) { told = append(told, l) })
	for pattern, key := range map[string]string{`^taken key=(?P<key>\S+)$`: "a", `stdout F .*key=(?P<key>\S+)`: "a", `key=a(?P<key>x)?`: "", `no such`: "nowhere"} {
		p, found := regexp.MustCompile(pattern), "nowhere"
		if text, groups := told[0].Find(p); groups != nil {
			found = Group(p, "key", text, groups)
		}
		if found != key {
			t.Errorf("%s finds %q, want %q", pattern, found, key)
		}
	}
}
