package tap

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// None says in rules that a command is surely no operation on a lock.
const None = "none"

// Rules say which commands are operations on locks, beyond what is known anyway. The first one that fits holds.
type Rules struct {
	Keys     []string      `json:"keys,omitempty"`     // globs as in Redis: only these are locks; empty = every key may be
	Commands []CommandRule `json:"commands,omitempty"` //
	Scripts  []ScriptRule  `json:"scripts,omitempty"`  // of EVAL and EVALSHA
}

// CommandRule is one command: its name, and words that must stand among its arguments, whatever their case.
type CommandRule struct {
	Command string   `json:"command"`
	With    []string `json:"with,omitempty"`
	Op      string   `json:"op"`              // acquire, renew, release, none
	Key     int      `json:"key,omitempty"`   // position of the lock's key after the command's name; 0 = 1
	Token   int      `json:"token,omitempty"` // position of the token; 0 = it has none
}

// ScriptRule is one script, by its hash or by a piece of its text.
type ScriptRule struct {
	SHA1     string `json:"sha1,omitempty"`
	Contains string `json:"contains,omitempty"`
	Op       string `json:"op"`
	Key      int    `json:"key,omitempty"`   // which of KEYS is the lock's; 0 = 1
	Token    int    `json:"token,omitempty"` // which of ARGV is the token; 0 = 1
}

// operation is what a command does to locks. Its slices point into the frame.
type Operation struct {
	Op    string   // "" = nothing
	Keys  [][]byte // more than one: DEL a b
	Token []byte
	Epoch string // the store's own id of the acquisition; "" = that of the token
	odd   bool   // it concerns a lock's key, or is a script, and is not understood
}

// recognizer tells operations from other commands. It learns scripts from what passes, for all connections.
type recognizer struct {
	rules Rules

	mu    sync.RWMutex
	known map[string]*ScriptRule // by hash
	texts map[string]*ScriptRule // by text: saves the hashing
}

// Scripts that are remembered; others are looked at each time (EVAL) or stay unknown (EVALSHA).
const (
	maxScripts    = 1000
	maxScriptText = 64 << 10
)

func newRecognizer(rules Rules) *recognizer {
	r := &recognizer{rules: rules, known: map[string]*ScriptRule{}, texts: map[string]*ScriptRule{}}
	for i := range rules.Scripts {
		if s := &rules.Scripts[i]; s.SHA1 != "" {
			r.known[strings.ToLower(s.SHA1)] = s
		}
	}
	return r
}

// recognize fills in what the command does; args has at least one word.
func (r *recognizer) recognize(o *Operation, args [][]byte) {
	o.Op, o.Keys, o.Token, o.odd = "", o.Keys[:0], nil, false
	for i := range r.rules.Commands {
		if c := &r.rules.Commands[i]; c.fits(args) {
			if k := max(c.Key, 1); c.Op != None && k < len(args) {
				o.Op = c.Op
				o.Keys = append(o.Keys, args[k])
			}
			if c.Token > 0 && c.Token < len(args) {
				o.Token = args[c.Token]
			}
			r.restrict(o)
			return
		}
	}
	r.builtin(o, args)
	if o.Op != "" {
		r.restrict(o)
	}
}

// restrict forgets keys that are no locks.
func (r *recognizer) restrict(o *Operation) {
	if len(r.rules.Keys) > 0 {
		o.Keys = slices.DeleteFunc(o.Keys, func(k []byte) bool { return !r.lock(k) })
	}
	if len(o.Keys) == 0 {
		o.Op = ""
	}
}

// lock reports that the rules name the key.
func (r *recognizer) lock(key []byte) bool {
	return slices.ContainsFunc(r.rules.Keys, func(g string) bool { return match(g, key) })
}

func (c *CommandRule) fits(args [][]byte) bool {
	if !is(args[0], c.Command) {
		return false
	}
	for _, w := range c.With {
		if !has(args[1:], w) {
			return false
		}
	}
	return true
}

func is(word []byte, name string) bool {
	return len(word) == len(name) && strings.EqualFold(string(word), name)
}

func has(args [][]byte, word string) bool {
	return slices.ContainsFunc(args, func(a []byte) bool { return is(a, word) })
}

