package tap

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

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
		{Rules{}, []string{"SETNX", "k", "t"}, "acquire k t"},
		{Rules{}, []string{"EXPIRE", "k", "1"}, "renew k"},
		{Rules{}, []string{"pexpire", "k", "1"}, "renew k"},
		{Rules{}, []string{"GETEX", "k", "PX", "1"}, "renew k"},
		{Rules{}, []string{"DEL", "a", "b"}, "release a,b"},
		{Rules{}, []string{"UNLINK", "a"}, "release a"},
		{Rules{}, []string{"GETDEL", "a"}, "release a"},
		{Rules{}, []string{"DELEX", "a", "IFEQ", "t"}, "release a t"},
		{Rules{}, []string{"GET", "a"}, "-"},
		{Rules{}, []string{"PING"}, "-"},
		{Rules{}, []string{"EVAL", compareDelete, "1", "k", "t"}, "release k t"},
		{Rules{}, []string{"EVAL", compareExpire, "1", "k", "t", "9"}, "renew k t"},
		{Rules{}, []string{"EVAL", touchOrSet, "1", "k", "t", "9"}, "renew k t"},
		{Rules{}, []string{"EVAL", obtain, "1", "k", "t", "1", "9"}, "acquire k t"},
		{Rules{}, []string{"EVAL", redissonLock, "1", "k", "9", "t"}, "acquire k 9"},
		{Rules{}, []string{"EVAL", redissonFree, "2", "k", "ch", "0", "9", "t"}, "release k 0"},
		{Rules{}, []string{"EVAL", redissonRenew, "1", "k", "9", "t"}, "renew k 9"},
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
		{Rules{Commands: []CommandRule{{Command: "SET", With: []string{"xx"}, Op: burst.Renew, Token: 2}}}, []string{"SET", "k", "t", "XX", "PX", "1"}, "renew k t"},
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
			var o operation
			r.recognize(&o, args)
			if got := spell(&o); got != c.want {
				t.Errorf("%.60q: %s, want %s", c.command, got, c.want)
			}
		}
	}
}

func spell(o *operation) string {
	switch {
	case o.odd:
		return "?"
	case o.op == "":
		return "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", o.op, bytes.Join(o.keys, []byte(",")), o.token))
}

func TestScriptsAreLearntAsTheyPass(t *testing.T) {
	r := newRecognizer(Rules{})
	sum := sha1.Sum([]byte(compareExpire))
	byHash := [][]byte{[]byte("EVALSHA"), []byte(hex.EncodeToString(sum[:])), []byte("1"), []byte("k"), []byte("t")}
	var o operation
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
