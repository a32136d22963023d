package holders

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// look makes one look, at an instant of its own, and spells its events.
func look(t *testing.T, p interface {
	Look(context.Context, bool) (func(history.Span) []history.Event, error)
}, at int64, final bool) (said []string) {
	t.Helper()
	events, err := p.Look(t.Context(), final)
	testkit.Must(t, err)
	for _, e := range events(history.Span{From: at, To: at + 1}) {
		b := e.Belief
		text := fmt.Sprintf("%s %s %v", b.Incarnation, e.Key, b.Holds)
		if b.Gone != "" {
			text += " " + b.Gone
		}
		if b.Prev != nil {
			text += fmt.Sprintf(" after %d", b.Prev.From)
		}
		said = append(said, strings.Join(strings.Fields(text), " "))
	}
	return said
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// An event tells of each change, with the last look that showed what was before; the final look tells of all.
func TestBeliefsTellOfChanges(t *testing.T) {
	answers := []Said{{Holds: true}, {}}
	lives := []Life{{Incarnation: "r1.1"}, {Incarnation: "r2.1"}}
	b := NewBeliefs(BeliefOptions{Lock: "leader", By: "http", Lives: func() []Life { return lives }, Clock: func() int64 { return 0 },
		Ask: func(context.Context, func() int64, []Life) []Said { return slices.Clone(answers) }})
	same(t, "first", look(t, b, 10, false), "r1.1 true", "r2.1 false")
	same(t, "nothing new", look(t, b, 20, false))
	answers = []Said{{Gone: history.GoneTimeout}, {Holds: true}}
	same(t, "changed", look(t, b, 30, false), "r1.1 false timeout after 20", "r2.1 true after 20")
	same(t, "last", look(t, b, 40, true), "r1.1 false timeout after 30", "r2.1 true after 30")
}

// What an endpoint answers is a yes, a no, or no answer.
func TestEndpointsAnswer(t *testing.T) {
	status, body := http.StatusOK, "leader"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	for _, c := range []struct {
		status int
		body   string
		leads  string
		want   Said
	}{
		{200, "anything", "", Said{Holds: true}},
		{503, "", "", Said{}},
		{404, "", "", Said{}},
		{500, "", "", Said{Gone: history.GoneUnreadable, Why: "it answers HTTP 500 Internal Server Error"}},
		{401, "leader", "leader", Said{Gone: history.GoneUnreadable, Why: "it answers HTTP 401 Unauthorized"}},
		{200, "follower", "^leader", Said{}},
		{503, "leader", "^leader", Said{Holds: true}},
	} {
		status, body = c.status, c.body
		e := &Endpoint{URL: func(Life) string { return server.URL }}
		if c.leads != "" {
			e.Leads = regexp.MustCompile(c.leads)
		}
		got := e.Tell(t.Context(), func() int64 { return 7 }, []Life{{}})[0]
		if got.At != (history.Span{From: 7, To: 7}) {
			t.Errorf("bracket %+v", got.At)
		}
		if got.At = (history.Span{}); got != c.want {
			t.Errorf("%d %q by %q: %+v, want %+v", c.status, c.body, c.leads, got, c.want)
		}
		_ = e.Close()
	}
	away := (&Endpoint{URL: func(Life) string { return "http://127.0.0.1:1/" }}).Tell(t.Context(), func() int64 { return 0 }, []Life{{}})[0]
	if away.Gone != history.GoneRefused {
		t.Errorf("nobody there: %+v", away)
	}
}

// A command names all that lead; one that fails, or names a stranger, says nothing of anybody.
func TestListedLeaders(t *testing.T) {
	lives := []Life{{Name: "a", PID: 11}, {Name: "b", PID: 12}}
	for script, want := range map[string][]Said{
		"echo a; echo 12": {{Holds: true}, {Holds: true}},
		"true":            {{}, {}},
		"echo c":          {{Gone: history.GoneUnreadable}, {Gone: history.GoneUnreadable}},
		"exit 3":          {{Gone: history.GoneUnreadable}, {Gone: history.GoneUnreadable}},
	} {
		got := Listed(command.Command{Words: []string{"sh", "-c", script}, Within: 20 * time.Second})(t.Context(), nil, lives)
		for i := range got {
			if got[i].Holds != want[i].Holds || got[i].Gone != want[i].Gone || (got[i].Gone == "") != (got[i].Why == "") {
				t.Errorf("%q: %+v", script, got)
			}
		}
	}
}

// Logs tell of each change; what was before reading began is told by the last line, unless it may be that of an earlier life.
func TestLogsTellOfBelief(t *testing.T) {
	dir, now := t.TempDir(), int64(100)
	write := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		testkit.Must(t, err)
		defer f.Close()
		fmt.Fprint(f, text)
	}
	life := func(incarnation, name string, since int64) Life {
		return Life{Incarnation: incarnation, Name: name, Since: since, Log: filepath.Join(dir, name+".log")}
	}
	lives := []Life{life("r1.1", "a", 0), life("r2.1", "b", 0)}
	open := func(loop bool, gain, lose string) *BeliefLog {
		b := NewBeliefLog(BeliefLogOptions{Lock: "l", Gain: regexp.MustCompile(gain), Lose: regexp.MustCompile(lose), Glob: filepath.Join(dir, "*.log"), Loop: loop,
			Of: func(key string) bool { return strings.HasPrefix(key, "j:") }, Lives: func() []Life { return lives }, Clock: func() int64 { now++; return now }})
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	write("a", "won\nidle\n")
	write("b", "won\nlost\n")
	b, keyed := open(true, "^won", "^lost"), open(false, `^got (?P<key>\S+)`, `^gave (?P<key>\S+)`)
	same(t, "before", look(t, b, 200, false), "r1.1 true", "r2.1 false")
	same(t, "before, of keys", look(t, keyed, 200, false))
	write("a", "lost\ngot j:1\ngot other\n")
	write("b", "won\n")
	now = 300
	same(t, "changes", look(t, b, 310, false), "r1.1 false", "r2.1 true")
	same(t, "changes of keys", look(t, keyed, 310, false), "r1.1 j:1 true")
	lives = []Life{lives[0], life("r2.2", "b", 400)} // the leader died, and another life writes to its log
	now = 410
	same(t, "a new life", look(t, b, 420, false), "r2.2 false")
	write("b", "won\n")
	same(t, "a line of it", look(t, b, 430, false), "r2.2 true")
	same(t, "last", look(t, b, 440, true), "r1.1 false after 440", "r2.2 true after 440")

	lives = []Life{life("r1.1", "a", 0), life("r3.1", "c", 0), life("r4.1", "d", 0)}
	write("c", "won\n")
	write("d", "won\n")
	same(t, "two may be of an earlier life", look(t, open(true, "^won", "^lost"), 500, false), "r1.1 false", "r3.1 false unreadable", "r4.1 false unreadable")

	lives = []Life{life("r5.1", "e", 0), life("r6.1", "f", 0)}
	for name, size := range map[string]int64{"e": longAgo / 16, "f": longAgo} { // of nothing that is told
		write(name, "won\n")
		testkit.Must(t, os.Truncate(filepath.Join(dir, name+".log"), size))
		write(name, "\nidle\n")
	}
	same(t, "long ago", look(t, open(true, "^won", "^lost"), 600, false), "r5.1 true", "r6.1 false unreadable")
}

// Lines of pods are handed over, each as of the life that wrote it: what its log had before, what it tells, and what nobody could read.
func TestPodsLogsTellOfBelief(t *testing.T) {
	lives := []Life{{Incarnation: "r1.1"}, {Incarnation: "r2.1"}, {Incarnation: "r3.1"}}
	open := func(loop bool, gain, lose string) *BeliefLog {
		return NewBeliefLog(BeliefLogOptions{Lock: "l", Gain: regexp.MustCompile(gain), Lose: regexp.MustCompile(lose), Loop: loop,
			Of: func(key string) bool { return key == "j:1" }, Lives: func() []Life { return lives }, Clock: func() int64 { return 100 }})
	}
	line := func(text string) follow.Line {
		return follow.Plain([]byte(text), false, history.Span{From: 20, To: 30})
	}
	b := open(true, "^won", "^lost")
	defer b.Close()
	at := history.Span{From: 1, To: 2}
	b.Past("r1.1", at, []follow.Line{line("lost"), line("won"), line("idle")}, "older ones are gone")
	b.Past("r2.1", at, []follow.Line{line("won"), line("lost")}, "")
	b.Past("r3.1", at, []follow.Line{line("idle")}, "older ones are gone")
	b.Past("r4.1", at, nil, "")
	b.Past("r5.1", at, []follow.Line{line("won")}, "") // in its own log: it leads beside the first
	b.Line("r2.1", line("won"))
	b.Line("r2.1", line("idle"))
	same(t, "changes", look(t, b, 310, false), "r1.1 true", "r2.1 false", "r3.1 false unreadable", "r4.1 false", "r5.1 true", "r2.1 true")
	same(t, "nothing new", look(t, b, 320, false))
	same(t, "last", look(t, b, 330, true), "r1.1 true after 330", "r2.1 true after 330")

	keyed := open(false, `^got (?P<key>\S+)`, `^gave (?P<key>\S+)`)
	defer keyed.Close()
	keyed.Past("r1.1", at, []follow.Line{line("got j:1")}, "") // of one of many keys
	keyed.Line("r1.1", line("got j:2"))
	keyed.Line("r1.1", line("got j:1"))
	same(t, "changes of keys", look(t, keyed, 310, false), "r1.1 j:1 true")

	b.Cut("r1.1", history.Span{From: 40, To: 50})
	b.Line("r1.1", follow.Plain([]byte("lo"), true, at))
	take, err := b.Look(t.Context(), false)
	testkit.Must(t, err)
	events := take(at)
	if len(events) != 2 || events[0].Kind != history.GapKind || events[0].Span != (history.Span{From: 40, To: 50}) || events[0].Coverage.Why != "the log of r1.1 was not followed" || events[1].Kind != history.UnreadKind {
		t.Errorf("%+v", events)
	}
}
