// Package draft writes a first experiment for a system of somebody's own, from what a person says of it or a watch has seen: a file with
// comments, to be read and corrected.
//
// Its one invariant: what it writes, the reader of experiments takes once somebody has said what nobody knew, and not before.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
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
	Evidence        Evidence
}

// Job reports a lock that is taken per job.
func (l *Lock) Job() bool { return l.KeyPrefix+l.KeySuffix != "" }

// Evidence is how much of what was seen of a key is a lock's doing. A heartbeat has an expiry and is renewed, too.
type Evidence int

// Kinds of evidence, from nothing (or nobody watched) to most.
const (
	NoGrant     Evidence = iota
	Overwritten          // it was never free: each grant put another value in place of one whose lease went on
	Granted              // while it was free
	HandedOn             // that as well, and then released, or granted with another value
)

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
	f := &draft{Draft: &d, e: experiments.Blank(), says: map[string]experiments.Comment{}}
	f.e.Name = d.Name
	f.target()
	f.system()
	f.probes()
	f.faults()
	text, err := experiments.MarshalDraft(f.e, f.says)
	if err != nil {
		return nil, err
	}
	head := experiments.Modeline
	for _, words := range []string{d.From, "What says " + check + " was assumed. Then: lockdrill validate FILE, lockdrill plan FILE, lockdrill run FILE --confirm " + d.Name} {
		if words = strings.Join(strings.Fields(words), " "); words != "" {
			head += "# " + words + "\n"
		}
	}
	data := append([]byte(head), text...)
	if _, err := experiments.Parse("draft", said(data)); err != nil {
		return nil, err
	}
	return data, nil
}

// draft is an experiment in the making, and its comments by the paths of values.
type draft struct {
	*Draft
	e    *experiments.Experiment
	says map[string]experiments.Comment
}

func (f *draft) above(path, words string) {
	c := f.says[path]
	c.Above = strings.Join(strings.Fields(words), " ")
	f.says[path] = c
}

func (f *draft) beside(path, words string) { c := f.says[path]; c.Beside = words; f.says[path] = c }

func (f *draft) below(path, words string) {
	c := f.says[path]
	c.Below = strings.TrimPrefix(c.Below+"\n"+words, "\n")
	f.says[path] = c
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
	// What is struck comes first: what behaved most like a lock; of equals a loop, or a lock whose jobs are told of.
	slices.SortStableFunc(d.Locks, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(b.Evidence, a.Evidence), cmp.Compare(d.rank(a), d.rank(b)))
	})
	if len(d.Locks) > 0 && !d.drillable(d.Locks[0]) {
		d.Effects = append(slices.Clone(d.Effects), experiments.Effects{Name: "jobs", Lock: d.Locks[0].Name})
	}
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

func (f *draft) target() {
	f.e.Environment = f.Environment
	f.above("environment", "What the target must call itself: redis-cli SET lockdrill:environment "+f.Environment+", or the namespace's annotation lockdrill.dev/environment.")
	if f.Redis.URL == "" {
		return
	}
	f.e.Redis, f.e.Redis.Mode = f.Redis, experiments.RedisExternal
	if f.Monitor {
		f.e.Redis.Allow = []string{experiments.AllowMonitor}
		f.beside("redis.allow", "for a short window before a shot: it shows values to whoever can read lockdrill's memory, and costs the server while it lasts")
	}
}

