package effects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
)

func server(t *testing.T) (*redis.Client, *redis.Options) {
	addr := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return c, &redis.Options{Addr: addr}
}

// read gives one column of what is new.
func read(t *testing.T, r Reader, column string, final bool) (got string, b Batch) {
	t.Helper()
	b, err := r.Read(t.Context(), final)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range b.Entries {
		all = append(all, e.Row[column])
	}
	return strings.Join(all, " "), b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was read may be trimmed; what nobody has read may not, and a stream has natural holes in its ids.
func TestStreamsAreReadWithoutLoss(t *testing.T) {
	c, o := server(t)
	add := func(jobs ...string) {
		for _, j := range jobs {
			must(t, c.XAdd(t.Context(), &redis.XAddArgs{Stream: "log", Values: []string{"job", j}}).Err())
		}
	}
	for _, test := range []struct {
		name string
		do   func()
		want string
		lost string
	}{
		{"new entries", func() { add("a", "b") }, "a b", ""},
		{"trimmed behind the cursor", func() { add("a"); c.XTrimMaxLen(t.Context(), "log", 1) }, "a", ""},
		{"all that was read is trimmed", func() { c.XTrimMaxLen(t.Context(), "log", 0); add("a") }, "a", ""},
		{"trimmed before it was read", func() { add("a", "b"); c.XTrimMaxLen(t.Context(), "log", 1) }, "b", "1 entries of the stream log were trimmed"},
		{"deleted in the middle", func() { add("a", "b"); deleteFirst(t, c) }, "b", "trimmed or deleted"},
		{"made anew", func() {
			c.Del(t.Context(), "log")
			c.XAdd(t.Context(), &redis.XAddArgs{Stream: "log", ID: "1-1", Values: []string{"job", "z"}})
		}, "", "made anew"},
	} {
		must(t, c.Del(t.Context(), "log").Err())
		add("before")
		r := NewStream(&redis.Options{Addr: o.Addr}, "log")
		if got, _ := read(t, r, "job", false); got != "" {
			t.Errorf("%s: the first read gives %s", test.name, got)
		}
		test.do()
		got, b := read(t, r, "job", true)
		if got != test.want || (test.lost == "") != (b.Lost == "") || !strings.Contains(b.Lost, test.lost) {
			t.Errorf("%s: got %q, lost %q", test.name, got, b.Lost)
		}
		must(t, r.Close())
	}
}

// deleteFirst deletes the entry after the one that was there before.
func deleteFirst(t *testing.T, c *redis.Client) {
	all, err := c.XRange(t.Context(), "log", "-", "+").Result()
	must(t, err)
	must(t, c.XDel(t.Context(), "log", all[1].ID).Err())
}

func TestAStreamThatIsNotThereYet(t *testing.T) {
	c, o := server(t)
	r := NewStream(o, "log")
	defer r.Close()
	read(t, r, "job", false)
	for i := range 2*page + 1 {
		must(t, c.XAdd(t.Context(), &redis.XAddArgs{Stream: "log", Values: []any{"n", i}}).Err())
	}
	if got, b := read(t, r, "n", false); len(strings.Fields(got)) != 2*page+1 || b.Lost != "" || b.Partial {
		t.Errorf("%d entries, lost %q", len(strings.Fields(got)), b.Lost)
	}
	if got, b := read(t, r, "n", true); got != "" || b.Lost != "" {
		t.Errorf("again: %q, lost %q", got, b.Lost)
	}
}

func TestAListIsFoundAgainAfterItWasTrimmed(t *testing.T) {
	c, o := server(t)
	push := func(v ...any) { must(t, c.RPush(t.Context(), "log", v...).Err()) }
	push("x", "y")
	r := NewList(o, "log")
	defer r.Close()
	read(t, r, "value", false)
	push(`{"job":"a"}`, "b")
	if got, b := read(t, r, "value", false); got != `{"job":"a"} b` || b.Entries[0].Row["job"] != "a" || b.Lost != "" {
		t.Errorf("got %q, lost %q", got, b.Lost)
	}
	push("c")
	must(t, c.LTrim(t.Context(), "log", -2, -1).Err())
	if got, b := read(t, r, "value", false); got != "c" || b.Lost != "" {
		t.Errorf("after a trim: got %q, lost %q", got, b.Lost)
	}
	push("d", "e")
	must(t, c.LTrim(t.Context(), "log", -1, -1).Err())
	if _, b := read(t, r, "value", false); b.Lost == "" {
		t.Error("an element that was trimmed unread is not missed")
	}
}

func TestAHashGivesWhatChanged(t *testing.T) {
	c, o := server(t)
	must(t, c.HSet(t.Context(), "states", "j1", "RUNNING", "j2", "RUNNING").Err())
	r := NewHash(o, "states")
	defer r.Close()
	read(t, r, "field", false)
	must(t, c.HSet(t.Context(), "states", "j2", "DONE", "j3", `{"state":"NEW"}`).Err())
	if got, b := read(t, r, "field", false); got != "j2 j3" || b.Entries[0].Row["value"] != "DONE" || b.Entries[1].Row["state"] != "NEW" || !b.Entries[0].Unordered {
		t.Errorf("got %q: %v", got, b)
	}
}

// Effects that may not be read are not none.
func TestAKeyThatMayNotBeReadIsNotEmpty(t *testing.T) {
	c, o := server(t)
	must(t, c.Do(t.Context(), "ACL", "SETUSER", "weak", "on", ">pw", "~other:*", "+@all").Err())
	weak := func() *redis.Options { return &redis.Options{Addr: o.Addr, Username: "weak", Password: "pw"} }
	for name, r := range map[string]Reader{"stream": NewStream(weak(), "log"), "list": NewList(weak(), "log"), "hash": NewHash(weak(), "log")} {
		_, err := r.Read(t.Context(), false)
		_, last := r.Last(t.Context(), 5)
		for _, err := range []error{err, last} {
			if err == nil || !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, r.Close())
	}
}

func TestAKeyOfAnotherTypeIsRefused(t *testing.T) {
	c, o := server(t)
	must(t, c.Set(t.Context(), "text", "x", 0).Err())
	for name, r := range map[string]Reader{"stream": NewStream(o, "text"), "list": NewList(&redis.Options{Addr: o.Addr}, "text"), "hash": NewHash(&redis.Options{Addr: o.Addr}, "text")} {
		_, err := r.Read(t.Context(), false)
		_, last := r.Last(context.Background(), 5)
		if want := "the key text is no " + name; !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), want) || !errors.Is(last, ErrSource) {
			t.Errorf("%s: %v, %v", name, err, last)
		}
		must(t, r.Close())
	}
}

