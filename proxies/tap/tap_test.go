package tap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

func TestAnErrorComesInItsPlaceAndTheCommandIsNotSentOn(t *testing.T) {
	tap, seen, direct, r1, r2 := realTap(t)
	id := inject(t, tap, Fault{Op: burst.Acquire, Mode: burst.Error, Count: 2, Names: []string{"r1"}})
	c, other := dial(t, r1), dial(t, r2)
	c.send("PING", "SET a t1 NX PX 9000", "ECHO x", "SET b t2 PX 9000 NX", "SET c t3 NX", "GET a")
	c.want("+PONG", "-ERR made to fail by "+id, "x", "-ERR made to fail by "+id, "+OK", "$-1")
	other.send("SET d t NX")
	other.want("+OK")
	d := dial(t, direct)
	d.send("EXISTS a b c d")
	d.want(":2")
	s := over(t, tap, id)
	if s.Hits != 2 || s.Why != "its count was spent" || s.First > s.Last || s.First < s.From {
		t.Errorf("%+v", s)
	}
	all := seen.list()
	if len(all) != 2 || all[0].Key != "a" || all[0].Token != "t1" || all[1].Key != "b" || all[1].Name != "r1" || all[0].Op != burst.Acquire {
		t.Errorf("hits %+v", all)
	}
}

func TestAnErrorIsDeliveredThoughTheServerHasNothingToSay(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	inject(t, tap, Fault{Op: burst.Release, Mode: burst.Error})
	c := dial(t, r1)
	for range 50 { // the one that reads replies is asleep in the server's connection each time
		c.send("DEL a")
		c.want("-ERR made to fail")
		c.send("PING")
		c.want("+PONG")
	}
}

func TestATimedOutCommandIsDroppedAndItsConnectionHangs(t *testing.T) {
	tap, _, direct, r1, _ := realTap(t)
	id := inject(t, tap, Fault{Op: burst.Renew, Mode: burst.Timeout, Count: 1, Key: "lock:*"})
	c, d := dial(t, r1), dial(t, direct)
	c.send("SET lock:a t PX 9000", "SET b 1", "PEXPIRE b 5000", "PEXPIRE lock:a 700000", "SET after 1", "PING")
	c.want("+OK", "+OK", ":1")
	eventually(t, "hit", func() bool { return status(t, tap, id).Hits == 1 })
	c.silent()
	d.send("EXISTS after", "PTTL lock:a")
	d.want(":0")
	if ttl := d.line(); len(ttl) > len(":9000") {
		t.Errorf("the renewal was executed: %s", ttl)
	}
	if s := status(t, tap, id); s.State != burst.Spent || s.Holds != 1 {
		t.Errorf("%+v", s)
	}
	again := dial(t, r1) // what a client does next works
	again.send("PEXPIRE lock:a 700000")
	again.want(":1")
	_ = c.Close()
	if s := over(t, tap, id); s.Hits != 1 || s.Holds != 0 || s.Why != "its count was spent" {
		t.Errorf("%+v", s)
	}
}

func TestALostReplyIsOfACommandThatWasExecuted(t *testing.T) {
	tap, _, direct, r1, _ := realTap(t)
	id := inject(t, tap, Fault{Op: burst.Acquire, Mode: burst.LostReply, Count: 1})
	c, d := dial(t, r1), dial(t, direct)
	c.send("ECHO before", "SET a t NX", "SET later 1", "PING")
	c.want("before")
	eventually(t, "executed", func() bool {
		d.send("EXISTS a later")
		return d.line() == ":2"
	})
	c.silent()
	if _, ok := tap.End(id, "enough"); !ok {
		t.Fatal("no such fault")
	}
	c.closed()
	if s := over(t, tap, id); s.Why != "enough" || s.Hits != 1 {
		t.Errorf("%+v", s)
	}
}

func TestADelayedCommandIsLateAndKeepsItsPlace(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	const late = 80 * time.Millisecond
	id := inject(t, tap, Fault{Op: burst.Release, Mode: burst.Delay, Delay: late, Count: 1})
	c := dial(t, r1)
	from := time.Now()
	c.send("SET a 1", "DEL a", "EXISTS a")
	c.want("+OK", ":1", ":0")
	if took := time.Since(from); took < late {
		t.Errorf("after %s", took)
	}
	over(t, tap, id)

	id = inject(t, tap, Fault{Op: burst.Release, Mode: burst.Delay, Delay: time.Hour})
	c.send("DEL a")
	eventually(t, "hit", func() bool { return status(t, tap, id).Hits == 1 })
	tap.End(id, "enough") // what is held back goes on
	c.want(":0")
}

func TestAFaultEndsByItselfAndItsConnectionsWithIt(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	inject(t, tap, Fault{ID: "brief", Op: burst.Renew, Mode: burst.Timeout, For: 30 * time.Millisecond})
	inject(t, tap, Fault{ID: "counted", Op: burst.Renew, Mode: burst.Error, Count: 1000, For: 60 * time.Millisecond})
	c := dial(t, r1)
	c.send("EXPIRE a 1")
	if s := over(t, tap, "brief"); s.Why != "its time was up" {
		t.Errorf("%+v", s)
	} else if s.Hits == 1 { // the machine may have been too slow for that
		c.closed()
	}
	over(t, tap, "counted")
	c = dial(t, r1)
	c.send("EXPIRE a 1")
	c.want(":0")
}

