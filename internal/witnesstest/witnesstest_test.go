package witnesstest

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
)

// What a drill of the witness rests on: its jobs end once, whatever dies is replaced, and its loops tick.
func TestTheWitnessDoesItsJobsAndReplacesWhatDies(t *testing.T) {
	addr := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	const jobs = 40
	w := Start(t, addr, "--scale", "0.02", "--rate", "20", "--jobs", fmt.Sprint(jobs))

	first := w.Pid(t, 2)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.Await(t, "another s2", func() bool { pid := w.Pid(t, 2); return pid != 0 && pid != first })
	w.Await(t, "all jobs finished", func() bool {
		return client.SCard(t.Context(), "cordum:finished").Val() == jobs
	})
	log, err := client.XRange(t.Context(), "cordum:jobs:log", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for _, entry := range log {
		if entry.Values["status"] == "SUCCEEDED" {
			ends[fmt.Sprint(entry.Values["job_id"])]++
		}
		for _, field := range []string{"job_id", "status", "op_id", "worker", "token", "lock_key"} {
			if entry.Values[field] == "" {
				t.Fatalf("an entry without %s: %v", field, entry.Values)
			}
		}
	}
	for job, n := range ends {
		if n != 1 {
			t.Errorf("%s ended %d times", job, n)
		}
	}
	for _, loop := range []string{"reconciler", "replayer", "workflow-reconciler", "delay-poller", "snapshot-writer"} {
		w.Await(t, "a tick of "+loop, func() bool { return client.XLen(t.Context(), "cordum:ticks:"+loop).Val() > 0 })
	}
	metrics := w.metrics(t, 1)
	for _, want := range []string{"cordum_scheduler_job_lock_abandoned_total 0\n", "# TYPE job_lock_wait histogram\n", "stale_jobs ", "orphan_replayed_total "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not say %q:\n%s", want, metrics)
		}
	}
}

func (w *Witness) metrics(t *testing.T, replica int) string {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", w.Port+replica))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestTheWitnessKnowsItsBugs(t *testing.T) {
	list := exec.Command(Python(t), "-B", "-c", "import scheduler; print(*scheduler.BUGS)")
	list.Dir = Folder()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, Bugs) {
		t.Errorf("scheduler.py has the bugs %v, the tests know %v", got, Bugs)
	}
}

// The same jobs end once in Node; whatever dies is replaced, one of its replicas says that it leads, and its bugs are known.
func TestTheWitnessInNodeDoesItsJobs(t *testing.T) {
	node, addr := Node(t), redistest.Start(t)
	help, err := exec.Command("node", filepath.Join(Folder(), "scheduler.js"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	var bugs []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+): `).FindAllStringSubmatch(string(help), -1) {
		bugs = append(bugs, m[1])
	}
	if !slices.Equal(bugs, NodeBugs) {
		t.Errorf("scheduler.js has the bugs %v, the tests know %v", bugs, NodeBugs)
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	const jobs = 40
	w := Start(t, addr, append(node, "--scale", "0.02", "--rate", "20", "--jobs", fmt.Sprint(jobs))...)
	first := w.Pid(t, 2)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.Await(t, "another s2", func() bool { pid := w.Pid(t, 2); return pid != 0 && pid != first })
	w.Await(t, "all jobs finished", func() bool { return client.SCard(t.Context(), "cordum:finished").Val() == jobs })
	log, err := client.XRange(t.Context(), "cordum:jobs:log", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, entry := range log {
		if entry.Values["status"] == "SUCCEEDED" {
			ends++
		}
	}
	if ends != jobs {
		t.Errorf("%d jobs ended %d times", jobs, ends)
	}
	w.Await(t, "a leader that says so", func() bool {
		return slices.ContainsFunc([]int{1, 2, 3}, func(i int) bool { return strings.Contains(w.metrics(t, i), "leader{loop=\"reconciler\"} 1\n") })
	})
}
