// Package draft writes a first experiment for a system of somebody's own, from what a person says of it or a watch has seen: a file with
// comments, to be read and corrected.
//
// Its one invariant: what it writes, the reader of experiments takes once somebody has said what nobody knew, and not before.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Draft is what is known of a system. Zero values are not known: the file then has an assumption, and says so.
type Draft struct {
	From        string // what this is known from, in a sentence
	Name        string
	Environment string
	Redis       experiments.Redis // of the locks
	Replicas    int               // 0 = not known
	Processes   experiments.Processes
	Namespace   string            // with Selector: the replicas are pods
	Selector    map[string]string // labels
	Locks       []Lock            // the first is struck
	Effects     []experiments.Effects
	Monitor     bool // the owner of the Redis allows MONITOR, which finds the connection that renews a key
}

// Lock is a lock of it: a loop with a key or a Lease, or one that is taken per job and has a pattern of keys.
type Lock struct {
	Name, Key, KeyPrefix, KeySuffix, Lease string

	Profile         string // a shipped policy; "" = by the times below
	TTL, RenewEvery time.Duration
	Poll            time.Duration
	Mode            lockcore.LoopMode
	Seen            string // what was seen of it, in a sentence
	Values          Values
}

// Job reports a lock that is taken per job.
func (l *Lock) Job() bool { return l.KeyPrefix+l.KeySuffix != "" }

// Values are what stands in the keys of a lock.
type Values string

// Kinds of values; "" = not seen, or neither.
const (
	Tokens Values = "tokens" // random words, such as UUIDs: they name nobody
	Names  Values = "names"  // words that may name the holder
)

const check = "CHECK" // marks what was assumed

// ErrNothing says that a draft has no lock that an experiment could strike.
var ErrNothing = errors.New("no lock to drill")

// Text is the file. It fails where what is known cannot be an experiment.
func (d Draft) Text() ([]byte, error) {
	d.assume()
	if len(d.Locks) == 0 {
		return nil, ErrNothing
	}
	var b text
	b.line(0, "%s", strings.TrimSuffix(experiments.Modeline, "\n"))
	b.comment(0, d.From)
	b.comment(0, "What says "+check+" was assumed. Then: lockdrill validate FILE, lockdrill plan FILE, lockdrill run FILE --confirm "+d.Name)
	b.line(0, "apiVersion: lockdrill/v1")
	b.line(0, "kind: Experiment")
	b.line(0, "name: %s", d.Name)
	d.target(&b)
	d.system(&b)
	d.probes(&b)
	d.faults(&b)
	data := []byte(b.String())
	if _, err := experiments.Parse("draft", said(data)); err != nil {
		return nil, err
	}
	return data, nil
}

// What nobody said, and nothing of it can be assumed.
const (
	unsaidMatch    = experiments.Unsaid + "a regular expression that the command lines of your replicas match; or pid_files, unit, cgroup, command"
	unsaidLog      = experiments.Unsaid + "the file that a replica logs to, such as /var/log/scheduler/{name}.log"
	unsaidPattern  = experiments.Unsaid + `the line that says who got which key, such as lock acquired key=(?P<key>\S+) token=(?P<token>\S+)`
	unsaidSelector = experiments.Unsaid + "a label of your pods"
	unsaidStream   = experiments.Unsaid + "the Redis stream that tells of the jobs; or list, hash, sql, http, file, command, log"
)

// said is the draft as if somebody had said all of it.
func said(data []byte) []byte {
	return []byte(strings.NewReplacer(quote(unsaidMatch), "my-service", quote(unsaidLog), "/tmp/log", quote(unsaidPattern), "'(?P<key>.)(?P<token>.)'",
		quote(unsaidSelector), "my-service", quote(unsaidStream), "jobs").Replace(string(data)))
}

// assume fills what the file needs and nobody said.
func (d *Draft) assume() {
	d.Name, d.Environment = cmp.Or(d.Name, "my-service"), cmp.Or(d.Environment, "staging")
	d.Locks = slices.Clone(d.Locks)
	taken := map[string]bool{}
	for i := range d.Locks {
		l := &d.Locks[i]
		l.Name = unique(cmp.Or(l.Name, NameOf(cmp.Or(l.Lease, l.Key, strings.TrimRight(l.KeyPrefix, ":/-_."), strings.TrimLeft(l.KeySuffix, ":/-_.")))), taken)
	}
	if len(d.Locks) > 0 && !slices.ContainsFunc(d.Locks, d.drillable) {
		d.Effects = []experiments.Effects{{Name: "jobs", Lock: d.Locks[0].Name}}
	}
	// What is struck comes first: a loop, or a lock whose jobs are told of.
	slices.SortStableFunc(d.Locks, func(a, b Lock) int { return cmp.Compare(d.rank(a), d.rank(b)) })
}

func (d *Draft) rank(l Lock) int {
	if d.drillable(l) {
		return 0
	}
	return 1
}

