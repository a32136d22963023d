package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// BenchmarkDrillOfManyJobs runs whole drills, from the file to the verdict: what the runner takes of the processors beside replicas and
// stores, also without prediction and judging, how much of the time the probes covered, and how large the runner got.
func BenchmarkDrillOfManyJobs(b *testing.B) {
	for name, many := range map[string]func(*experiments.Experiment){
		"12000_at_200":  func(*experiments.Experiment) {},
		"50000_at_1000": func(e *experiments.Experiment) { e.System.Work[0].Jobs, e.System.Work[0].Rate = 50_000, 1000 },
	} {
		b.Run(name, func(b *testing.B) {
			e, err := experiments.Load(filepath.Join("testdata", "manyjobs.yaml"))
			must(b, err)
			many(e)
			file, err := experiments.Marshal(e)
			must(b, err)
			for b.Loop() {
				dir := b.TempDir()
				path := filepath.Join(dir, "manyjobs.yaml")
				must(b, os.WriteFile(path, file, 0o600))
				benchDrill(b, path, filepath.Join(dir, "out"))
			}
		})
	}
}

func benchDrill(b *testing.B, path, out string) {
	cmd := exec.Command(built, "run", path, "--out", out)
	says, err := cmd.StderrPipe()
	must(b, err)
	must(b, cmd.Start())
	pid := cmd.Process.Pid
	var said strings.Builder
	began, drilling := 0.0, 0.0
	for lines := bufio.NewScanner(says); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if phase := strings.Fields(lines.Text()); len(phase) == 3 && phase[1] == "phase" {
			switch now, _ := usedBy(b, pid); phase[2] {
			case "steady":
				began = now
			case "final":
				drilling = now - began
			}
		}
	}
	must(b, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	own, others := usedBy(b, pid)
	_ = cmd.Wait() // the verdict says more than the status
	data, err := os.ReadFile(filepath.Join(out, verdictFile))
	if err != nil {
		b.Fatalf("%v\n%s", err, said.String())
	}
	var v struct{ Verdict string }
	must(b, json.Unmarshal(data, &v))
	b.Logf("%s: %s", filepath.Base(path), v.Verdict) // inconclusive where the machine was too busy for the looks
	b.ReportMetric(own, "cpu-s/runner")
	b.ReportMetric(others, "cpu-s/replicas+stores")
	b.ReportMetric(own/others, "of-replicas+stores")
	b.ReportMetric(drilling/others, "drilling-of-replicas+stores")
	b.ReportMetric(100*covered(b, filepath.Join(out, historyFile)), "%covered")
	b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MB")
}

// usedBy is what a process that has ended has used of the processors, and what those have that it has started, in seconds.
func usedBy(b *testing.B, pid int) (own, others float64) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	var ticks [4]float64
	for i := range ticks { // utime, stime, cutime, cstime
		if ticks[i], err = strconv.ParseFloat(fields[11+i], 64); err != nil {
			b.Fatal(err)
		}
	}
	return (ticks[0] + ticks[1]) / 100, (ticks[2] + ticks[3]) / 100
}

// covered is the share of the drill, of 1, in which the looks at keys and ledger came within their max_gap.
func covered(b *testing.B, path string) float64 {
	file, err := os.Open(path)
	must(b, err)
	defer file.Close()
	h, err := history.Read(file)
	must(b, err)
	var blind int64
	for _, e := range h.Events {
		if e.Kind == history.GapKind {
			blind += e.Width()
		}
	}
	return 1 - float64(blind)/float64(2*h.Events[len(h.Events)-1].At)
}