// named is the epoch; "" = not known.
func (o *Operation) named() string {
	if o.Epoch == "" && len(o.Token) > 0 {
		return lockcore.Fingerprint(string(o.Token))
	}
	return o.Epoch
}

// one is an operation on one key.
func (o *Operation) One(op string, key []byte) {
	o.Op = op
	o.Keys = append(o.Keys, key)
}

// builtin knows how locks are commonly made.
func (r *recognizer) builtin(o *Operation, args [][]byte) {
	if len(args) < 2 {
		return
	}
	switch name := args[0]; {
	case is(name, "SET") && len(args) > 3:
		if op := setOp(args[3:]); op != "" {
			o.One(op, args[1])
			o.Token = args[2]
		} else {
			o.odd = r.oddKey(args[1])
		}
	case is(name, "SETNX") && len(args) == 3:
		o.One(burst.Acquire, args[1])
		o.Token = args[2]
	case is(name, "PEXPIRE"), is(name, "EXPIRE"), is(name, "PEXPIREAT"), is(name, "EXPIREAT"), is(name, "GETEX") && len(args) > 2:
		o.One(burst.Renew, args[1])
	case is(name, "DEL"), is(name, "UNLINK"):
		o.Op = burst.Release
		o.Keys = append(o.Keys, args[1:]...)
	case is(name, "GETDEL"):
		o.One(burst.Release, args[1])
	case is(name, "DELEX"): // Redis 8.4
		o.One(burst.Release, args[1])
		if len(args) == 4 && is(args[2], "IFEQ") {
			o.Token = args[3]
		}
	case is(name, "DELIFEQ") && len(args) == 3: // Valkey 9
		o.One(burst.Release, args[1])
		o.Token = args[2]
	case is(name, "EVAL"):
		r.script(o, r.byText(args[1]), args)
	case is(name, "EVALSHA"):
		r.script(o, r.byHash(args[1]), args)
	case is(name, "SCRIPT") && len(args) == 3 && is(args[1], "LOAD"):
		r.byText(args[2])
	default:
		o.odd = !reads(name) && r.oddKey(args[1])
	}
}

// oddKey reports that a command on this key should be understood: the rules name it.
func (r *recognizer) oddKey(key []byte) bool { return len(r.rules.Keys) > 0 && r.lock(key) }

// setOp is what SET does to a lock, by its options: NX takes it; XX (ShedLock) or IFEQ (Valkey 8.1, Redis 8.4) prolongs it where an expiry
// comes with it. A word that is an option's value is none.
func setOp(options [][]byte) string {
	var fresh, present, expires bool
	for i := 0; i < len(options); i++ {
		switch word := options[i]; {
		case is(word, "NX"):
			fresh = true
		case is(word, "XX"):
			present = true
		case is(word, "IFEQ"), is(word, "IFDEQ"):
			present, i = true, i+1
		case is(word, "PX"), is(word, "EX"), is(word, "PXAT"), is(word, "EXAT"):
			expires, i = true, i+1
		case is(word, "IFNE"), is(word, "IFDNE"):
			i++
		}
	}
	switch {
	case fresh:
		return burst.Acquire
	case present && expires:
		return burst.Renew
	}
	return ""
}

// script is EVAL script numkeys key... arg...; rule is nil where the script is not known.
func (r *recognizer) script(o *Operation, rule *ScriptRule, args [][]byte) {
	if len(args) < 4 {
		return
	}
	count := 0
	for _, c := range args[2] {
		if c < '0' || c > '9' || count > len(args) {
			return
		}
		count = 10*count + int(c-'0')
	}
	if count < 1 || count > len(args)-3 {
		return
	}
	keys, argv := args[3:3+count], args[3+count:]
	if rule == nil || rule.Op == "" {
		o.odd = len(r.rules.Keys) == 0 || slices.ContainsFunc(keys, r.lock)
		return
	}
	if k := max(rule.Key, 1); rule.Op != None && k <= len(keys) {
		o.One(rule.Op, keys[k-1])
	}
	if n := max(rule.Token, 1); n <= len(argv) {
		o.Token = argv[n-1]
	}
}