// drillable reports whether the file can have the lock: of one that is taken per job somebody must tell the jobs.
func (d *Draft) drillable(l Lock) bool {
	return !l.Job() || slices.ContainsFunc(d.Effects, func(x experiments.Effects) bool { return x.Lock == l.Name })
}

func (d *Draft) target(b *text) {
	b.comment(0, "What the target must call itself: redis-cli SET lockdrill:environment "+d.Environment+", or the namespace's annotation lockdrill.dev/environment.")
	b.line(0, "environment: %s", d.Environment)
	if d.Redis.URL == "" {
		return
	}
	b.line(0, "redis:")
	b.line(1, "mode: external")
	b.line(1, "url: %s", quote(d.Redis.URL))
	for _, f := range []struct{ name, value string }{{"username_env", d.Redis.UsernameEnv}, {"password_env", d.Redis.PasswordEnv}, {"ca", d.Redis.CA}, {"cert", d.Redis.Cert}, {"key", d.Redis.Key}} {
		if f.value != "" {
			b.line(1, "%s: %s", f.name, quote(f.value))
		}
	}
	if d.Redis.Cluster {
		b.line(1, "cluster: true")
	}
	if d.Monitor {
		b.line(1, "allow: [%s] # for a short window before a shot: it shows values to whoever can read lockdrill's memory, and costs the server while it lasts", experiments.AllowMonitor)
	}
}

func (d *Draft) system(b *text) {
	if d.Selector != nil || d.Namespace != "" {
		b.line(0, "kubernetes:")
		if d.Namespace != "" {
			b.line(1, "namespace: %s", quote(d.Namespace))
		}
		if d.Selector == nil {
			d.Selector = map[string]string{"app": unsaidSelector}
		}
		b.line(1, "selector: %s", labels(d.Selector))
	}
	b.line(0, "system:")
	b.line(1, "mode: observe # lockdrill watches and strikes what runs; it starts nothing and asks nothing of it")
	if d.Replicas == 0 {
		b.line(1, "replicas: 3 # %s: so many are there in the steady state", check)
	} else {
		b.line(1, "replicas: %d # so many are there in the steady state", d.Replicas)
	}
	if d.Selector == nil {
		d.processes(b)
	}
	d.holder(b)
	b.line(1, "locks:")
	for _, l := range d.Locks {
		l.write(b, d.drillable(l), d.belief())
	}
	d.effects(b)
}

// belief is what may tell that a replica leads.
func (d *Draft) belief() string {
	if d.Selector == nil && d.Processes.Metrics != "" {
		return "{metric: {series: is_leader}}"
	} else if d.Selector == nil {
		return "{command: {run: [./who-leads]}}"
	}
	return `{metric: {url: "http://{ip}:9100/metrics", series: is_leader}}`
}

// processes says how the replicas are found.
func (d *Draft) processes(b *text) {
	p := &d.Processes
	b.line(1, "processes:")
	switch {
	case p.Match != "":
		b.line(2, "match: %s # against the command line; named groups such as (?P<name>\\S+) name the replicas", quote(p.Match))
	case p.PIDFiles != "":
		b.line(2, "pid_files: %s", quote(p.PIDFiles))
	case p.Unit != "":
		b.line(2, "unit: %s", quote(p.Unit))
	case p.Cgroup != "":
		b.line(2, "cgroup: %s", quote(p.Cgroup))
	case len(p.Command) > 0:
		b.line(2, "command: %s # prints a line \"pid name\" for each replica", list(p.Command))
	default:
		b.line(2, "match: %s", quote(unsaidMatch))
	}
	if p.Log == "" && d.byLog() {
		p.Log = unsaidLog
	}
	for _, f := range []struct{ name, value string }{{"log", p.Log}, {"metrics", p.Metrics}} {
		if f.value != "" {
			b.line(2, "%s: %s", f.name, quote(f.value))
		}
	}
}

// byLog reports whether a replica's log must say who holds: the values of the key that is struck name nobody, and nothing else may look.
func (d *Draft) byLog() bool {
	return d.Redis.URL != "" && d.Locks[0].Values == Tokens && !d.Monitor
}

// holder says how a key leads to the replica that holds it: by its value, where that is a name, and by the connection that renews it.
func (d *Draft) holder(b *text) {
	if d.Redis.URL == "" || d.Selector != nil && !d.Monitor && !d.byLog() { // of pods: the value begins with the pod's name
		return
	}
	b.comment(1, "How a key leads to the replica that holds it; lockdrill plan shows what each source answers now. Others: proxy, log, metric, command.")
	b.line(1, "holder:")
	if d.byLog() {
		b.comment(2, "The values of the key are random words, as watch has seen: they name nobody. So a line of a replica's log must.")
		b.line(2, "- log: {pattern: %s}", quote(unsaidPattern))
	} else if d.Monitor && d.Locks[0].Values == Tokens { // the connection says it
	} else if d.Selector != nil || slices.Contains(d.Processes.Known(), experiments.KnownName) {
		b.line(2, "- value: {} # %s: the value of the key begins with the replica's {name}", check)
	} else {
		b.line(2, "- value: {is: \"{host}:{pid}\"} # %s: the value of the key is this of its holder", check)
	}
	if d.Monitor {
		b.line(2, "- client: {} # the connection that renews the key, for values that name nobody, such as UUIDs")
	} else {
		b.comment(2, "- client: {} # the connection that renews the key, for values that name nobody, such as UUIDs; it needs redis: {allow: [monitor]}")
	}
}

