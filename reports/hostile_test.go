package reports

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

func hostileExperiment(text string) *experiments.Experiment {
	text = strings.ToValidUTF8(text, "") // as YAML is
	return &experiments.Experiment{
		Name: text, TimeScale: 1,
		System: experiments.System{Locks: []experiments.Lock{{Name: text, Key: text}}},
		Faults: []experiments.Fault{{ID: text, Spec: &fault.Kill{}}},
	}
}

func hostileHistory(text string) *history.History {
	fault := &history.Fault{ID: text, Shot: 1, Kind: "kill", Victim: text, Why: history.VoidReason(text), Detail: text}
	h := &history.History{Header: history.Header{Tool: text, Run: text, Experiment: text, Digest: text, Started: "2026-01-02T03:04:05Z"}}
	for _, e := range []history.Event{
		{Kind: history.FaultApplied, Op: text, Lock: text, Key: text, Fault: fault},
		{Kind: history.FaultVoid, Op: text, Fault: fault},
		{Kind: history.AbandonKind, Source: text, Lock: text, Key: text, Abandon: &history.Abandon{Reason: text}},
		{Kind: history.GapKind, Source: text, Coverage: &history.Coverage{Probe: text, Why: text}},
		{Kind: history.ReplicaExit, Replica: &history.Replica{Name: text, Incarnation: text, Called: text, Exit: text}},
		{Kind: history.RunAbort, Note: &history.Note{What: text, Why: text}},
		{Kind: history.RunCleanup, Note: &history.Note{What: text, Why: text}},
		{Kind: history.RunEnd, Note: &history.Note{What: text, Why: text}},
	} {
		e.N = int64(len(h.Events)) + 1
		h.Events = append(h.Events, e)
	}
	return h
}

// rendered is Markdown as an independent renderer shows it, raw HTML and automatic links included.
func rendered(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tag = regexp.MustCompile(`<(/?[a-zA-Z!?][a-zA-Z0-9]*)`)

// shapeOf lists the elements of a page in their order, without what is in them.
func shapeOf(page string) string {
	var tags []string
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		tags = append(tags, m[1])
	}
	return strings.Join(tags, " ")
}

// Whatever stands in a key or a note, the page has the elements that it has with a harmless word in that place.
func TestMarkdownCannotBeBroken(t *testing.T) {
	want := map[string]string{}
	for _, text := range append([]string{"harmless"}, attacks...) {
		r := hostile(text)
		for name, doc := range map[string]string{
			"md":         written(t, markdownOf, r),
			"postmortem": written(t, postmortemOf, r),
			"unjudged":   unjudged(t, text),
		} {
			page := rendered(t, doc)
			switch got := shapeOf(page); {
			case text == "harmless":
				if want[name] = got; name != "unjudged" && !strings.Contains(got, "/li /ul table thead") && !strings.Contains(got, "/p table thead") && !strings.Contains(got, "/h2 table thead") {
					t.Errorf("%s has no table of its own:\n%s", name, page)
				}
			case text != "" && got != want[name]:
				t.Errorf("%s: %q changes the page:\n%s\nwant\n%s\n%s", name, text, got, want[name], doc)
			}
			for _, bad := range []string{"<script", "<img", "href", "onerror=\"", "@everyone", "\x1b", "\x00", "\u202e", "\n::"} {
				if strings.Contains(page, bad) || strings.Contains(doc, bad) && bad != "href" && bad != "onerror=\"" {
					t.Errorf("%s: %q leaves %q in the page:\n%s", name, text, bad, page)
				}
			}
		}
	}
}

