// Command wild drills locks that people use, and writes what came of it: wild.json beside it, and docs/wild.md made from that. `go run . -only
// redsync/key-deleted` does one cell. It uses the lockdrill that `make build` has built.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

var data = "wild.json"

const (
	docs = "../../docs"
	out  = "../../bin/wild"
)

func main() {
	only := flag.String("only", "", "library, library/drill, /drill, or wild/NAME of threads/; everything without")
	times := flag.Int("times", 2, "runs of each cell")
	against := flag.String("against", "", "figures of an earlier harness: say what is otherwise now, and end with 1 where anything is")
	flag.StringVar(&data, "data", data, "where the figures are kept; the page is written only for this one")
	flag.Parse()
	if err := wild(*only, *times, *against); err != nil {
		fmt.Fprintln(os.Stderr, "wild:", err)
		os.Exit(1)
	}
}

func wild(only string, times int, against string) error {
	t, err := read(data)
	if err != nil {
		return err
	}
	before := table{}
	if against != "" {
		if before, err = read(against); err != nil {
			return err
		}
	}
	if only == "page" {
		return t.write()
	}
	now, err := stamp()
	if err != nil {
		return err
	}
	name, which, _ := strings.Cut(only, "/")
	var jobs []cell
	for _, c := range cells() {
		if (name == "" || name == c.l.name) && (which == "" || which == c.d.name) {
			jobs = append(jobs, c)
		}
	}
	if len(jobs) == 0 && name != "wild" {
		return fmt.Errorf("no cell is called %q", only)
	}
	if t.Versions, err = prepare(t.Versions, func(worker string) bool {
		return name == "" || name == "wild" || slices.ContainsFunc(jobs, func(c cell) bool {
			return c.l.kind() == worker || len(c.l.worker) > 0 && strings.HasPrefix(c.l.worker[0], worker)
		})
	}); err != nil {
		return err
	}
	wrong := []string{}
	if name == "" || name == "wild" {
		threads, err := readThreads()
		if err != nil {
			return err
		}
		for _, x := range threads {
			if which != "" && which != x.name {
				continue
			}
			r, err := x.reproduce()
			if err != nil {
				return err
			}
			fmt.Printf("%s  wild/%s\n    %s\n", time.Now().Format("15:04:05"), x.name, r)
			t.Threads[x.name], t.Recorded["wild/"+x.name] = r, now
			if !x.ok(r) {
				wrong = append(wrong, fmt.Sprintf("wild/%s is not as its thread says, and was (%s)", x.name, before.Recorded["wild/"+x.name]))
			}
			if err := t.write(); err != nil {
				return err
			}
		}
		if name == "wild" {
			return complain(wrong)
		}
	}
	var mu sync.Mutex
	queue := make(chan cell)
	var workers sync.WaitGroup
	for range min(2, len(jobs)) { // more at once would make each other late
		workers.Go(func() {
			for j := range queue {
				var runs []figures
				for len(runs) < times {
					f, err := j.run()
					if err != nil {
						f = figures{Error: err.Error()}
					}
					runs = append(runs, f)
					fmt.Printf("%s  %-20s %-22s %s\n", time.Now().Format("15:04:05"), j.l.name, j.d.name, f)
				}
				mu.Lock()
				t.Cells[j.name()], t.Recorded[j.name()] = runs, now
				wrong = append(wrong, before.otherwise(j.name(), runs)...)
				for _, f := range runs {
					if j.l.control && len(f.Broken)+len(f.Error) > 0 {
						wrong = append(wrong, fmt.Sprintf("a correct worker was accused: %s: %s", j.name(), f))
					}
				}
				err := t.write()
				mu.Unlock()
				if err != nil {
					fmt.Fprintln(os.Stderr, "wild:", err)
				}
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	workers.Wait()
	return complain(wrong)
}

func complain(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, "\n  "))
}

// prepare builds and fetches what the workers are made of, as far as a worker in that folder or on that store is asked for, and says which
// versions they are.
func prepare(known map[string]string, asked func(of string) bool) (map[string]string, error) {
	if _, err := os.Stat("../../bin/lockdrill"); err != nil {
		return nil, fmt.Errorf("bin/lockdrill is not there: make build")
	}
	if asked("lease") || asked("etcd") {
		pinned, err := exec.Command("../kubetools/build", "etcd", "kube-apiserver").Output()
		if err != nil {
			return nil, fmt.Errorf("build etcd and kube-apiserver: %w", err)
		}
		if err := os.Setenv("PATH", strings.TrimSpace(string(pinned))+":"+os.Getenv("PATH")); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		of, hint string
		words    []string
	}{
		{"", "", []string{"go", "build", "-o", out + "/goworker", "./goworker"}},
		{"", "", []string{"go", "build", "-o", out + "/gocontrol", "github.com/lockdrill/lockdrill/scenarios/workers/go"}},
		{"threads", "", []string{"go", "build", "-modfile=redislock-0.9.3.mod", "-o", out + "/goworker-redislock-0.9.3", "./goworker"}}, // of the thread redislock-71
		{"lease", "", []string{"go", "test", "-c", "-o", out + "/cluster", "./cluster"}},
		{"node", "node 20 with npm is needed", []string{"npm", "install", "--prefix", "node", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"}},
		{"python", "Debian: apt-get install python3-redis", []string{"/usr/bin/python3", "-c", "import redis"}},
		{"java", "Debian: apt-get install zookeeper libcurator-recipes-java libjackson2-databind-java default-jdk-headless", []string{"javac", "-cp",
			"/usr/share/java/curator-recipes.jar:/usr/share/java/jackson-databind.jar:/usr/share/java/zookeeper.jar", "-d", out + "/java", "java/Tap.java", "java/Worker.java", "java/Control.java", "java/Curator.java"}},
	} {
		if s.of != "" && !asked(s.of) {
			continue
		}
		if text, err := exec.Command(s.words[0], s.words[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(s.words, " "), err, text, s.hint)
		}
	}
	if known == nil {
		known = map[string]string{}
	}
	ask := func(of string, words ...string) {
		if text, err := exec.Command(words[0], words[1:]...).Output(); err == nil {
			known[of] = strings.TrimPrefix(strings.TrimSpace(string(text)), "v")
		}
	}
	module := func(of, path string) { ask(of, "go", "list", "-m", "-f", "{{.Version}}", path) }
	module("redsync", "github.com/go-redsync/redsync/v4")
	module("redislock", "github.com/bsm/redislock")
	module("go-redis", "github.com/redis/go-redis/v9")
	module("etcd-mutex", "go.etcd.io/etcd/client/v3")
	module("etcd-election", "go.etcd.io/etcd/client/v3")
	module("client-go", "k8s.io/client-go")
	module("client-go-release", "k8s.io/client-go")
	module("river", "github.com/riverqueue/river")
	module("asynq", "github.com/hibiken/asynq")
	module("pg-advisory", "github.com/jackc/pgx/v5")
	if asked("lease") || asked("etcd") {
		ask("etcd", "sh", "-c", "etcd --version | sed -n 's/etcd Version: //p'")
		ask("kubernetes", "sh", "-c", "kube-apiserver --version | sed 's/.* v//'")
	}
	ask("postgres", "sh", "-c", "$(ls -d /usr/lib/postgresql/*/bin/postgres | sort -V | tail -1) --version | sed 's/.*PostgreSQL) //; s/ .*//'")
	ask("redis-server", "sh", "-c", "redis-server --version | sed 's/.* v=//; s/ .*//'")
	if asked("java") {
		ask("curator", "sh", "-c", "dpkg-query -W -f '${Version}' libcurator-recipes-java | sed 's/-.*//'")
		ask("zookeeper", "sh", "-c", "dpkg-query -W -f '${Version}' zookeeper | sed 's/-.*//'")
	}
	if asked("python") {
		ask("redis-py", "/usr/bin/python3", "-c", "import redis; print(redis.__version__)")
	}
	if asked("node") {
		ask("node", "node", "--version")
		for of, p := range map[string]string{"redlock4": "redlock4", "redlock5": "redlock5", "sesamecare-redlock": "@sesamecare-oss/redlock", "redis-semaphore": "redis-semaphore", "ioredis": "ioredis", "bullmq": "bullmq"} {
			ask(of, "node", "-p", "require('./node/node_modules/"+p+"/package.json').version")
		}
	}
	return known, nil
}

// run runs one drill against one library. It is done again where the machine was too late for an answer, where a replica that was struck as
// the holder, or as the one that waits, was not, and where the worker of a queue had no job when it was struck.
func (c cell) run() (figures, error) {
	l, d := c.l, c.d
	for try := 1; ; try++ {
		dir, err := os.MkdirTemp(out, l.name+"-"+d.name+"-")
		if err != nil {
			return figures{}, err
		}
		file := filepath.Join(dir, "cell.yaml")
		text := experiment(l, d)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return figures{}, err
		}
		ask := command(l.name+"-"+d.name, dir, file, text)
		end, err := stand(l, ask)
		if err != nil {
			return figures{}, err
		}
		ctx, stop := context.WithCancel(context.Background())
		told := make(chan etcdLog, 1)
		if l.kind() == "etcd" {
			go func() { told <- followEtcd(ctx, filepath.Join(dir, "run")) }()
		}
		said, err := ask.CombinedOutput()
		stop()
		end()
		if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
			return figures{}, err
		}
		f, missed, err := measure(filepath.Join(dir, "run"), d)
		if l.kind() == "etcd" && err == nil {
			log := <-told
			if f.Owners = len(slices.Compact(slices.Clone(log.owners))); d.name != "store-emptied" { // revisions begin anew there
				err = log.agrees(filepath.Join(dir, "run", "history.jsonl"))
			}
		}
		if err != nil {
			return f, fmt.Errorf("%w: %s", err, last(string(said)))
		}
		if try < 6 && (l.queue == nil && missed || l.queue != nil && len(f.Again)+f.Left == 0 || f.Blind) {
			_ = os.RemoveAll(dir)
			continue
		}
		return f, nil
	}
}

// command runs an experiment's file, which is confirmed where commands of ours strike.
func command(name, dir, file, text string) *exec.Cmd {
	run := exec.Command("../../bin/lockdrill", "run", "--out", filepath.Join(dir, "run"), file)
	if strings.Contains(text, "environment: staging") {
		run.Args = append(run.Args, "--confirm", name, "--environment", "staging")
	}
	return run
}

// stand starts what a run does not start itself, and points the run and its workers at it; end ends it.
func stand(l library, run *exec.Cmd) (end func(), err error) {
	switch l.kind() {
	case "lease":
		return onCluster(run)
	case "zookeeper":
		return onZooKeeper(run)
	}
	return func() {}, nil
}

func last(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// table is wild.json.
type table struct {
	Versions map[string]string     `json:"versions"`
	Recorded map[string]recorded   `json:"recorded"` // by library/drill or wild/NAME
	Cells    map[string][]figures  `json:"cells"`    // by library/drill
	Threads  map[string]reproduced `json:"threads"`  // by name
}

// recorded is when figures were, and by which harness. A tree with changes has a + behind its commit.
type recorded struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
}

func (r recorded) String() string { return fmt.Sprintf("recorded %s at %s", r.Date, r.Commit) }

func read(file string) (table, error) {
	t := table{Recorded: map[string]recorded{}, Cells: map[string][]figures{}, Threads: map[string]reproduced{}}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	return t, err
}

func stamp() (recorded, error) {
	commit, err := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return recorded{}, fmt.Errorf("git describe does not say the commit of the harness: %w", err)
	}
	return recorded{time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit))}, nil
}

