package testbed

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/command"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/procstat"
)

// How often what may have changed is read again.
const (
	youngFor     = time.Second     // a process that has just been forked is still to become its program
	readAgain    = 2 * time.Second // any process may become another program
	listAgain    = time.Second     // the tree of cgroups, and the command that lists replicas
	listWithin   = 5 * time.Second
	listMost     = 1 << 20               // bytes
	pidFileSlack = 50 * time.Millisecond // of a file's time against that of a process: both are read off coarse clocks
)

// located is a process that the file means.
type located struct {
	proc
	words map[string]string // what its pattern says of it
}

// proc is a process, as far as it matters whether it is a replica.
type proc struct {
	procstat.Process
	command string
	known   map[string]string // by the groups of Match; nil = it does not match
	at      int64             // when it was read
	first   int64             // when it was first read
	looked  int64             // number of the last look that had it
}

// processes is the system's list of them.
type processes interface {
	All() ([]int, error)
	Process(pid int) (procstat.Process, error)
	Command(pid int) (string, error)
	Owner(pid int) (uid int, err error)
}

// locator finds the processes of this host that are replicas. It is not safe for concurrent use.
type locator struct {
	p       *experiments.Processes
	proc    processes
	cgroups string // where the tree of cgroups is mounted
	clock   func() int64
	pattern *regexp.Regexp // of Match, or of the template

	table   map[int]*proc
	looks   int64
	groups  []string // cgroups that match
	grouped int64    // when they were looked for; 0 = never
	lister  *lister
	doubts  []string // what was passed over at the last look, and why
}

func newLocator(p *experiments.Processes, clock func() int64) *locator {
	l := &locator{p: p, proc: procstat.New(), cgroups: "/sys/fs/cgroup", clock: clock, table: map[int]*proc{}}
	if !proven {
		l.proc = &psTable{clock: clock}
	}
	switch {
	case p.Match != "":
		l.pattern = regexp.MustCompile(p.Match) // checked when the file was read
	case p.PIDFiles != "":
		l.pattern = experiments.PatternOf(p.PIDFiles)
	case len(p.Command) > 0:
		l.lister = &lister{command: p.Command, clock: clock}
	default:
		l.pattern = regexp.MustCompile(`(^|/)` + strings.TrimPrefix(experiments.PatternOf(strings.Trim(p.Unit+p.Cgroup, "/")).String(), "^"))
	}
	return l
}

// look lists the replicas that there are now. What could not be read is left out: it has ended.
func (l *locator) look(ctx context.Context) ([]located, error) {
	l.doubts = nil
	switch {
	case l.p.Match != "":
		return l.byCommand()
	case l.p.PIDFiles != "":
		return l.byFile()
	case l.lister != nil:
		return l.byList(ctx)
	}
	return l.byGroup()
}

// read reads a process, unless it was read lately.
func (l *locator) read(pid int) *proc {
	now, known := l.clock(), l.table[pid]
	if known != nil && now-known.first > int64(youngFor) && now-known.at < int64(readAgain) {
		return known
	}
	p := proc{at: now, first: now}
	var err error
	if p.Process, err = l.proc.Process(pid); err != nil || p.Over {
		delete(l.table, pid)
		return nil
	}
	if known != nil && known.Started == p.Started {
		p.first = known.first
	}
	if p.command, err = l.proc.Command(pid); err != nil {
		delete(l.table, pid)
		return nil
	}
	if l.p.Match != "" {
		p.known = namedGroups(l.pattern, p.command)
	}
	l.table[pid] = &p
	return &p
}

// untouchable says why a process must never be struck; "" = it may be.
func (l *locator) untouchable(p proc) string {
	switch uid, err := l.proc.Owner(p.PID); {
	case p.PID == 1:
		return "it is process 1"
	case p.PID == os.Getpid() || p.Parent == os.Getpid():
		return "it is lockdrill's own"
	case l.ancestors()[p.PID]:
		return "it has started lockdrill"
	case err == nil && uid != os.Geteuid():
		return fmt.Sprintf("it is of user %d, and lockdrill runs as %d: run it as that user", uid, os.Geteuid())
	}
	return ""
}