// The file names one server of a cluster, and the key may be on another.
func TestAKeyOfACluster(t *testing.T) {
	addrs := redistest.StartCluster(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = cluster.Close() })
	ctx := t.Context()
	for _, of := range []struct {
		name string
		make func(*redis.Options, string) Reader
		add  func(key, job string) error
	}{
		{"stream", NewStream, func(key, job string) error {
			return cluster.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"job", job}}).Err()
		}},
		{"list", NewList, func(key, job string) error { return cluster.RPush(ctx, key, `{"job":"`+job+`"}`).Err() }},
		{"hash", NewHash, func(key, job string) error { return cluster.HSet(ctx, key, job, `{"job":"`+job+`"}`).Err() }},
	} {
		elsewhere := 0
		for i, key := range []string{"log", "{a}", "{b}", "{c}", "{d}"} {
			key += of.name
			slot, err := cluster.ClusterKeySlot(ctx, key).Result()
			must(t, err)
			if slot > 5460 { // the first server has those before
				elsewhere++
			}
			r := of.make(&redis.Options{Addr: addrs[0]}, key)
			defer r.Close()
			read(t, r, "job", false)
			must(t, of.add(key, "a"))
			if got, b := read(t, r, "job", false); got != "a" || b.Lost != "" {
				t.Errorf("%s %d of slot %d: got %q, lost %q", of.name, i, slot, got, b.Lost)
			}
			if last, err := of.make(&redis.Options{Addr: addrs[0]}, key).Last(ctx, 5); err != nil || len(last) != 1 {
				t.Errorf("%s %d of slot %d: its last entries are %v, %v", of.name, i, slot, last, err)
			}
		}
		if elsewhere == 0 {
			t.Error("the first server has all keys")
		}
	}
}

// The one server that the file names has the key, and dies: the cluster says who has it then.
func TestAStreamWhoseServerDies(t *testing.T) {
	addrs := redistest.StartCluster(t)
	redistest.FollowInCluster(t, addrs, addrs[0])
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	t.Cleanup(func() { _ = cluster.Close() })
	ctx, key := t.Context(), "log"
	for i := 0; ; i++ {
		slot, err := cluster.ClusterKeySlot(ctx, key).Result()
		must(t, err)
		if slot <= 5460 { // the first server has these
			break
		}
		key = fmt.Sprint("log", i)
	}
	r := NewStream(&redis.Options{Addr: addrs[0]}, key)
	defer r.Close()
	read(t, r, "job", false)
	_ = redistest.Dial(t, addrs[0]).ShutdownNoSave(ctx).Err()
	for end := time.Now().Add(time.Minute); cluster.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"job", "a"}}).Err() != nil; {
		if time.Now().After(end) {
			t.Fatal("the cluster has promoted nobody")
		}
	}
	for end := time.Now().Add(20 * time.Second); ; {
		b, err := r.Read(ctx, false)
		if err == nil && len(b.Entries) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is read of the new primary: %v", err)
		}
	}
}
