package linestream

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A worker in another language, command by command as docs/worker-protocol.md has it.
func TestAWorkerOfOnesOwn(t *testing.T) {
	addr := redistest.Start(t)
	hub, heard := openHub(t, addr, quick())
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	const f, life = "lockdrill:fleet:f:", "00112233445566ff"
	do := func(args ...any) any {
		t.Helper()
		reply, err := c.Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	now := func() string { return strconv.FormatInt(monotime.Now(), 10) }
	who := `{"v":1,"life":"` + life + `","pod":"theirs-0","uid":"u-9","t":` + now() + `}`
	do("XADD", f+"in:"+life, "0-1", "o", "")
	do("XADD", f+"out:"+life, "0-1", "h", who, "t", now())
	do("SET", f+"life:"+life, who, "PX", 30000)
	do("XADD", f+"hellos", "MAXLEN", "~", 1024, "*", "life", life)

	last, asked, line := "0-1", 0, ""
	for limit := time.Now().Add(patience); line == "" && time.Now().Before(limit); {
		read, err := c.XRead(t.Context(), &redis.XReadArgs{Streams: []string{f + "in:" + life, last}, Block: time.Second}).Result()
		testkit.Must(t, err)
		for _, m := range read[0].Messages {
			last = m.ID
			if question, ok := m.Values["s"]; ok {
				asked++
				do("XADD", f+"out:"+life, "NOMKSTREAM", "0-"+strconv.Itoa(1+asked), "s", question, "t", now())
			}
			if text, ok := m.Values["l"]; ok {
				line = text.(string)
			}
		}
		heard.mu.Lock()
		told := len(heard.hellos) == 1
		heard.mu.Unlock()
		if told && asked > 0 {
			_ = hub.Send(life, []byte("do it")) // again and again until it is read
		}
	}
	if line != "do it" || heard.hellos[0].Pod != "theirs-0" {
		t.Fatalf("read %q, heard %+v", line, heard.hellos)
	}
	do("XTRIM", f+"in:"+life, "MINID", last)
	do("XADD", f+"out:"+life, "NOMKSTREAM", "1-0", "l", "done", "t", now())
	if err := c.Do(t.Context(), "XADD", f+"out:"+life, "NOMKSTREAM", "1-0", "l", "done", "t", now()).Err(); !wasThere(err) {
		t.Errorf("a repetition: %v, want that it was there", err)
	}
	do("XADD", f+"out:"+life, "NOMKSTREAM", "1-1", "b", "", "t", now())
	heard.await(t, "end", func() bool { return len(heard.ends) == 1 && heard.ends[0].Err == nil })
	if len(heard.lines) != 1 || string(heard.lines[0].Text) != "done" || heard.lines[0].N != 1 {
		t.Errorf("lines %+v", heard.lines)
	}
}
