package experiments

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// effects checks where the effects of an observed system are read.
func (c *checker) effects() {
	for path, x := range entries("system.effects", c.e.System.Effects) {
		switch {
		case !c.e.Observed(): // which is said
			continue
		case x.Lock == "":
			c.alone(path, x)
		default:
			c.mapped(path, x, c.sound(path+".lock", x.Lock))
		}
		c.source(path, x)
	}
}

// sources are the fields that say where effects are read, of which one is set.
var sources = []string{"stream", "list", "hash", "sql", "http", "file", "command", "log"}

// source checks what is read.
func (c *checker) source(path string, x *Effects) {
	given := slices.DeleteFunc(slices.Clone(sources), func(name string) bool { return c.Node(vocab.Join(path, name)) == nil })
	if c.Invalid(path) || len(given) != 1 {
		return
	}
	own, at := x.Redis != (LedgerStore{}), vocab.Join(path, given[0])
	c.secured(path+".redis", x.Redis.URL, x.Redis.CA, x.Redis.Cert)
	c.Refuse(own && x.InRedis() && x.Redis.URL == "", path+".redis", "needs the url of the Redis")
	c.Refuse(!own && x.InRedis() && c.e.Redis.Mode != RedisExternal, at, "is a key of which Redis? Say redis: {url: ...} here, or redis: {mode: external, url: ...} where it is that of the locks")
	c.Refuse(x.Log != "" && !c.inPods() && (c.e.System.Processes == nil || c.e.System.Processes.Log == ""), at, "replicas have logs that nobody knows: say where they are, under system.processes.log")
	if q := x.SQL; q != nil { // what a variable holds is not looked at: it is a secret
		parameter, at := map[string]string{Postgres: "$1", MySQL: "?"}[q.Driver], path+".sql.query"
		_ = c.Invalid(path+".sql") || c.Refuse(!strings.Contains(q.Query, parameter), at, "has no %s: the cursor goes there, as in WHERE id > %[1]s ORDER BY id", parameter) ||
			c.Refuse(q.Driver == MySQL && strings.Count(q.Query, parameter) > 1, at, "has more than one ?: the cursor alone is put in") ||
			c.Refuse(!orderBy.MatchString(q.Query), at, "has no ORDER BY: rows come in the order of the cursor, as in ORDER BY %s", q.Cursor)
	}
	c.columns(path, x)
}

var orderBy = regexp.MustCompile(`(?i)\border\s+by\b`)

// columns checks what lines are made into columns by.
func (c *checker) columns(path string, x *Effects) {
	re, err := regexp.Compile(x.Pattern)
	if !x.Lines() || x.Pattern == "" || err != nil {
		return
	}
	groups := slices.DeleteFunc(re.SubexpNames(), func(s string) bool { return s == "" })
	l := c.e.Lock(x.Under())
	unsure := l != nil && !l.Keyless() && c.sound(path+".lock", x.Lock) == nil
	if len(groups) == 0 && !unsure && !(l != nil && l.Loop()) { // of a loop, that the line is there is all
		c.Check(path+".pattern", "has no named group, such as (?P<job>\\S+): nothing of a line would be known")
		return
	}
	for _, column := range x.Map.Columns() {
		if head, _, _ := strings.Cut(column, "."); !slices.Contains(groups, column) && !slices.Contains(groups, head) {
			c.Check(path+".map", "no group of the pattern is called %s", vocab.UnknownWord(column, groups))
		}
	}
}

// alone checks effects that come about under no lock.
func (c *checker) alone(path string, x *Effects) {
	if c.Invalid(path + ".lock") {
		return
	}
	m := &x.Map
	for i := range c.e.System.Locks {
		c.Refuse(c.e.System.Locks[i].Name == x.Name && x.Name != "", path+".name", "lock %s has this name: rows could not tell the two apart; give the effects another, or say lock: %[1]s", x.Name)
	}
	c.Refuse(m.Token != "", path+".map.token", "is the value of a lock, and the effects have none: say lock, or leave it out")
	c.Refuse(m.Fence != "", path+".map.fence", "is given by a lock, and the effects have none: say lock, or leave it out")
	c.Refuse(m.Key != "", path+".map.key", "is the key of a lock, and the effects have none: say lock, or leave it out")
	c.mapped(path, x, c.e.Lock(x.Name))
}

// mapped checks that the map says what is needed of a lock.
func (c *checker) mapped(path string, x *Effects, l *Lock) {
	m := &x.Map
	for i, s := range m.Begin {
		c.Refuse(m.Ends(s), vocab.At(path+".map.begin", i), "%q ends a job by terminal: it cannot begin one", s)
	}
	if l == nil || c.Invalid(path) {
		return
	}
	if l.Loop() {
		for _, name := range vocabulary.Said(m, "job", "state", "terminal", "begin", "key", "due", "not_before") {
			c.Check(path+".map."+name, "is of jobs; lock %s is a leader loop: each entry is a tick of it", l.Name)
		}
		return
	}
	c.Refuse(m.Job == "" && x.Hash == "", path+".map.job", "missing: the column with the job's id")
	c.Refuse(m.State == "", path+".map.state", "missing: the column with the job's state")
	c.Refuse(len(m.Terminal) == 0, path+".map.terminal", "missing: the states that end a job")
}
