package drill

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// What a drill takes of the machine that it runs on, replicas, stores and runner together, where a message takes perMessage. A machine of
// another speed takes in proportion. They are for a plan, which starts nothing: good to about a factor of two (docs/performance.md).
const (
	perMessage    = 10 * time.Microsecond // of exchange
	cpuOfJob      = 0.0012                // seconds of a core: a job with its lock, its writes, the looks at it and the record of it
	cpuOfReplica  = 0.004                 // of a core: a replica that polls a loop's lock a few times a second
	cpuOfLooks    = 0.2                   // of a core, at the default periods of the probes
	surely        = 2                     // times as many cores as there are: then it is too much, whatever those figures are good for
	memoryReplica = 18 << 20              // bytes of its own
	memoryRunner  = 300 << 20
	filesReplica  = 3 // of the runner: its standard input, output and error
	filesRunner   = 200
)

// machine is what this host has to give; 0 = not known.
type machine struct {
	cores   int
	memory  int64 // bytes that are available
	files   uint64
	message time.Duration // what exchange measures
}

// thisMachine asks the system.
func thisMachine() machine {
	return machine{cores: runtime.NumCPU(), memory: availableMemory(), files: mostFiles(), message: exchange()}
}

// availableMemory is what Linux says that can be had without swapping; 0 = not known.
func availableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kB int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kB); n == 1 {
			return kB << 10
		}
	}
	return 0
}

// guard refuses a drill whose replicas cannot be there together on this host, and says where the host will be too slow for the jobs.
func (m machine) guard(e *experiments.Experiment) Guard {
	g := Guard{Name: machineGuardName}
	if e.Kubernetes != nil {
		g.Says = "the replicas are pods: their nodes carry them"
		return g
	}
	if e.Observed() {
		g.Says = "the replicas are there already"
		return g
	}
	n := e.System.Replicas
	memory, files := int64(memoryRunner)+int64(n)*memoryReplica, uint64(filesRunner+filesReplica*n)
	switch {
	case m.memory > 0 && memory > m.memory:
		g.Refuses = true
		g.Says = fmt.Sprintf("%s as processes need about %d MB of memory, and %d MB are available: declare fewer", figures.Plural(n, "replica"), memory>>20, m.memory>>20)
		return g
	case m.files > 0 && files > m.files:
		g.Refuses = true
		g.Says = fmt.Sprintf("%s as processes need about %d open files of the runner, and it may have %d: declare fewer, or raise ulimit -n", figures.Plural(n, "replica"), files, m.files)
		return g
	}
	idle, slow, cores := cpuOfLooks+cpuOfReplica*float64(n), m.slow(), float64(m.cores)
	if surely := surely * cores; idle*min(slow, 1) > surely { // they do not even all become ready, however busy the machine is that was measured
		g.Refuses = true
		g.Says = fmt.Sprintf("%s as processes take about %.1f cores before they do any job, and there are %d: declare at most %.0f", figures.Plural(n, "replica"), idle*slow, m.cores,
			max(0, (cores/slow-cpuOfLooks)/cpuOfReplica))
		return g
	}
	rate := 0.0 // while all streams flow
	for i := range e.System.Work {
		rate += e.System.Work[i].Rate
	}
	load := (idle + cpuOfJob*rate) * slow
	g.Says = fmt.Sprintf("about %.1f of %s", load, figures.Plural(m.cores, "core"))
	if rate > 0 {
		g.Says += fmt.Sprintf(" for %s jobs a second", strings.TrimSuffix(fmt.Sprintf("%.1f", rate), ".0"))
	}
	if load > cores {
		carried := max(0, (cores/slow-idle)/cpuOfJob)
		g.Says += fmt.Sprintf(": more than there are. Looks will come late, and calls will time out; about %.0f jobs a second are carried", carried)
	}
	return g
}

// slow is how many times as long this machine takes as the one that the figures are from; 1 where that is not known.
func (m machine) slow() float64 {
	if m.message == 0 {
		return 1
	}
	return float64(m.message) / float64(perMessage)
}