func unjudged(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := MarkdownUnjudged(&b, text, "refused", text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is escaped reads as it was; and where nothing is dangerous, nothing is escaped.
func TestMarkdownReadsAsItWas(t *testing.T) {
	for _, text := range append(attacks, "kill_leader#3: takeover max <= 5s (250ms at 0.05), [626.56, 626.84]ms, ttl 1s - op 200ms", "a & b, x < y", "!important") {
		page := rendered(t, "x "+doc.Escape(text))
		got := strings.TrimSuffix(strings.TrimPrefix(page, "<p>x "), "</p>\n")
		got = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&quot;", `"`, "\u200b", "").Replace(got)
		if want := strings.ReplaceAll(doc.Clean(text), "\u200b", ""); got != want && "x "+want != strings.TrimSuffix(got, "\n") && want != "" {
			t.Errorf("%q reads as %q", want, got)
		}
	}
	for _, plain := range []string{"takeover max <= 5s (250ms at 0.05)", "[626.56, 626.84]ms", "kill_leader#3", "rate <= 95% (0 of 1 fault)", "a & b"} {
		if got := doc.Escape(plain); got != plain {
			t.Errorf("%q is written as %q", plain, got)
		}
	}
	for _, c := range [][2]string{{"a", "`a`"}, {"a`b", "``a`b``"}, {"`a`", "`` `a` ``"}, {"", ""}} {
		if got := doc.Code(c[0]); got != c[1] {
			t.Errorf("code(%q) = %q, want %q", c[0], got, c[1])
		}
	}
	if got := fmt.Sprint(shapeOf(rendered(t, doc.Code("<b>`` ` x")))); got != "p code /code /p" {
		t.Errorf("a code span became %s", got)
	}
}

// Errors that are joined come one a line, and stand on one line as a list, in every text.
func TestJoinedErrorsAreAList(t *testing.T) {
	joined := fmt.Errorf("end of the run:\n%w", errors.Join(errors.New("stop the fleet: late"), errors.New("close the store: EOF\n"))).Error()
	const want = "end of the run: stop the fleet: late; close the store: EOF"
	e := hostileExperiment("x")
	said := map[string]string{
		"story": NewStory(e).Line(history.Event{Kind: history.RunCleanup, Note: &history.Note{What: "stand", Why: joined}}),
		"clean": doc.Clean(joined), "painted": doc.Painted(joined, true), "line": HarmlessLine("  NOT UNDONE  " + joined),
	}
	said["item"] = doc.Text(&doc.Document{Tail: []doc.Item{doc.Of("left", joined)}}, doc.Full, doc.Look{Width: 200})
	if !strings.HasPrefix(said["line"], "  NOT") {
		t.Errorf("the indent is lost: %q", said["line"])
	}
	for name, text := range said {
		if !strings.Contains(text, want) || strings.Contains(text, "\uFFFD") {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
	}
}

// A text may be cleaned more than once on its way into a report: it reads as after the first time.
func TestCleanTextStaysAsItIs(t *testing.T) {
	for _, text := range append([]string{"##[error]x", " ::error::y", "###[a ##teamcity[b"}, attacks...) {
		for name, again := range map[string]func(string) string{"clean": doc.Clean, "harmless": Harmless} {
			if once := doc.Clean(text); again(once) != once {
				t.Errorf("%s: %q became %q", name, once, again(once))
			}
		}
	}
}

// What a terminal or the log of a CI step obeys is in no text of others.
func TestTheTerminalIsNotObeyedByOthers(t *testing.T) {
	for _, text := range append([]string{"a\n::set-output name=verdict::pass", "x ##[error]y", "\x1b]0;title\x07\x1b[2J\u009b2J\u202e", strings.Repeat("long ", 30) + "::error::z"}, attacks...) {
		r := hostile(text)
		var said []string
		story, status := NewStory(r.Experiment), NewStatus(r.Experiment)
		for _, e := range hostileHistory(text).Events {
			said = append(said, story.Line(e))
			status.Observe(e)
		}
		said = append(append(said, status.Render(80, time.Minute)...), Harmless("1\n2 "+text))
		for _, color := range []bool{false, true} {
			var b bytes.Buffer
			if err := Terminal(&b, r.Judgement, Options{Color: color, Folder: text, Verbose: true}); err != nil {
				t.Fatal(err)
			}
			page := b.String()
			if color {
				if page = inks.ReplaceAllString(page, ""); page == b.String() {
					t.Errorf("%q: no colour is left where colour was asked for", text)
				}
			}
			said = append(said, page)
		}
		for line := range strings.Lines(strings.Join(said, "\n")) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\u200b' }) || !utf8.ValidString(line) {
				t.Errorf("%q: the terminal obeys %q", text, line)
			}
			if obeyed.MatchString(line) || strings.Contains(line, "hunter2") {
				t.Errorf("%q: a CI obeys, or a password is told: %q", text, line)
			}
		}
	}
}

var inks = regexp.MustCompile("\x1b\\[(1|1;31|1;32|1;33|0)m")