func (r *recognizer) byHash(hash []byte) *ScriptRule {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.known[string(hash)]; s != nil {
		return s
	}
	return r.known[strings.ToLower(string(hash))]
}

// knows reports a script whose operation is known.
func (r *recognizer) knows(hash string) bool {
	s := r.byHash([]byte(hash))
	return s != nil && s.Op != ""
}

// byText classifies a script that has come along in full, and remembers it by its hash too.
func (r *recognizer) byText(text []byte) *ScriptRule {
	r.mu.RLock()
	s := r.texts[string(text)]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	sum := sha1.Sum(text)
	hash := hex.EncodeToString(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	if s = r.known[hash]; s == nil {
		s = r.classify(text)
		if len(r.known) < maxScripts {
			r.known[hash] = s
		}
	}
	if len(r.texts) < maxScripts && len(text) <= maxScriptText {
		r.texts[string(text)] = s
	}
	return s
}

// classify is by the rules, else by the calls that the text makes: whoever deletes and does not set anew releases; whoever sets anew
// before it prolongs acquires; whoever prolongs renews. Where a plain SET with an expiry does both, as in redlock of npm, whoever compares
// a token renews, and whoever looks whether the key exists acquires. Op stays "" where none fits. The token is the argument that the text
// compares or sets.
func (r *recognizer) classify(text []byte) *ScriptRule {
	for i := range r.rules.Scripts {
		if s := &r.rules.Scripts[i]; s.Contains != "" && bytes.Contains(text, []byte(s.Contains)) {
			return s
		}
	}
	takes, deletes, prolongs := first(text, `nx|setnx|hsetnx|hincrby|hset`), first(text, `del|unlink|getdel|delex`), first(text, `p?expire(?:at)?`)
	sets := first(text, `set`) < len(text) && first(text, `px|ex`) < len(text)
	rule := &ScriptRule{}
	switch {
	case deletes < len(text) && first(text, `nx|setnx|hsetnx`) == len(text):
		rule.Op = burst.Release
	case takes < prolongs:
		rule.Op = burst.Acquire
	case prolongs < len(text):
		rule.Op = burst.Renew
	case sets && compares.Match(text):
		rule.Op = burst.Renew
	case sets && first(text, `exists|get`) < len(text):
		rule.Op = burst.Acquire
	}
	if at := tokenIn.FindSubmatch(text); at != nil {
		rule.Token, _ = strconv.Atoi(string(at[1]))
	}
	return rule
}

var (
	// tokenIn is where a script reads or writes who holds KEYS[1], or a variable with its name: a value, or the field of a hash as Redisson
	// has it.
	tokenIn = regexp.MustCompile(`(?i)["'](?:get|set|setnx|hexists|hincrby|hset|hsetnx)["']\s*,\s*(?:KEYS\[1\]|\w+)\s*(?:,|\)\s*[=~]=)\s*ARGV\[(\d{1,3})\]`)

	// compares is where a script holds an argument against what the store has.
	compares = regexp.MustCompile(`(?i)[=~]=\s*ARGV\[`)
)

// first is where the text first has one of the words in quotes, else its length.
func first(text []byte, words string) int {
	if at := regexp.MustCompile(`(?i)["'](?:` + words + `)["']`).FindIndex(text); at != nil {
		return at[0]
	}
	return len(text)
}

// reads are commands that change nothing: how often they look at a lock says nothing about the rules.
func reads(name []byte) bool {
	for _, w := range [...]string{"GET", "TTL", "PTTL", "EXISTS", "TYPE", "STRLEN", "MGET", "WATCH", "HGET", "HGETALL", "HEXISTS", "EXPIRETIME", "PEXPIRETIME"} {
		if is(name, w) {
			return true
		}
	}
	return false
}

// streams reports a command after which replies no longer come one for one: from then on the connection passes untouched.
func streams(args [][]byte) bool {
	for _, w := range [...]string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC"} {
		if is(args[0], w) {
			return true
		}
	}
	return is(args[0], "CLIENT") && len(args) > 1 && is(args[1], "REPLY")
}

// words takes a frame apart; a frame that cannot be has none.
func words(into [][]byte, frame []byte) [][]byte {
	args, err := resp.Args(into, frame)
	if err != nil {
		return into[:0]
	}
	return args
}
