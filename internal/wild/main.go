// Command wild drills locks that people use, and writes what came of it: wild.json beside it, and docs/wild.md made from that. `go run . -only
// redsync/key-deleted` does one cell. It uses the lockdrill that `make build` has built.
package main

import (
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
	page = "../../docs/wild.md"
	out  = "../../bin/wild"
)

func main() {
	only := flag.String("only", "", "library, library/drill, /drill, or wild/NAME of threads/; everything without")
	times := flag.Int("times", 2, "runs of each cell")
	flag.StringVar(&data, "data", data, "where the figures are kept; the page is written only for this one")
	flag.Parse()
	if err := wild(*only, *times); err != nil {
		fmt.Fprintln(os.Stderr, "wild:", err)
		os.Exit(1)
	}
}

func wild(only string, times int) error {
	t, err := read()
	if err != nil {
		return err
	}
	if only == "page" {
		return t.write()
	}
	if t.Versions, err = prepare(t.Versions); err != nil {
		return err
	}
	name, which, _ := strings.Cut(only, "/")
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
			if t.Threads[x.name] = r; !x.ok(r) {
				wrong = append(wrong, "wild/"+x.name+" is not as its thread says")
			}
			if err := t.write(); err != nil {
				return err
			}
		}
		if name == "wild" {
			return complain(wrong)
		}
	}
	type job struct {
		l library
		d drill
	}
	var jobs []job
	for _, l := range libraries {
		for _, d := range drills {
			if (name == "" || name == l.name) && (which == "" || which == d.name) {
				jobs = append(jobs, job{l, d})
			}
		}
	}
	if len(jobs) == 0 {
		return fmt.Errorf("no cell is called %q", only)
	}
	var mu sync.Mutex
	queue := make(chan job)
	var workers sync.WaitGroup
	for range min(2, len(jobs)) { // more at once would make each other late
		workers.Go(func() {
			for j := range queue {
				var runs []figures
				for len(runs) < times {
					f, err := cell(j.l, j.d)
					if err != nil {
						f = figures{Error: err.Error()}
					}
					runs = append(runs, f)
					fmt.Printf("%s  %-20s %-22s %s\n", time.Now().Format("15:04:05"), j.l.name, j.d.name, f)
				}
				mu.Lock()
				t.Cells[j.l.name+"/"+j.d.name] = runs
				for _, f := range runs {
					if j.l.control && len(f.Broken)+len(f.Error) > 0 {
						wrong = append(wrong, fmt.Sprintf("a correct worker was accused: %s/%s: %s", j.l.name, j.d.name, f))
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

// prepare builds and fetches what the workers are made of, and says which versions they are.
func prepare(known map[string]string) (map[string]string, error) {
	if _, err := os.Stat("../../bin/lockdrill"); err != nil {
		return nil, fmt.Errorf("bin/lockdrill is not there: make build")
	}
	steps := [][]string{
		{"go", "build", "-o", out + "/goworker", "./goworker"},
		{"go", "build", "-modfile=redislock-0.9.3.mod", "-o", out + "/goworker-redislock-0.9.3", "./goworker"}, // of the thread redislock-71
		{"npm", "install", "--prefix", "node", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"},
		{"/usr/bin/python3", "-c", "import redis"},
	}
	hints := []string{"", "", "node 20 with npm is needed", "Debian: apt-get install python3-redis"}
	for i, s := range steps {
		if text, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(s, " "), err, text, hints[i])
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
	ask("redis-py", "/usr/bin/python3", "-c", "import redis; print(redis.__version__)")
	ask("node", "node", "--version")
	ask("redis-server", "sh", "-c", "redis-server --version | sed 's/.* v=//; s/ .*//'")
	for of, p := range map[string]string{"redlock4": "redlock4", "redlock5": "redlock5", "sesamecare-redlock": "@sesamecare-oss/redlock", "redis-semaphore": "redis-semaphore", "ioredis": "ioredis"} {
		ask(of, "node", "-p", "require('./node/node_modules/"+p+"/package.json').version")
	}
	return known, nil
}

// cell runs one drill against one library. It is done again where the machine was too late for an answer, and where the waiter that is to be
// paused turned out to be the holder.
func cell(l library, d drill) (figures, error) {
	for try := 1; ; try++ {
		dir, err := os.MkdirTemp(out, l.name+"-"+d.name+"-")
		if err != nil {
			return figures{}, err
		}
		file := filepath.Join(dir, "cell.yaml")
		if err := os.WriteFile(file, []byte(experiment(l, d)), 0o644); err != nil {
			return figures{}, err
		}
		text, err := exec.Command("../../bin/lockdrill", "run", "--out", filepath.Join(dir, "run"), file).CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
			return figures{}, err
		}
		f, held, err := measure(filepath.Join(dir, "run"), d)
		if err != nil {
			return f, fmt.Errorf("%w: %s", err, last(string(text)))
		}
		if try < 6 && (d.name == "waiter-paused" && held || f.Blind) {
			_ = os.RemoveAll(dir)
			continue
		}
		return f, nil
	}
}

func last(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// table is wild.json.
type table struct {
	Versions map[string]string     `json:"versions"`
	Cells    map[string][]figures  `json:"cells"`   // by library/drill
	Threads  map[string]reproduced `json:"threads"` // by name
}

func read() (table, error) {
	t := table{Cells: map[string][]figures{}, Threads: map[string]reproduced{}}
	text, err := os.ReadFile(data)
	if os.IsNotExist(err) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	return t, err
}

func (t table) write() error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	lines := strings.NewReplacer(`]},"`, "]},\n\"", `],"`, "],\n\"", `},"cells":{`, "},\n\"cells\":{\n", `},"threads":{`, "},\n\"threads\":{\n", `"},"`, "\"},\n\"").Replace(string(text)) // a line each
	if err := os.WriteFile(data, []byte(lines+"\n"), 0o644); err != nil {
		return err
	}
	if data != "wild.json" {
		return nil
	}
	return os.WriteFile(page, []byte(t.page()), 0o644)
}