// ancestors are the processes that have started this one, by pid.
func (l *locator) ancestors() map[int]bool {
	all := map[int]bool{}
	for pid := os.Getppid(); pid > 0 && !all[pid]; {
		all[pid] = true
		p, err := l.proc.Process(pid)
		if err != nil {
			break
		}
		pid = p.Parent
	}
	return all
}

// forget lets a process be read anew.
func (l *locator) forget(pid int) { delete(l.table, pid) }

// byCommand finds processes by their command lines. One whose parent has the very same is a part of that: what it forks off looks so.
func (l *locator) byCommand() ([]located, error) {
	pids, err := l.proc.All()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	l.looks++
	all := map[int]*proc{}
	for _, pid := range pids {
		p := l.read(pid)
		if p == nil {
			continue
		}
		if p.looked = l.looks; p.known != nil {
			all[pid] = p
		}
	}
	for pid, p := range l.table {
		if p.looked < l.looks {
			delete(l.table, pid)
		}
	}
	var found []located
	for _, p := range all {
		if parent := all[p.Parent]; parent == nil || parent.command != p.command {
			found = append(found, located{*p, p.known})
		}
	}
	return sorted(found), nil
}

// namedGroups are the named groups of a match; nil = none matches.
func namedGroups(re *regexp.Regexp, text string) map[string]string {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	known := map[string]string{}
	for i, name := range re.SubexpNames() {
		if name != "" {
			known[name] = m[i]
		}
	}
	return known
}

func sorted(all []located) []located {
	slices.SortFunc(all, func(a, b located) int { return a.PID - b.PID })
	return all
}

// byFile finds processes by files that hold their numbers. A file that is older than the process of its number was written for another.
func (l *locator) byFile() ([]located, error) {
	star := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(l.p.PIDFiles, "*")
	paths, err := filepath.Glob(star)
	if err != nil {
		return nil, fmt.Errorf("list pid files %s: %w", l.p.PIDFiles, err)
	}
	var found []located
	for _, path := range paths {
		known := namedGroups(l.pattern, path)
		text, err := os.ReadFile(path)
		if err != nil || known == nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 0 {
			l.doubt("pid file %s holds no number", path)
			continue
		}
		p := l.read(pid)
		info, err := os.Stat(path)
		if p == nil || err != nil {
			continue
		}
		if began := startedAt(p.Process); info.ModTime().Add(pidFileSlack).Before(began) {
			l.doubt("pid file %s is older than process %d: it was written for another", path, pid)
			continue
		}
		found = append(found, located{*p, known})
	}
	return sorted(found), nil
}

// startedAt is when a process was started, by the wall clock.
func startedAt(p procstat.Process) time.Time {
	return time.Now().Add(p.Began() - time.Duration(monotime.Boot()))
}

func (l *locator) doubt(format string, args ...any) {
	l.doubts = append(l.doubts, fmt.Sprintf(format, args...))
}

// byGroup finds the main process of each cgroup of that name: the oldest of those whose parents are outside.
func (l *locator) byGroup() ([]located, error) {
	if now := l.clock(); l.grouped == 0 || now-l.grouped > int64(listAgain) {
		l.groups, l.grouped = nil, now
		err := filepath.WalkDir(l.cgroups, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it is gone, or nobody's business
			}
			if rest, _ := filepath.Rel(l.cgroups, path); d.IsDir() && l.pattern.MatchString(rest) {
				l.groups = append(l.groups, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
	}
	var found []located
	for _, path := range l.groups {
		rest, _ := filepath.Rel(l.cgroups, path)
		if main := l.mainOf(path); main != nil {
			found = append(found, located{*main, namedGroups(l.pattern, rest)})
		}
	}
	// With cgroup v1 a unit is in several trees.
	return slices.CompactFunc(sorted(found), func(a, b located) bool { return a.PID == b.PID }), nil
}

// mainOf is the main process of a cgroup; nil = it has none.
func (l *locator) mainOf(path string) (main *proc) {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return nil
	}
	members := map[int]*proc{}
	for _, line := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(line); err == nil {
			if p := l.read(pid); p != nil {
				members[pid] = p
			}
		}
	}
	for _, p := range members {
		if members[p.Parent] == nil && (main == nil || p.Started < main.Started || p.Started == main.Started && p.PID < main.PID) {
			main = p
		}
	}
	return main
}

