package tap

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, key string
		want      bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"lock:*", "lock:", true}, {"lock:*", "lock", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false},
		{"?", "a", true}, {"?", "", false}, {"[a-c]x", "bx", true}, {"[a-c]x", "dx", false}, {"[^a]", "b", true}, {"[^a]", "a", false}, {"[]", "a", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {"{a}:*", "{a}:fence", true}, {"", "", true}, {"", "a", false}, {"[a", "a", true}, {`a\`, `a\`, true},
	} {
		if got := match(c.glob, []byte(c.key)); got != c.want {
			t.Errorf("%q and %q: %v", c.glob, c.key, got)
		}
	}
}

// How locks are made by those who make them: go-redis users, redsync, redislock, Redisson, the core's own.
const (
	compareDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	compareExpire = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`
	touchOrSet    = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then return 1 end`
	obtain        = `if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then return redis.status_reply("OK") end`
	redissonLock  = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);`
	redissonFree  = `local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1; end;`
	redissonRenew = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end; return 0;`
	tokenLast     = `if redis.call('get', KEYS[1]) ~= ARGV[2] then return 0 end return redis.call('pexpire', KEYS[1], ARGV[1])`
	onlyReads     = `return redis.call('get', KEYS[1])`
)

func TestWhatIsAnOperation(t *testing.T) {
	told := sha1.Sum([]byte(onlyReads))
	for _, c := range []struct {
		rules   Rules
		command []string
		want    string // op keys token, "-" none, "?" odd
	}{
		{Rules{}, []string{"SET", "k", "t", "NX", "PX", "100"}, "acquire k t"},
		{Rules{}, []string{"set", "k", "t", "px", "100", "nx"}, "acquire k t"},
		{Rules{}, []string{"SET", "k", "NX"}, "-"},
		{Rules{}, []string{"SET", "k", "v"}, "-"},
		{Rules{}, []string{"SET", "k", "t", "XX", "PX", "100"}, "renew k t"},
		{Rules{}, []string{"SET", "k", "t", "ifeq", "t", "EX", "100"}, "renew k t"},
		{Rules{}, []string{"SET", "k", "t", "IFEQ", "NX", "EX", "100"}, "renew k t"}, // a token may be called NX
		{Rules{}, []string{"SET", "k", "t", "IFDEQ", "9f86d081884c7d65", "PX", "100"}, "renew k t"},
		{Rules{}, []string{"SET", "k", "t", "XX"}, "-"}, // it prolongs nothing
		{Rules{}, []string{"SET", "k", "t", "IFNE", "XX", "PX", "100"}, "-"},
		{Rules{Keys: []string{"k"}}, []string{"SET", "k", "t", "XX"}, "?"},
		{Rules{}, []string{"SETNX", "k", "t"}, "acquire k t"},
		{Rules{}, []string{"EXPIRE", "k", "1"}, "renew k"},
		{Rules{}, []string{"pexpire", "k", "1"}, "renew k"},
		{Rules{}, []string{"GETEX", "k", "PX", "1"}, "renew k"},
		{Rules{}, []string{"DEL", "a", "b"}, "release a,b"},
		{Rules{}, []string{"UNLINK", "a"}, "release a"},
		{Rules{}, []string{"GETDEL", "a"}, "release a"},
		{Rules{}, []string{"DELEX", "a", "IFEQ", "t"}, "release a t"},
		{Rules{}, []string{"DELIFEQ", "a", "t"}, "release a t"},
		{Rules{}, []string{"DELIFEQ", "a"}, "-"},
		{Rules{}, []string{"GET", "a"}, "-"},
		{Rules{}, []string{"PING"}, "-"},
		{Rules{}, []string{"EVAL", compareDelete, "1", "k", "t"}, "release k t"},
		{Rules{}, []string{"EVAL", compareExpire, "1", "k", "t", "9"}, "renew k t"},
		{Rules{}, []string{"EVAL", touchOrSet, "1", "k", "t", "9"}, "renew k t"},
		{Rules{}, []string{"EVAL", obtain, "1", "k", "t", "1", "9"}, "acquire k t"},
		{Rules{}, []string{"EVAL", redissonLock, "1", "k", "9", "t"}, "acquire k t"},
		{Rules{}, []string{"EVAL", redissonFree, "2", "k", "ch", "0", "9", "t"}, "release k t"},
		{Rules{}, []string{"EVAL", redissonRenew, "1", "k", "9", "t"}, "renew k t"},
		{Rules{}, []string{"EVAL", tokenLast, "1", "k", "9", "t"}, "renew k t"},
		{Rules{}, []string{"EVAL", onlyReads, "1", "k", "t"}, "?"},
		{Rules{}, []string{"EVAL", compareDelete, "x", "k", "t"}, "-"},
		{Rules{}, []string{"EVAL", compareDelete, "9", "k", "t"}, "-"},
		{Rules{}, []string{"EVAL", compareDelete, "99999999999999999999999", "k", "t"}, "-"},
		{Rules{}, []string{"EVALSHA", strings.Repeat("a", 40), "1", "k", "t"}, "?"},
		{Rules{Keys: []string{"lock:*"}}, []string{"DEL", "a", "lock:b"}, "release lock:b"},
		{Rules{Keys: []string{"lock:*"}}, []string{"DEL", "a"}, "-"},
		{Rules{Keys: []string{"lock:*"}}, []string{"HSET", "lock:a", "f", "v"}, "?"},
		{Rules{Keys: []string{"lock:*"}}, []string{"GET", "lock:a"}, "-"},
		{Rules{Keys: []string{"lock:*"}}, []string{"EVALSHA", strings.Repeat("a", 40), "1", "k", "t"}, "-"},
		{Rules{Commands: []CommandRule{{Command: "SET", With: []string{"xx"}, Op: burst.Renew, Token: 2}}}, []string{"SET", "k", "t", "XX", "KEEPTTL"}, "renew k t"},
		{Rules{Commands: []CommandRule{{Command: "FCALL", With: []string{"unlock"}, Op: burst.Release, Key: 3, Token: 4}}}, []string{"FCALL", "unlock", "1", "k", "t"}, "release k t"},
		{Rules{Commands: []CommandRule{{Command: "EXPIRE", Op: None}}}, []string{"EXPIRE", "k", "1"}, "-"},
		{Rules{Scripts: []ScriptRule{{SHA1: strings.ToUpper(hex.EncodeToString(told[:])), Op: burst.Renew, Key: 2, Token: 2}}}, []string{"EVAL", onlyReads, "2", "k", "l", "s", "t"}, "renew l t"},
		{Rules{Scripts: []ScriptRule{{SHA1: hex.EncodeToString(told[:]), Op: burst.Renew}}}, []string{"EVALSHA", strings.ToUpper(hex.EncodeToString(told[:])), "1", "k", "t"}, "renew k t"},
		{Rules{Scripts: []ScriptRule{{Contains: "hincrby", Op: None}}}, []string{"EVAL", redissonLock, "1", "k", "9", "t"}, "-"},
	} {
		var args [][]byte
		for _, w := range c.command {
			args = append(args, []byte(w))
		}
		r := newRecognizer(c.rules)
		for range 2 { // the second time texts are known
			var o Operation
			r.recognize(&o, args)
			if got := spell(&o); got != c.want {
				t.Errorf("%.60q: %s, want %s", c.command, got, c.want)
			}
		}
	}
}

func spell(o *Operation) string {
	switch {
	case o.odd:
		return "?"
	case o.Op == "":
		return "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", o.Op, bytes.Join(o.Keys, []byte(",")), o.Token))
}

func TestScriptsAreLearntAsTheyPass(t *testing.T) {
	r := newRecognizer(Rules{})
	sum := sha1.Sum([]byte(compareExpire))
	byHash := [][]byte{[]byte("EVALSHA"), []byte(hex.EncodeToString(sum[:])), []byte("1"), []byte("k"), []byte("t")}
	var o Operation
	if r.recognize(&o, byHash); !o.odd {
		t.Errorf("known by hash before its text came: %+v", o)
	}
	r.recognize(&o, [][]byte{[]byte("SCRIPT"), []byte("load"), []byte(compareExpire)})
	if r.recognize(&o, byHash); spell(&o) != "renew k t" {
		t.Errorf("after SCRIPT LOAD: %s", spell(&o))
	}
	if hash := hex.EncodeToString(sum[:]); !r.knows(hash) || r.knows(strings.Repeat("a", 40)) {
		t.Errorf("%s is not known, or too much is", hash)
	}
	for i := range 2 * maxScripts { // a stream of scripts fills nothing
		r.recognize(&o, [][]byte{[]byte("EVAL"), fmt.Appendf(nil, "return %d", i), []byte("1"), []byte("k")})
	}
	if len(r.known) > maxScripts || len(r.texts) > maxScripts {
		t.Errorf("%d hashes and %d texts are kept", len(r.known), len(r.texts))
	}
}

// What Valkey 9, Redis 8.4 and ShedLock send, as their protocol has it, and what such a server answers: recorded, since the server of these tests
// does not know the commands.
func TestConditionalCommandsOfNewerServers(t *testing.T) {
	tap, seen, c := replay(t, "testdata/conditional.resp")
	if n := tap.Stats().Names["r1"]; n.Acquire != 2 || n.Renew != 3 || n.Release != 3 || n.Untouched != 0 {
		t.Errorf("%+v", n)
	}
	for _, op := range []string{burst.Renew, burst.Release} { // the server has no more to say: what fails is answered by the tap
		id := inject(t, tap, Fault{Op: op, Mode: burst.Error, Count: 1})
		command := map[string]string{burst.Renew: "SET lock:a t1 IFEQ t1 PX 30000", burst.Release: "DELIFEQ lock:a t1"}[op]
		c.send(command)
		c.want("-ERR made to fail by " + id)
		over(t, tap, id)
	}
	if all := seen.list(); len(all) != 2 || all[0].Key != "lock:a" || all[0].Token != "t1" || all[1].Token != "t1" {
		t.Errorf("hits %+v", all)
	}
}

// The scripts of three versions of redlock of npm, which name the key by a variable and set it without NX: each is known once its text has
// passed, and by its hash from then on. In the third the token is the second argument.
func TestScriptsOfRedlockOfNPM(t *testing.T) {
	tap, seen, c := replay(t, "testdata/redlock.resp")
	if n := tap.Stats().Names["r1"]; n.Acquire != 3 || n.Renew != 3 || n.Release != 3 {
		t.Errorf("%+v", n)
	}
	for _, op := range []struct{ op, hash, args string }{
		{burst.Acquire, "e5a322e2634ef59a516e8ea150cb085afafee684", "lock:redlock4 t4 30000"},
		{burst.Renew, "ce46f80993d5dac20dd066eb301a4e37994bdbed", "lock:redlock4 t4 30000"},
		{burst.Release, "0f0f23b9048b36752b5be114f357ba083449f908", "lock:redlock4 t4"},
		{burst.Acquire, "1b77b94aa78451d55dfa97e18819bfbfc596cb5b", "lock:sesame 0 t9 30000"},
		{burst.Renew, "820e9778d2b6733e9ed771e4be90ae73a95a6f3b", "lock:sesame 0 t9 30000"},
		{burst.Release, "df51f6837dcfe303d334e6abea9aeae192bab216", "lock:sesame 0 t9"},
	} {
		id := inject(t, tap, Fault{Op: op.op, Mode: burst.Error, Count: 1})
		c.send("EVALSHA " + op.hash + " 1 " + op.args)
		c.want("-ERR made to fail by " + id)
		over(t, tap, id)
	}
	for i, h := range seen.list() {
		if want := map[bool]string{true: "t4", false: "t9"}[i < 3]; h.Token != want {
			t.Errorf("hit %d: %+v, want token %s", i, h, want)
		}
	}
}

// replay plays a recorded conversation through a tap, and gives the connection that it went by: its server has no more to say.
func replay(t *testing.T, recorded string) (*Tap, *hits, *client) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	talk, err := os.ReadFile(recorded)
	testkit.Must(t, err)
	var asked, answered []string
	for line := range strings.Lines(string(talk)) {
		switch side, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); side {
		case ">":
			asked = append(asked, strings.NewReplacer(`\r\n`, "\r\n", `\n`, "\n").Replace(text))
		case "<":
			answered = append(answered, strings.NewReplacer(`\r\n`, "\r\n", `\n`, "\n").Replace(text))
		}
	}
	if len(asked) != len(answered) || len(asked) == 0 {
		t.Fatalf("%s: %d commands, %d replies", recorded, len(asked), len(answered))
	}
	passed := make(chan string, len(asked))
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for i := 0; i < len(asked); i++ {
			got := make([]byte, len(asked[i]))
			if _, err := io.ReadFull(conn, got); err != nil {
				return
			}
			passed <- string(got)
			_, _ = io.WriteString(conn, answered[i])
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	tap, seen, r1, _ := openTap(t, server.Addr().String(), Rules{})
	c := dial(t, r1)
	for i := range asked {
		_, _ = io.WriteString(c, asked[i])
		got := make([]byte, len(answered[i]))
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != answered[i] {
			t.Fatalf("reply %d is %q, %v", i, got, err)
		}
		if got := <-passed; got != asked[i] {
			t.Errorf("command %d reached the server as %q", i, got)
		}
	}
	return tap, seen, c
}