func (f *draft) system() {
	s, replicas := &f.e.System, "so many are there in the steady state"
	if f.pods() {
		f.e.Kubernetes = &experiments.Kubernetes{Namespace: f.Namespace, Selector: f.Selector}
		if f.Selector == nil {
			f.e.Kubernetes.Selector = map[string]string{"app": unsaidSelector}
		}
	} else {
		f.processes()
	}
	if f.Replicas == 0 {
		replicas = check + ": " + replicas
	}
	s.Mode, s.Replicas = experiments.ModeObserve, cmp.Or(f.Replicas, 3)
	f.beside("system.mode", "lockdrill watches and strikes what runs; it starts nothing and asks nothing of it")
	f.beside("system.replicas", replicas)
	f.holder()
	for _, l := range f.Locks {
		lock, said := l.entry()
		if !f.drillable(l) {
			text, err := experiments.MarshalDraftLock(&lock, under("[0].", said))
			if err == nil { // it is of the same kind as those of the file
				f.below(at("system.locks", len(s.Locks)-1), strings.TrimSpace(l.Seen+"\nIt is taken per job: to drill it, say under effects where its jobs are read, and uncomment it.\n"+string(text)))
			}
			continue
		}
		s.Locks = append(s.Locks, lock)
		path := at("system.locks", len(s.Locks)-1)
		maps.Copy(f.says, under(path+".", said))
		f.above(path, l.Seen)
		if !l.Job() {
			last := path + ".policy"
			if l.Profile != "" {
				last = path + ".profile"
			}
			f.above(last, "belief: "+f.belief()+" # what tells which replicas say that they lead: metric, http, log or command")
		}
	}
	f.effects()
}

// belief is what may tell that a replica leads.
func (f *draft) belief() string {
	switch {
	case f.pods():
		return `{metric: {url: "http://{ip}:9100/metrics", series: is_leader}}`
	case f.Processes.Metrics != "":
		return "{metric: {series: is_leader}}"
	}
	return "{command: {run: [./who-leads]}}"
}

func (f *draft) pods() bool { return f.Selector != nil || f.Namespace != "" }

