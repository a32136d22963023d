package experiments

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// effects checks where the effects of an observed system are read.
func (c *checker) effects() {
	names, locks := map[string]int{}, map[string]int{}
	for i := range c.e.System.Effects {
		x, path := &c.e.System.Effects[i], vocab.At("system.effects", i)
		if !c.e.Observed() {
			c.Check(path, "is of mode observe: lockdrill's own workers write to the ledger")
			continue
		}
		if first, twice := names[x.Name]; twice && x.Name != "" {
			c.Check(path+".name", "a second source called %q: the first is system.effects[%d]", x.Name, first)
		}
		names[x.Name] = i
		l := c.lock(path+".lock", x.Lock)
		if first, twice := locks[x.Lock]; twice && l != nil {
			c.Check(path+".lock", "system.effects[%d] tells of lock %s already: one source a lock, so that its effects have one order", first, x.Lock)
		}
		locks[x.Lock] = i
		c.source(path, x)
		c.mapped(path, x, c.sound(path+".lock", x.Lock))
	}
}

// source checks what is read.
func (c *checker) source(path string, x *Effects) {
	var given []string
	for _, s := range []struct {
		name string
		set  bool
	}{{"stream", x.Stream != ""}, {"list", x.List != ""}, {"hash", x.Hash != ""}, {"sql", x.SQL != nil}, {"http", x.HTTP != nil},
		{"file", x.File != ""}, {"command", len(x.Command) > 0}, {"log", x.Log != ""}} {
		if s.set {
			given = append(given, s.name)
		}
	}
	switch {
	case c.Invalid(path):
		return
	case len(given) == 0:
		c.Check(path, "says nowhere to read: one of stream, list, hash, sql, http, file, command and log")
		return
	case len(given) > 1:
		c.Check(path, "has %s: exactly one source", strings.Join(given, " and "))
		return
	}
	own := x.Redis != (LedgerStore{})
	switch {
	case own && !x.InRedis():
		c.Check(path+".redis", "is for stream, list and hash")
	case own && x.Redis.URL == "":
		c.Check(path+".redis", "needs the url of the Redis")
	case own:
		c.address(path+".redis", &x.Redis)
	case x.InRedis() && c.e.Redis.Mode != RedisExternal:
		c.Check(path+"."+given[0], "is a key of which Redis? Say redis: {url: ...} here, or redis: {mode: external, url: ...} where it is that of the locks")
	}
	if x.Overwrites && x.SQL == nil && x.HTTP == nil {
		c.Check(path+".overwrites", "is for sql and http: a hash always keeps the last state alone, the others never")
	}
	if e := c.e; x.Log != "" && !c.inPods() && (e.System.Processes == nil || e.System.Processes.Log == "") {
		c.Check(path+".log", "replicas have logs that nobody knows: say where they are, under system.processes.log")
	}
	if x.SQL != nil {
		c.query(path+".sql", x.SQL)
	}
	if x.HTTP != nil {
		c.httpSource(path+".http", x.HTTP)
	}
	if _, err := filepath.Match(x.File, ""); err != nil {
		c.Check(path+".file", "%q is no pattern of paths", x.File)
	}
	c.columns(path, x)
}

// query checks a query. What a variable holds is not looked at: it is a secret.
func (c *checker) query(path string, q *SQLEffects) {
	parameter := map[string]string{Postgres: "$1", MySQL: "?"}[q.Driver]
	switch {
	case c.Invalid(path):
	case !environmentName.MatchString(q.DSNEnv):
		c.Check(path+".dsn_env", "not the name of an environment variable: capital letters, digits and underscores; the data source name does not stand in a file")
	case !strings.Contains(q.Query, parameter):
		c.Check(path+".query", "has no %s: the cursor goes there, as in WHERE id > %s ORDER BY id", parameter, parameter)
	case q.Driver == MySQL && strings.Count(q.Query, parameter) > 1:
		c.Check(path+".query", "has more than one ?: the cursor alone is put in")
	case !orderBy.MatchString(q.Query):
		c.Check(path+".query", "has no ORDER BY: rows come in the order of the cursor, as in ORDER BY %s", q.Cursor)
	}
}

var orderBy = regexp.MustCompile(`(?i)\border\s+by\b`)

