package main

import (
	"fmt"
	"strings"
)

// queue is what the drills of a queue need to know of one.
type queue struct {
	jobs  int
	rate  string
	pause string // longer than it takes the others to give the jobs of a worker that is silent to another
}

// queues are drilled by what became of their jobs. Each runs for as long as it takes to notice that a worker is gone.
var queues = []library{
	{name: "bullmq", title: "bullmq", worker: nodeWorker("bullmq"), link: "https://docs.bullmq.io",
		promise: "\"every job is delivered to a worker at least once\"; after a crash it \"can be processed again\" ([docs](https://docs.bullmq.io))",
		adapted: "`lockDuration` and `stalledInterval` 2 s (default 30 s)", queue: &queue{40, "2/s", "7s"}},
	{name: "river", title: "river", store: "postgres", worker: goWorker("river"), link: "https://riverqueue.com",
		promise: "a rescue \"can result in repeat or duplicate execution of a job that is not actually stuck but is still working\" ([reference](https://pkg.go.dev/github.com/riverqueue/river#Config))",
		adapted: "`JobTimeout` 10 s, `RescueStuckJobsAfter` 12 s (default a minute and an hour). The leader among the clients looks every 30 s, and is replaced after 15 s; neither can be set", queue: &queue{200, "2/s", "70s"}},
	{name: "asynq", title: "asynq", worker: goWorker("asynq"), link: "https://github.com/hibiken/asynq",
		promise: "\"Guaranteed at least one execution of a task\" ([README](https://github.com/hibiken/asynq))",
		adapted: "defaults: a lease of 30 s, looked for once a minute when it has been over for 30 s, tried again 15 to 45 s later", queue: &queue{480, "2/s", "170s"}},
}

// ofQueues are the drills of queues.
var ofQueues = []drill{
	{name: "worker-killed", title: "worker killed", about: "SIGKILL of one of two workers; it starts again after 0.5 s.",
		faults: `- {id: f, at: 6s, hook: {replica: r1, do: [sh, -c, "kill -9 $LOCKDRILL_VICTIM_PID"], confirm: [sh, -c, "while kill -0 $LOCKDRILL_VICTIM_PID; do sleep 0.01; done"]}}`}, // nobody is known to hold a job, as a kill asks for
	{name: "worker-paused", title: "worker paused", about: "SIGSTOP of one of two workers for longer than its jobs stay its own (bullmq 7 s, river 70 s, asynq 170 s).",
		faults: "- {id: f, at: 6s, for: PAUSE, pause: {replica: r1}}"},
	{name: "store-killed", title: "store restarted with its data", about: "kill -9 of the server, and a start with its data.",
		faults: "- {id: f, at: 6s, store: {do: restart, keep: true}}", on: map[string]string{"postgres": "- {id: f, at: 6s, store: {do: restart}}"}},
}

// ofQueue is the experiment of a queue, with its worker's line.
func ofQueue(l library, d drill, worker string) string {
	environment := ""
	if strings.Contains(d.faults, "hook:") { // commands of ours
		environment = "environment: staging\n"
	}
	return fmt.Sprintf(`apiVersion: lockdrill/v1
kind: Experiment
name: %s-%s
%s%s
system:
  mode: embedded
  replicas: 2
  restart: 500ms
%s  locks:
    - {name: job, ttl: 2s, renew_every: 0s, key_prefix: "queue:job:"}
  work:
    - {lock: job, jobs: %d, rate: %s, hold: {p50: 3s}, redeliver: 0s, fenced: false, look: false}
steady_state: {for: 1s, timeout: 30s}
faults:
%s
probes:
  lock_keys: {every: 100ms, max_gap: 10s}
  ledger: {every: 10ms, max_gap: 1s}
limits: {max_run: 10m}
slos:
  - {lock: job, duplicate_terminal_states: {max: 0}}
`, l.name, d.name, environment, l.section(d), worker, l.queue.jobs, l.queue.rate, indent(strings.Replace(l.faults(d), "PAUSE", l.queue.pause, 1)))
}

// jobOf is a job of a queue, as the ledger tells of it.
type jobOf struct {
	by     string // the replica that began it last
	done   bool
	struck *event // the fault that struck it at work
}

func (f *figures) job(jobs map[string]*jobOf, e event) {
	j := jobs[e.Entry.Subject]
	switch {
	case j == nil:
		j = &jobOf{}
		jobs[e.Entry.Subject] = j
	case !e.Entry.Terminal:
		f.Begun++
	}
	if !e.Entry.Terminal {
		j.by = e.Entry.Writer
		return
	}
	if j.struck != nil && !j.done {
		hi := float64(e.To-j.struck.From) / 1e9
		f.Again = append(f.Again, span{Lo: max(0, float64(e.From-j.struck.To)/1e9), Hi: &hi})
	}
	j.done = true
}

// queues says which queues there are, and what their drills do.
func (t table) queues() string {
	var pages []string
	for _, l := range queues {
		pages = append(pages, fmt.Sprintf("[%s %s](%s)", l.title, t.Versions[l.name], l.page()))
	}
	var b strings.Builder
	for _, d := range ofQueues {
		fmt.Fprintf(&b, "* `%s`: %s\n", d.name, d.about)
	}
	return "Drilled are " + strings.Join(pages, ", ") + ".\n\n" + b.String()
}

const columnsOfQueues = " | struck jobs | of these not done | done after, s | jobs begun again | finished twice |\n"

const ruleOfQueues = "|---|---|---|---|---|---|\n"

// rowOfQueue is the line of a cell below the columns, "" of one that was not run.
func (t table) rowOfQueue(first string, l library, d drill) string {
	runs := t.Cells[l.name+"/"+d.name]
	if len(runs) == 0 {
		return ""
	}
	var struck, left, twice, begun []int
	var again []span
	for _, f := range runs {
		struck, left = append(struck, len(f.Again)+f.Left), append(left, f.Left)
		twice, begun, again = append(twice, f.Twice), append(begun, f.Begun), append(again, f.Again...)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", first, counts(struck), counts(left), bare(ranges(again)), counts(begun), counts(twice))
}
