package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// world stands for what records change: it notes what is reverted, in order.
type world struct {
	reverted []string
	fail     map[string]error
}

func (w *world) reverters() map[string]Reverter {
	revert := func(ctx context.Context, r Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.reverted = append(w.reverted, r.Folder)
		if errors.Is(w.fail[r.Folder], errPanic) {
			panic("as asked")
		}
		return w.fail[r.Folder]
	}
	return map[string]Reverter{"pause": revert, "latency": revert}
}

var errPanic = errors.New("panic")

// recoverAt undoes a journal by its path, whoever may write to its folder.
func recoverAt(ctx context.Context, path string, reverters map[string]Reverter, by string) (Report, error) {
	f, err := foundAt(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return f.Recover(ctx, reverters, by)
}

func overdueAt(t *testing.T, path string, reverters map[string]Reverter, at time.Time) (Report, error) {
	t.Helper()
	f, err := foundAt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Overdue(t.Context(), reverters, "watchdog", at, false)
}

func foundAt(path string) (*Found, error) {
	if filepath.Base(path) == File {
		return Open(filepath.Dir(path), false)
	}
	f := &Found{path: path} // a file in memory has no folder
	var err error
	if f.root, err = os.OpenRoot(os.TempDir()); err != nil {
		return nil, err
	}
	if f.file, f.readOnly = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0); f.readOnly != nil {
		if f.file, err = os.Open(path); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// rec is a record that is told apart by its folder.
func rec(kind, name string) Record { return Record{Kind: kind, Folder: name} }

func create(t *testing.T, h Header) (*Journal, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), File)
	j, err := Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	return j, path
}