func (c *checker) httpSource(path string, h *HTTPEffects) {
	u, err := url.Parse(h.URL)
	switch {
	case c.Invalid(path):
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.Check(path+".url", "no address: write it like http://127.0.0.1:8080/jobs")
	case u.User != nil:
		c.Check(path+".url", "user and password do not stand in a file: token_env names a variable with a bearer token")
	case vocab.Redact(h.URL) != h.URL:
		c.Check(path+".url", "has what looks like a secret in it, and is written down with the run: token_env names a variable with a bearer token")
	case (h.Param == "") != (h.Cursor == ""):
		c.Check(path, "param and cursor go together: the parameter that takes the cursor, and the field that it is read from")
	case h.TokenEnv != "" && !environmentName.MatchString(h.TokenEnv):
		c.Check(path+".token_env", "not the name of an environment variable: capital letters, digits and underscores")
	}
}

// columns checks what lines are made into columns by.
func (c *checker) columns(path string, x *Effects) {
	if !x.Lines() {
		if x.Pattern != "" {
			c.Check(path+".pattern", "is of lines: file, command and log")
		}
		return
	}
	if x.Pattern == "" {
		return
	}
	re, err := regexp.Compile(x.Pattern)
	if err != nil {
		c.Check(path+".pattern", "no regular expression: %v", err)
		return
	}
	groups := slices.DeleteFunc(re.SubexpNames(), func(s string) bool { return s == "" })
	l := c.e.Lock(x.Lock)
	unsure := l != nil && c.sound(path+".lock", x.Lock) == nil
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

// mapped checks that the map says what is needed of a lock.
func (c *checker) mapped(path string, x *Effects, l *Lock) {
	m := &x.Map
	for i, s := range m.Begin {
		if m.Ends(s) {
			c.Check(vocab.At(path+".map.begin", i), "%q ends a job by terminal: it cannot begin one", s)
		}
	}
	if l == nil || c.Invalid(path) {
		return
	}
	if !l.Loop() {
		for _, f := range []struct {
			name, why string
			set       bool
		}{
			{"job", "the column with the job's id", m.Job != "" || x.Hash != ""},
			{"state", "the column with the job's state", m.State != ""},
			{"terminal", "the states that end a job", len(m.Terminal) > 0},
		} {
			if !f.set {
				c.Check(path+".map."+f.name, "missing: %s", f.why)
			}
		}
		return
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"job", m.Job != ""}, {"state", m.State != ""}, {"terminal", len(m.Terminal) > 0}, {"begin", len(m.Begin) > 0}, {"key", m.Key != ""}} {
		if f.set {
			c.Check(path+".map."+f.name, "is of jobs; lock %s is a leader loop: each entry is a tick of it", l.Name)
		}
	}
}

// effectsAnswer says why the effects of an observed lock cannot answer a row, or "".
func (c *checker) effectsAnswer(s *SLO) string {
	x, l := c.e.EffectsOf(s.Lock), c.e.Lock(s.Lock)
	switch {
	case s.DuplicateEpochs != nil && l != nil && l.Lease == "":
		return "" // looks at its keys tell that a token came back
	case s.Stranded != nil, s.TickGap != nil, s.DuplicateTerminalStates != nil, s.ReExecuted != nil:
	default:
		return "cannot be answered: an observed system does not tell lockdrill when it works, asks and gives up; " + c.answerable(s.Lock)
	}
	switch {
	case x == nil:
		return "cannot be answered: nobody says where effects under lock " + s.Lock + " are read (system.effects); " + c.answerable(s.Lock)
	case (s.DuplicateTerminalStates != nil || s.ReExecuted != nil) && x.LastOnly():
		return "cannot be answered: the " + x.Source() + " keeps the last state of a job alone, so a second end looks like the first; a stream, a table or a log that is appended to tells"
	}
	return ""
}

// answerable says which measures of an observed lock can be asked for.
func (c *checker) answerable(lock string) string {
	can := []string{"takeover"}
	x, l := c.e.EffectsOf(lock), c.e.Lock(lock)
	if l != nil && l.Lease == "" {
		can = append(can, "duplicate_epochs")
	}
	switch {
	case x == nil || l == nil:
	case l.Loop():
		can = append(can, "tick_gap")
	case x.LastOnly():
		can = append(can, "stranded")
	default:
		can = append(can, "stranded", "duplicate_terminal_states", "re_executed")
	}
	return strings.Join(append(can, "metric"), ", ") + " and logs can"
}