func (d *Draft) effects(b *text) {
	if len(d.Effects) == 0 {
		return
	}
	b.comment(1, "Where the jobs, and their ends, are read: map says which field means what.")
	b.line(1, "effects:")
	for _, x := range d.Effects {
		b.line(2, "- name: %s", x.Name)
		b.line(3, "lock: %s", x.Lock)
		if untold(x) {
			b.comment(3, check+": without the ends of jobs, a job that was done when its holder was killed looks like one that nobody takes over.")
			b.line(3, "stream: %s", quote(unsaidStream))
			b.line(3, "map: {job: job, state: state, terminal: [SUCCEEDED, FAILED]} # %s: its fields with the job's id and state, and the states that end a job", check)
			continue
		}
		for _, f := range []struct{ name, value string }{{"stream", x.Stream}, {"list", x.List}, {"hash", x.Hash}, {"file", x.File}} {
			if f.value != "" {
				b.line(3, "%s: %s", f.name, quote(f.value))
			}
		}
		m := x.Map
		b.line(3, "map: {job: %s, state: %s, terminal: %s}", quote(m.Job), quote(m.State), list(m.Terminal))
	}
}

// untold reports effects that nobody said anything of: the file has an assumption.
func untold(x experiments.Effects) bool { return x.Stream+x.List+x.Hash+x.File == "" }

// probes allows the looks at keys to be late. The default is of a machine that only drills; one that runs a service as well is late by more,
// and each late look makes a promise inconclusive.
func (d *Draft) probes(b *text) {
	if !slices.ContainsFunc(d.Locks, func(l Lock) bool { return l.Lease == "" }) {
		return
	}
	b.line(0, "probes:")
	b.line(1, "lock_keys: {max_gap: 500ms} # the looks at the keys may be late by so much, as on a busy machine")
}

// faults are kills of whoever holds the first lock, and what is promised of it.
func (d *Draft) faults(b *text) {
	first := d.Locks[0]
	limit, kills := first.takeover(), 5
	b.line(0, "faults:")
	b.line(1, "- id: kill-%s", first.short())
	b.line(2, "at: 10s")
	b.line(2, "repeat: {count: %d, every: settled}", kills)
	if d.Selector != nil {
		b.line(2, "kill: {holder_of: %s, form: force_delete} # the pod is deleted; graceful lets it hand over", first.Name)
	} else {
		b.line(2, "kill: {holder_of: %s} # SIGKILL of whoever holds it, at a random moment of its lease", first.Name)
	}
	long := max(10*time.Minute, (2*time.Duration(kills)*limit + 5*time.Minute).Truncate(time.Minute))
	b.line(0, "limits: {max_kills: %d, max_run: %s}", 2*kills, figures.Spell(long))
	b.line(0, "slos:")
	if first.Job() {
		b.comment(1, check+": from the kill to the first sign of the successor: the lease, three calls to the store, and as long as the lease again until the service tries the job again.")
	} else {
		b.comment(1, "From the kill to the first sign of the successor: the lease, one poll, and three calls to the store.")
	}
	b.line(1, "- {lock: %s, takeover: {max: %s}}", first.Name, figures.Spell(limit))
	if !first.Job() {
		b.comment(1, fmt.Sprintf("- {lock: %s, overlap: {level: belief, max: 1s}} # two leaders at once, once belief of the lock tells who leads", first.Name))
	}
	for _, x := range d.Effects {
		promise := fmt.Sprintf("- {lock: %s, duplicate_terminal_states: {max: 0}}", x.Lock)
		switch {
		case x.Lock != first.Name || !first.Job():
		case untold(x):
			b.comment(1, promise+" # once effects are right")
		default:
			b.line(1, "%s", promise)
		}
	}
	for _, l := range d.Locks[1:] {
		if !d.drillable(l) {
			continue
		}
		b.comment(1, fmt.Sprintf("- {lock: %s, takeover: {max: %s}} # once a fault strikes its holder", l.Name, figures.Spell(l.takeover())))
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// NameOf makes a name that a file can have of a key.
func NameOf(key string) string {
	name := strings.Trim(notInNames.ReplaceAllString(key, "-"), "-._")
	if len(name) > 40 {
		whole := strings.ContainsRune("-._", rune(name[len(name)-41]))
		name = name[len(name)-40:]
		if i := strings.IndexAny(name, "-._"); !whole && i >= 0 { // no half of a word
			name = name[i:]
		}
		name = strings.TrimLeft(name, "-._")
	}
	return cmp.Or(name, "lock")
}

func unique(name string, taken map[string]bool) string {
	for i, base := 2, name; taken[name]; i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	taken[name] = true
	return name
}