func TestShareTokenAndIDs(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	id := inject(t, tap, Fault{Op: burst.Release, Mode: burst.Error, Share: 0.3})
	c := dial(t, r1)
	failed := 0
	for range 300 {
		c.send("DEL a")
		if strings.HasPrefix(c.line(), "-ERR") {
			failed++
		}
	}
	if s := status(t, tap, id); failed < 50 || failed > 140 || s.Hits != int64(failed) || s.Spare != int64(300-failed) {
		t.Errorf("%d of 300 failed: %+v", failed, s)
	}
	tap.End(id, "enough")
	inject(t, tap, Fault{ID: "mine", Op: burst.Release, Mode: burst.Error, Token: "mine"})
	release := `EVAL return(redis.call('del',KEYS[1])) 1 a `
	c.send("SET a mine", "DEL a", release+"mine", release+"mine")
	c.want("+OK", ":1", "-ERR made to fail by mine", "-ERR made to fail by mine")
	if _, err := tap.Inject(Fault{ID: "mine", Op: burst.Release, Mode: burst.Error, For: 1}); err == nil {
		t.Error("two faults of one id")
	}
	for _, bad := range []Fault{{Op: "x", Mode: burst.Error, For: 1}, {Op: burst.Renew, Mode: "x", For: 1}, {Op: burst.Renew, Mode: burst.Error}, {Op: burst.Renew, Mode: burst.Delay, For: 1}, {Op: burst.Renew, Mode: burst.Error, For: 1, Share: 2}} {
		if _, err := tap.Inject(bad); err == nil {
			t.Errorf("%+v was armed", bad)
		}
	}
}

func TestTransactionsAndSubscribersPassUntouched(t *testing.T) {
	tap, seen, direct, r1, _ := realTap(t)
	for _, op := range []string{burst.Acquire, burst.Renew, burst.Release} {
		inject(t, tap, Fault{Op: op, Mode: burst.Error})
	}
	c := dial(t, r1)
	c.send("MULTI", "SET a t NX", "DEL a", "EXEC", "DEL a")
	c.want("+OK", "+QUEUED", "+QUEUED", "*2", "+OK", ":1", "-ERR made to fail")
	c.send("DEL a", "SUBSCRIBE x y", "PING")
	c.want("-ERR", "*3", "subscribe", "x", ":1", "*3", "subscribe", "y", ":2", "*2", "pong")
	d := dial(t, direct)
	d.send("PUBLISH y hello")
	d.want(":1")
	c.want("", "*3", "message", "y", "hello")
	c.send("UNSUBSCRIBE x y", "DEL a") // it stays as it is
	c.want("*3", "unsubscribe", "x", ":1", "*3", "unsubscribe", "y", ":0", ":0")
	if n := len(seen.list()); n != 2 {
		t.Errorf("%d hits", n)
	}
	s := tap.Stats().Names["r1"]
	if s.Untouched != 1 || s.Multi != 4 || s.Release != 2 || s.Connections != 1 {
		t.Errorf("%+v", s)
	}
}

// A client may write for as long as it likes before it reads: the server takes it, so the tap has to.
func TestAClientThatReadsLate(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	inject(t, tap, Fault{Op: burst.Release, Mode: burst.Error})
	c := dial(t, r1)
	const n = 30_000
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := range n / 100 {
			c.send(strings.Split(strings.Repeat(fmt.Sprintf("ECHO %d\nDEL a\n", i), 50), "\n")[:100]...)
		}
	}()
	select {
	case <-wrote: // all of it, with nobody reading: 15,000 errors wait in memory
	case <-time.After(within):
		t.Fatal("writing is stuck")
	}
	for i := range n / 2 {
		c.want(fmt.Sprint(i/50), "-ERR made to fail")
	}
}

func TestLongCommandsAndEmptyOnesPass(t *testing.T) {
	_, _, _, r1, _ := realTap(t)
	c := dial(t, r1)
	long := strings.Repeat("x", 3*MaxInspect)
	c.send("SET a "+long, "STRLEN a", "GET a", "PING")
	c.want("+OK", fmt.Sprintf(":%d", len(long)), long, "+PONG")
	if _, err := fmt.Fprintf(c, "\r\n*0\r\nPING\r\n*-1\r\nECHO \"a b\"\r\n"); err != nil {
		t.Fatal(err)
	}
	c.want("+PONG", "a b")
	if _, err := fmt.Fprintf(c, "*1\r\n:5\r\n"); err != nil {
		t.Fatal(err)
	}
	c.want("-ERR Protocol error") // Redis's own
	c.closed()
}

func TestAServerThatIsNotThere(t *testing.T) {
	tap, _, r1, _ := openTap(t, "127.0.0.1:1", Rules{})
	dial(t, r1).closed()
	eventually(t, "counted", func() bool { return tap.Stats().Names["r1"].Refused == 1 })
}

func TestCloseEndsEverything(t *testing.T) {
	tap, _, _, r1, _ := realTap(t)
	id := inject(t, tap, Fault{Op: burst.Release, Mode: burst.Timeout})
	c, idle := dial(t, r1), dial(t, r1)
	idle.send("PING")
	idle.want("+PONG")
	c.send("DEL a")
	eventually(t, "hit", func() bool { return status(t, tap, id).Hits == 1 })
	testkit.Must(t, tap.Close())
	c.closed()
	idle.closed()
	if s := status(t, tap, id); s.State != burst.Ended || s.Holds != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := tap.Inject(Fault{Op: burst.Release, Mode: burst.Error, For: time.Second}); err == nil {
		t.Error("armed after Close")
	}
}
