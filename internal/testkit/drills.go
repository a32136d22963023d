package testkit

// JobLock is a lock of jobs.
const JobLock = `    - name: job
      key_prefix: "job:"
      policy:
        ttl: 400ms
        renew_every: 100ms
        class: standard
        op_timeout: 50ms
        stop_budget: 20ms
        release: {mode: bounded_retry, attempts: 2, timeout: 50ms}
        acquire: {mode: try, timeout: 50ms}
`

// JobWork is a stream of jobs under that lock.
const JobWork = `  work:
    - {lock: job, jobs: 40, rate: 20/s, hold: {p50: 50ms, p99: 80ms}, redeliver: 300ms}
`

// GoodDrill passes in a few seconds, on a machine that stalls for a second as well. Every false green below differs from it in one thing.
const GoodDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: good
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 2
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 400ms
        renew_every: 100ms
        class: standard
        op_timeout: 50ms
        stop_budget: 20ms
        release: {mode: none}
        acquire: {mode: try, timeout: 50ms}
        loop: {poll: 50ms, mode: renewed, tick: 10ms}
` + JobLock + JobWork + `steady_state: {for: 300ms, timeout: 20s}
faults:
  - id: kill
    at: 0s
    repeat: {count: 2, every: settled}
    kill: {holder_of: loop, phase: after_renew}
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_kills: 4, max_run: 1m}
slos:
  ` + GoodSLO + "\n"

// The good drill's SLO, beyond any takeover of it even where the machine is busy; and one to put in its place where no takeover is
// asked about: a run waits for as long as a breach would take to show.
const (
	GoodSLO  = "- {lock: loop, takeover: {max: 2s}}"
	ShortSLO = "- {lock: loop, overlap: {level: effect, max: 0}}"
)
