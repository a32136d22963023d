package main

// library is one row of the table.
type library struct {
	name    string // of its adapter
	title   string
	worker  []string // command, from this folder; empty: lockdrill's own lock core
	control bool     // a lock that does what the worker protocol asks for: to accuse it of anything is a mistake of ours
	link    string   // where the library says what it promises
	promise string   // what it says of itself
	adapted string   // what the worker does with it
}

var libraries = []library{
	{name: "lockcore", title: "lockdrill's lock core", control: true, link: "../lockcore",
		promise: "fences, a lease counted from when it was asked for, three policies ([policies](policies/README.md))",
		adapted: "no worker: `mode: embedded`, class standard"},
	{name: "go-control", title: "control in Go", control: true, worker: goWorker("control"), link: "../internal/wild/goworker/control.go",
		promise: "a drill accuses it of nothing",
		adapted: "each call bounded by 250 ms; fence; the work ends 0.1 s before the lease does; an unclear acquire is given back"},
	{name: "python-control", title: "control in Python", control: true, worker: []string{"python/control.py"}, link: "../scenarios/workers/python/worker.py",
		promise: "the same",
		adapted: "the worker that [the protocol](worker-protocol.md) gives for copying, as it stands"},
	{name: "node-control", title: "control in node", control: true, worker: nodeWorker("control"), link: "../internal/wild/node/lib/control.js",
		promise: "the same",
		adapted: "as in Go; one connection a call that hangs"},
	{name: "redsync", title: "redsync", worker: goWorker("redsync"), link: "https://github.com/go-redsync/redsync",
		promise: "Redlock; \"Extend resets the mutex's expiry and returns the status of expiry extension\" ([reference](https://pkg.go.dev/github.com/go-redsync/redsync/v4)). No fence",
		adapted: "`Lock`, `Extend` every 660 ms by the caller, `Unlock`; a failed `Extend` ends the work. 32 tries, as by default"},
	{name: "redislock", title: "redislock", worker: goWorker("redislock"), link: "https://github.com/bsm/redislock",
		promise: "\"Simplified distributed locking implementation\" on one Redis ([reference](https://pkg.go.dev/github.com/bsm/redislock)). No fence",
		adapted: "`Obtain` without retries, as by default; `Refresh` every 660 ms by the caller; a failed `Refresh` ends the work; `Release`"},
	{name: "redis-py", title: "redis-py Lock", worker: []string{"python/redispy.py"}, link: "https://redis-py.readthedocs.io/en/stable/lock.html",
		promise: "\"It's left to the user to resolve deadlock issues and make sure multiple clients play nicely together\" ([docs](https://redis-py.readthedocs.io/en/stable/lock.html)). No fence",
		adapted: "`acquire` with a `blocking_timeout` of the TTL; `reacquire` every 660 ms by a thread (`thread_local=False`); a failed one ends the work; `release`"},
	{name: "redlock4", title: "redlock 4", worker: nodeWorker("redlock4"), link: "https://github.com/mike-marcacci/node-redlock/tree/v4.2.0",
		promise: "Redlock; \"extend the lock as long as you never let it expire\" ([README](https://github.com/mike-marcacci/node-redlock/tree/v4.2.0)). No fence",
		adapted: "`lock`, `lock.extend` every 660 ms by the caller, `unlock`; a failed extension ends the work. 10 retries, as by default"},
	{name: "redlock5", title: "redlock 5 beta", worker: nodeWorker("redlock5"), link: "https://github.com/mike-marcacci/node-redlock",
		promise: "Redlock; `using` extends by itself, and \"in the case that auto-extension fails, an AbortSignal will be updated\" ([README](https://github.com/mike-marcacci/node-redlock#usage)). No fence",
		adapted: "`using`, with the extension 500 ms before the end that is the default; the signal ends the work"},
	{name: "sesamecare-redlock", title: "@sesamecare-oss/redlock", worker: nodeWorker("sesamecare"), link: "https://github.com/sesamecare/redlock",
		promise: "a fork of redlock 5, with the same words ([README](https://github.com/sesamecare/redlock#usage)). No fence",
		adapted: "as redlock 5"},
	{name: "redis-semaphore", title: "redis-semaphore", worker: nodeWorker("redis-semaphore"), link: "https://github.com/swarthy/redis-semaphore",
		promise: "a mutex that refreshes by itself; \"onLockLost: called when lock loss is detected due refresh cycle\" ([README](https://github.com/swarthy/redis-semaphore#mutex)). No fence",
		adapted: "`Mutex` with `onLockLost`, which ends the work; refreshed every 1.6 s (0.8 of the TTL, the default); `acquireTimeout` as long as the lease, as by default"},
}

func goWorker(name string) []string   { return []string{"../../bin/wild/goworker", name} }
func nodeWorker(name string) []string { return []string{"node/worker.js", name} }