func at(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// under are comments by their paths from further above.
func under(path string, said map[string]experiments.Comment) map[string]experiments.Comment {
	all := map[string]experiments.Comment{}
	for name, c := range said {
		all[path+name] = c
	}
	return all
}

// processes says how the replicas are found.
func (f *draft) processes() {
	p := f.Processes
	f.e.System.Processes = &p
	if !f.found() {
		p.Match = unsaidMatch
	} else if p.Match != "" {
		f.beside("system.processes.match", `against the command line; named groups such as (?P<name>\S+) name the replicas`)
	}
	if len(p.Command) > 0 {
		f.beside("system.processes.command", `prints a line "pid name" for each replica`)
	}
	if p.Log == "" && f.byLog() {
		p.Log = unsaidLog
	}
}

// byLog reports whether a replica's log must say who holds: the values of the key that is struck name nobody, and nothing else may look.
func (d *Draft) byLog() bool {
	return d.Redis.URL != "" && d.Locks[0].Values == Tokens && !d.Monitor
}

// holder says how a key leads to the replica that holds it: by its value, where that is a name, and by the connection that renews it.
func (f *draft) holder() {
	const path, client = "system.holder", "the connection that renews the key, for values that name nobody, such as UUIDs"
	if f.Redis.URL == "" || f.pods() && !f.Monitor && !f.byLog() { // of pods: the value begins with the pod's name
		return
	}
	f.above(path, "How a key leads to the replica that holds it; lockdrill plan shows what each source answers now. Others: proxy, log, metric, command.")
	sources := &f.e.System.Holder
	switch {
	case f.byLog():
		*sources = []experiments.HolderSource{{Log: &experiments.HolderLog{Pattern: unsaidPattern}}}
		f.above(path+"[0]", "The values of the key are random words, as watch has seen: they name nobody. So a line of a replica's log must.")
	case f.Monitor && f.Locks[0].Values == Tokens: // the connection says it
	case f.pods() || slices.Contains(f.Processes.Known(), experiments.KnownName):
		*sources = []experiments.HolderSource{{Value: &experiments.HolderValue{}}}
		f.beside(path+"[0].value", check+": the value of the key begins with the replica's {name}")
	default:
		*sources = []experiments.HolderSource{{Value: &experiments.HolderValue{Is: "{host}:{pid}"}}}
		f.beside(path+"[0].value", check+": the value of the key is this of its holder")
	}
	if f.Monitor {
		f.beside(at(path, len(*sources))+".client", client)
		*sources = append(*sources, experiments.HolderSource{Client: &experiments.HolderClient{}})
	} else {
		f.below(path+"[0]", "- client: {} # "+client+"; it needs redis: {allow: [monitor]}")
	}
}

func (f *draft) effects() {
	for i, x := range f.Effects {
		path := at("system.effects", i)
		if untold(x) {
			x.Stream, x.Map = unsaidStream, experiments.EffectMap{Job: "job", State: "state", Terminal: []string{"SUCCEEDED", "FAILED"}}
			f.above(path, check+": without the ends of jobs, a job that was done when its holder was killed looks like one that nobody takes over.")
			f.beside(path+".map", check+": its fields with the job's id and state, and the states that end a job")
		}
		f.e.System.Effects = append(f.e.System.Effects, x)
	}
	f.above("system.effects", "Where the jobs, and their ends, are read: map says which field means what.")
}

// untold reports effects that nobody said anything of: the file has an assumption.
func untold(x experiments.Effects) bool { return x.Stream+x.List+x.Hash+x.File == "" }

// probes allows the looks at keys to be late. The default is of a machine that only drills; one that runs a service as well is late by more,
// and each late look makes a promise inconclusive.
func (f *draft) probes() {
	if slices.ContainsFunc(f.Locks, func(l Lock) bool { return l.Lease == "" }) {
		f.e.Probes.LockKeys.MaxGap = 500 * time.Millisecond
		f.beside("probes.lock_keys", "the looks at the keys may be late by so much, as on a busy machine")
	}
}

// faults are kills of whoever holds the first lock, and what is promised of it.
func (f *draft) faults() {
	first, kill := f.Locks[0], &fault.Kill{HolderOf: f.Locks[0].Name}
	limit, kills := first.takeover(), 5
	f.beside("faults[0].kill", "SIGKILL of whoever holds it, at a random moment of its lease")
	if f.pods() {
		kill.How = fault.ForceDelete
		f.beside("faults[0].kill", "the pod is deleted; graceful lets it hand over")
	}
	f.e.Faults = experiments.Faults{{ID: "kill-" + first.Name[:min(len(first.Name), 40)], At: 10 * time.Second, Repeat: experiments.Repeat{Count: kills, Settled: true}, Spec: kill}}
	f.e.Limits.MaxKills, f.e.Limits.MaxRun = 2*kills, max(10*time.Minute, (2*time.Duration(kills)*limit+5*time.Minute).Truncate(time.Minute))
	f.e.SLOs = []experiments.SLO{{Lock: first.Name, Takeover: experiments.Within(limit)}}
	f.above("slos[0]", "From the kill to the first sign of the successor: the lease, one poll, and three calls to the store.")
	if first.Job() {
		f.above("slos[0]", check+": from the kill to the first sign of the successor: the lease, three calls to the store, and as long as the lease again until the service tries the job again.")
	}
	var later []string
	if !first.Job() {
		later = append(later, fmt.Sprintf("- {lock: %s, overlap: {level: belief, max: 1s}} # two leaders at once, once belief of the lock tells who leads", first.Name))
	}
	for _, x := range f.Effects {
		switch {
		case x.Lock != first.Name || !first.Job():
		case untold(x):
			later = append(later, fmt.Sprintf("- {lock: %s, duplicate_terminal_states: {max: 0}} # once effects are right", x.Lock))
		default:
			f.e.SLOs = append(f.e.SLOs, experiments.SLO{Lock: x.Lock, DuplicateTerminalStates: &experiments.CountLimit{Bound: *experiments.AtMost(0)}})
		}
	}
	for _, l := range f.Locks[1:] {
		if f.drillable(l) {
			later = append(later, fmt.Sprintf("- {lock: %s, takeover: {max: %s}} # once a fault strikes its holder", l.Name, figures.Spell(l.takeover())))
		}
	}
	if len(later) > 0 {
		f.below(at("slos", len(f.e.SLOs)-1), strings.Join(later, "\n"))
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