// do makes a journal by a script of "intent a", "injected a" and so on, and gives its lock back without closing it, as a dead runner does.
func do(t *testing.T, h Header, script ...string) string {
	t.Helper()
	j, path := create(t, h)
	ids := map[string]int{}
	for _, step := range script {
		state, name, _ := strings.Cut(step, " ")
		var err error
		switch {
		case state == string(Intent):
			ids[name], err = j.Intend(rec("pause", name))
		default:
			err = j.Mark(ids[name], State(state), "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever byte a journal is cut off at, everything that may have been done is undone, latest first, and the file stays readable.
func TestAJournalCutAtEveryByteIsUndone(t *testing.T) {
	whole, err := os.ReadFile(do(t, Header{Run: "r", Opened: time.Unix(1e9, 0)},
		"intent a", "injected a", "intent b", "undo-intent a", "undone-verified a", "injected b", "intent c", "undo-intent b", "dirty b"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), File)
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		// A line without its newline, but with all else, counts; what was cut off further in does not.
		var want []string
		for _, name := range []string{"c", "b", "a"} {
			said := func(state string) bool {
				for line := range strings.SplitSeq(string(whole[:n]), "\n") {
					id := map[string]string{"a": `"id":1,`, "b": `"id":2,`, "c": `"id":3,`}[name]
					if strings.Contains(line, id) && strings.Contains(line, `"state":"`+state+`"`) && strings.HasSuffix(line, "}") && strings.Count(line, "{") == strings.Count(line, "}") {
						return true
					}
				}
				return false
			}
			if said("intent") && !said("undone-verified") {
				want = append(want, name)
			}
		}
		var w world
		if _, err := recoverAt(t.Context(), path, w.reverters(), "recover"); err != nil {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		if !slices.Equal(w.reverted, want) {
			t.Fatalf("cut at byte %d: reverted %v, want %v", n, w.reverted, want)
		}
		c, err := Read(path)
		if err != nil || !c.Closed || len(c.Open()) > 0 {
			t.Fatalf("cut at byte %d: after recovery: %+v, %v", n, c, err)
		}
		again := world{}
		if r, err := recoverAt(t.Context(), path, again.reverters(), "recover"); err != nil || !r.Closed || again.reverted != nil {
			t.Fatalf("cut at byte %d: a second recovery did something: %v %v", n, again.reverted, err)
		}
	}
}

// Who has read a journal undoes what it said, whatever becomes of the file; what the file still tells of that is heard.
func TestAJournalIsUndoneFromMemory(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(whole string) string
		want  string
	}{
		"emptied":                       {func(string) string { return "" }, "b a"},
		"only its header is left":       {func(whole string) string { return whole[:strings.Index(whole, "\n")+1] }, "b a"},
		"one record is cut off":         {func(whole string) string { return whole[:strings.Index(whole, `{"id":2`)] }, "b a"},
		"another journal, longer":       {func(whole string) string { return strings.ReplaceAll(whole, `"run":"r"`, `"run":"another"`) }, "b a"},
		"nonsense":                      {func(whole string) string { return whole + `{"hello":1}` + "\n" }, "b a"},
		"emptied, and the runner wrote": {func(string) string { return `{"id":2,"state":"undone-verified"}` + "\n" }, "a"},
		"emptied, and the runner ended": {func(string) string { return `{"id":2,"state":"undone-verified"}` + "\n" + `{"closed":true}` + "\n" }, ""},
	} {
		path := do(t, Header{Run: "r"}, "intent a", "injected a", "intent b", "injected b")
		f, err := foundAt(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Look()
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := c.spoil(string(whole))
		if err := os.WriteFile(path, []byte(spoilt), 0); err != nil {
			t.Fatal(err)
		}
		var w world
		r, err := f.Recover(t.Context(), w.reverters(), "watchdog")
		if got := strings.Join(w.reverted, " "); got != c.want || len(r.Left()) > 0 || !r.Closed && !errors.Is(err, ErrLost) || f.Lost() == nil {
			t.Errorf("%s: reverted %q, want %q; %v, left %v", name, got, c.want, err, r.Left())
		}
		if after, _ := os.ReadFile(path); string(after) != spoilt {
			t.Errorf("%s: something was written to it: %s", name, after)
		}
		w = world{}
		if _, err := f.Recover(t.Context(), w.reverters(), "watchdog"); w.reverted != nil {
			t.Errorf("%s: undone twice: %v (%v)", name, w.reverted, err)
		}
		_ = f.Close()
	}
}

// A recovery may be cut off as well: the second one goes on after its torn line.
func TestARecoveryCutAtEveryByteIsUndone(t *testing.T) {
	path := do(t, Header{Run: "r"}, "intent a", "intent b")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before = before[:len(before)-3] // the runner's last line is torn
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recoverAt(t.Context(), path, (&world{}).reverters(), "watchdog"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(before); n <= len(whole); n++ {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := recoverAt(t.Context(), path, (&world{}).reverters(), "recover"); err != nil {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		if c, err := Read(path); err != nil || !c.Closed || len(c.Entries) != 1 || c.Entries[0].State != Undone {
			t.Fatalf("cut at byte %d: %+v, %v", n, c, err)
		}
	}
}

func TestEveryRecordIsTriedEvenIfOthersFail(t *testing.T) {
	j, path := create(t, Header{Run: "r"})
	for _, r := range []Record{rec("pause", "a"), rec("pause", "b"), rec("unheard of", "c"), rec("latency", "d"), rec("pause", "e")} {
		if _, err := j.Intend(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err == nil {
		t.Error("a journal with five open records was closed")
	}
	w := world{fail: map[string]error{"b": errors.New("no answer"), "d": errPanic}}
	over, cancel := context.WithCancel(t.Context())
	cancel() // an operator who is impatient keeps nothing from being tried
	r, err := recoverAt(over, path, w.reverters(), "recover")
	if err != nil || !slices.Equal(w.reverted, []string{"e", "b", "a", "d"}) { // pauses first, the latest of them first
		t.Errorf("reverted %v, %v", w.reverted, err)
	}
	var left []string
	for _, o := range r.Left() {
		left = append(left, o.Record.Folder+": "+o.Err.Error())
	}
	want := []string{`b: no answer`, `d: undo latency: panic: as asked`, `c: this lockdrill does not know how "unheard of" is undone`}
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	c, err := Read(path)
	if err != nil || c.Closed || len(c.Open()) != 3 || c.Open()[0].State != Dirty || c.Open()[0].Why != "no answer" || c.Open()[0].By != "recover" {
		t.Errorf("journal after it: %+v, %v", c, err)
	}
	w = world{}
	all := w.reverters()
	all["unheard of"] = all["pause"]
	if r, err := recoverAt(t.Context(), path, all, "recover"); err != nil || len(r.Left()) > 0 || !slices.Equal(w.reverted, []string{"b", "d", "c"}) {
		t.Errorf("the second time: reverted %v, left %v, %v", w.reverted, r.Left(), err)
	}
	if c, err := Read(path); err != nil || !c.Closed {
		t.Errorf("not closed: %+v, %v", c, err)
	}
}

// What cannot be written down any more is undone nevertheless, and the journal is not reported as closed.
func TestUndoingOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full:", err)
	}
	defer full.Close()
	j := &Journal{file: full, by: "recover", states: map[int]Entry{}}
	var w world
	o, err := j.undo(t.Context(), Entry{ID: 1, Record: rec("pause", "a"), State: Injected}, w.reverters()["pause"])
	if err == nil || o.Err != nil || !slices.Equal(w.reverted, []string{"a"}) {
		t.Errorf("undone %v, outcome %v, error %v; want it undone, and an error of the journal", w.reverted, o.Err, err)
	}
}

// A journal that only can be read, on a file system that has become read-only, is undone; the error says once that nothing is written.
func TestAReadOnlyJournalIsUndone(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write to any file")
	}
	path := do(t, Header{Run: "r"}, "intent a", "intent b")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	undoneUnwritten(t, path)
}

// undoneUnwritten recovers a journal to which nothing can be added.
func undoneUnwritten(t *testing.T, path string) {
	t.Helper()
	var w world
	r, err := recoverAt(t.Context(), path, w.reverters(), "recover")
	if err == nil || strings.Contains(err.Error(), "\n") || len(r.Left()) > 0 || !slices.Equal(w.reverted, []string{"b", "a"}) {
		t.Errorf("reverted %v, left %v, %v", w.reverted, r.Left(), err)
	}
	if c, err := Read(path); err != nil || c.Closed || len(c.Open()) != 2 {
		t.Errorf("%+v, %v; want it as it was", c, err)
	}
}

func TestAProcessOfAnotherHostIsNotJudgedFromHere(t *testing.T) {
	j, path := create(t, Header{Run: "r", Hostname: "elsewhere.invalid"})
	self := Find(os.Getpid())
	for _, r := range []Record{{Kind: "pause", Process: &self}, {Kind: "latency", Folder: "server"}} {
		if _, err := j.Intend(r); err != nil {
			t.Fatal(err)
		}
	}
	_ = j.Close() // not all is undone
	var w world
	r, err := recoverAt(t.Context(), path, w.reverters(), "recover")
	if err != nil || len(r.Left()) != 1 || !strings.Contains(r.Left()[0].Err.Error(), "elsewhere.invalid") || !slices.Equal(w.reverted, []string{"server"}) {
		t.Errorf("left %+v, reverted %v, %v", r.Left(), w.reverted, err)
	}
}

// A runner that hangs keeps its lock: what is overdue is ended all the same, what is not, or cannot be, is left to it.
func TestOverdueIsEndedPastTheRunnersLock(t *testing.T) {
	now := time.Now()
	j, path := create(t, Header{Run: "r", Deadline: now.Add(time.Hour)})
	defer j.file.Close()
	due, later, stand, other := rec("pause", "due"), rec("pause", "later"), rec("latency", "stand"), rec("worker's", "other")
	due.Until, later.Until, other.Until = now.Add(-time.Second), now.Add(time.Minute), now.Add(-time.Second)
	var ids []int
	for _, r := range []Record{due, later, stand, other} {
		id, err := j.Intend(r)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	look := func(at time.Time, want ...string) {
		t.Helper()
		var w world
		if _, err := overdueAt(t, path, w.reverters(), at); err != nil || !slices.Equal(w.reverted, want) {
			t.Errorf("reverted %v, %v; want %v", w.reverted, err, want)
		}
	}
	look(now, "due")
	look(now)                                            // once is enough
	if err := j.Mark(ids[0], Injected, ""); err != nil { // the runner wakes up between writing down and doing
		t.Fatal(err)
	}
	look(now, "due")
	look(now.Add(2*time.Hour), "later", "stand")
	for _, s := range []State{UndoIntent, Dirty} { // the runner is late with its own undoing
		if err := j.Mark(ids[0], s, "late"); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Read(path)
	if err != nil || len(c.Open()) != 1 || c.Open()[0].Record.Folder != "other" || c.Closed {
		t.Errorf("open %+v, %v; want the one without a reverter", c.Open(), err)
	}
}

func TestByHandNamesWhatToDo(t *testing.T) {
	way := &ProxyRoute{API: "http://127.0.0.1:8474", Proxy: "run r1", Toxics: []string{"f#1"}, Down: true}
	store := &Store{Addr: "10.0.0.1:6380", DB: 2, TLS: true, PasswordEnv: "PASS"}
	for _, c := range []struct {
		r    Record
		want []string
	}{
		{Record{Kind: "pause", Process: &Process{PID: 7}}, []string{"kill -CONT -- -7"}},
		{Record{Kind: StandServer, Process: &Process{PID: 7}, Folder: "/x y"}, []string{"kill -KILL -- -7", "rm -r '/x y'"}},
		{Record{Kind: "latency", Route: way}, []string{`curl -X DELETE 'http://127.0.0.1:8474/proxies/run r1/toxics/f#1'`, `curl -X POST -d '{"enabled":true}' 'http://127.0.0.1:8474/proxies/run r1'`}},
		{Record{Kind: "latency", Routes: []ProxyRoute{{API: "http://a:1", Proxy: "p", Toxics: []string{"t"}}, {API: "http://a:1", Proxy: "q", Toxics: []string{"t"}}}},
			[]string{"curl -X DELETE http://a:1/proxies/p/toxics/t", "curl -X DELETE http://a:1/proxies/q/toxics/t"}},
		{Record{Kind: StandKeys, Store: &Store{Addr: "h:1"}, Key: &Key{Name: "lockdrill:r:"}}, []string{
			`redis-cli -h h -p 1 -n 0 --scan --pattern 'lockdrill:r:*' | while read -r key; do redis-cli -h h -p 1 -n 0 unlink "$key"; done`,
			`redis-cli -h h -p 1 -n 0 --scan --pattern '{lockdrill:r:*' | while read -r key; do redis-cli -h h -p 1 -n 0 unlink "$key"; done`,
			"redis-cli -h h -p 1 -n 0 mget lockdrill:open lockdrill:run   # delete each that names this run"}},
		{Record{Kind: StandPods, Cluster: &Cluster{Kubeconfig: "/k c", Context: "stage", Namespace: "drill", Run: "r-1", Objects: []Object{{Kind: "Lease"}, {Kind: "ConfigMap"}, {Kind: "Deployment"}}}},
			[]string{"kubectl --kubeconfig '/k c' --context stage --namespace drill delete deployment,configmap,lease,pod -l lockdrill.dev/run=r-1"}},
		{Record{Kind: "object", Cluster: &Cluster{Context: "stage", Namespace: "shop", Run: "r-1"}, Made: &Made{Object: Object{"chaos-mesh.org/v1alpha1", "NetworkChaos", "cut"}}},
			[]string{"kubectl --context stage --namespace shop delete networkchaos.v1alpha1.chaos-mesh.org --field-selector metadata.name=cut -l lockdrill.dev/run=r-1   # its controller lets go of it: wait until it is gone"}},
		{Record{Kind: "object", Cluster: &Cluster{Namespace: "shop", Run: "r-1"}, Made: &Made{Object: Object{"v1", "LimitRange", "small"}}},
			[]string{"kubectl --namespace shop delete limitrange.v1. --field-selector metadata.name=small -l lockdrill.dev/run=r-1   # its controller lets go of it: wait until it is gone"}},
		{Record{Kind: StandRoute, Route: way}, []string{`curl -X DELETE 'http://127.0.0.1:8474/proxies/run r1'`}},
		{Record{Kind: "store", Store: store, Shot: history.Event{Fault: &history.Fault{Victim: history.VictimStore, Form: "pause"}}},
			[]string{`REDISCLI_AUTH="$PASS" redis-cli -h 10.0.0.1 -p 6380 --tls -n 2 client unpause`}},
		{Record{Kind: "store", Store: store, Shot: history.Event{Fault: &history.Fault{Victim: history.VictimStore, Form: "flush"}}}, nil},
	} {
		if got := ByHand(c.r); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.r, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	if got := fmt.Sprint(Record{Kind: "pause", Process: &Process{PID: 7}, Shot: history.Event{Op: "p#1", Fault: &history.Fault{Victim: "r1.2"}}}); got != "pause p#1 at r1.2 (process 7)" {
		t.Error(got)
	}
}