// byList finds the processes that the user's command has listed.
func (l *locator) byList(ctx context.Context) ([]located, error) {
	lines, err := l.lister.latest(ctx)
	if err != nil {
		return nil, err
	}
	var found []located
	for _, line := range lines {
		if p := l.read(line.pid); p != nil {
			found = append(found, located{*p, map[string]string{experiments.KnownName: line.name}})
		}
	}
	return sorted(found), nil
}

// lister runs the user's command now and then, beside whoever looks.
type lister struct {
	command []string
	clock   func() int64

	mu      sync.Mutex
	running bool
	done    int64 // when it last came to its end; 0 = never
	lines   []listed
	err     error
}

type listed struct {
	pid  int
	name string
}

// latest is what the command said last; it waits only for the first time.
func (l *lister) latest(ctx context.Context) ([]listed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.done == 0:
		l.lines, l.err = l.run(ctx)
		l.done = l.clock() | 1
	case !l.running && l.clock()-l.done > int64(listAgain):
		l.running = true
		go func() {
			lines, err := l.run(ctx)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lines, l.err, l.done, l.running = lines, err, l.clock(), false
		}()
	}
	return l.lines, l.err
}

// run runs the command once.
func (l *lister) run(ctx context.Context) ([]listed, error) {
	out, err := command.Command{Words: l.command, Within: listWithin, Most: listMost}.Run(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list replicas: %w", err)
	case out.Exit != 0:
		return nil, fmt.Errorf("list replicas: %s ended with status %d: %s", l.command[0], out.Exit, out.Said())
	case out.Cut:
		return nil, fmt.Errorf("list replicas: %s printed more than %d bytes", l.command[0], listMost)
	}
	var all []listed
	for line := range strings.Lines(out.Stdout) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil || pid <= 0 || len(fields) > 2 {
			return nil, fmt.Errorf("list replicas: %s printed a line that is not \"pid name\": %q", l.command[0], strings.TrimSpace(line))
		}
		all = append(all, listed{pid, fields[len(fields)-1]})
	}
	return all, nil
}

// Found is a process that the file means, as it stands.
type Found struct {
	Name    string // its owner's word for it; "" = none is known
	PID     int
	Parent  int
	Since   time.Time
	Refused string // why it must never be struck; "" = it may be
	Log     string // path of its log; "" = not known
	Metrics string // address of its exposition; "" = not known
	Known   map[string]string
}

// FindProcesses looks once for the processes that are meant. It touches none. doubts says what was passed over, and why.
func FindProcesses(ctx context.Context, p *experiments.Processes) (found []Found, doubts []string, err error) {
	l := newLocator(p, monotime.Now)
	all, err := l.look(ctx)
	if !proven {
		l.doubt("on this system nothing proves that a number still means the same process: nothing is paused")
	}
	for _, f := range all {
		one := Found{Name: f.words[experiments.KnownName], PID: f.PID, Parent: f.Parent, Since: startedAt(f.Process), Refused: l.untouchable(f.proc), Known: f.all()}
		known := one.Known
		one.Log, _ = experiments.FillIn(p.Log, known)
		one.Metrics, _ = experiments.FillIn(p.Metrics, known)
		found = append(found, one)
	}
	return found, l.doubts, err
}