// otherwise says which measures of a cell are broken now and were not in any recorded run, and which were in each and hold now. A measure
// that is not answered is neither.
func (t table) otherwise(cell string, runs []figures) (said []string) {
	then, at := t.Cells[cell], t.Recorded[cell]
	if len(then) == 0 {
		return nil
	}
	broken := func(of []figures, measure string) (n int) {
		for _, f := range of {
			if slices.Contains(f.Broken, measure) {
				n++
			}
		}
		return n
	}
	for _, f := range runs {
		for _, m := range f.Broken {
			if broken(then, m) == 0 {
				said = append(said, fmt.Sprintf("%s: %s is broken, and was not (%s)", cell, m, at))
			}
		}
		for _, m := range then[0].Broken {
			if broken(then, m) == len(then) && !slices.Contains(f.Broken, m) && !slices.Contains(f.Open, m) && f.Error == "" {
				said = append(said, fmt.Sprintf("%s: %s holds, and was broken (%s)", cell, m, at))
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(said)))
}

func (t table) write() error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	lines := strings.NewReplacer(`]},"`, "]},\n\"", `],"`, "],\n\"", `},"recorded":{`, "},\n\"recorded\":{\n", `},"cells":{`, "},\n\"cells\":{\n", `},"threads":{`, "},\n\"threads\":{\n", `"},"`, "\"},\n\"").Replace(string(text)) // a line each
	if err := os.WriteFile(data, []byte(lines+"\n"), 0o644); err != nil {
		return err
	}
	if data != "wild.json" {
		return nil
	}
	for file, text := range t.pages() {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
