package main

import (
	"cmp"
	"fmt"
	"strings"
)

// library is one row of the table.
type library struct {
	name    string // of its adapter
	title   string
	store   string   // kind of the store that it locks in; empty: redis
	worker  []string // command, from this folder; empty: lockdrill's own lock core
	control bool     // a lock that does what the worker protocol asks for: to accuse it of anything is a mistake of ours
	link    string   // where the library says what it promises
	promise string   // what it says of itself
	adapted string   // what the worker does with it
	queue   *queue   // of jobs, that claims no lock
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
	{name: "java-control", title: "control in Java", control: true, worker: javaWorker("Control"), link: "../internal/wild/java/Control.java",
		promise: "the same",
		adapted: "as in Go; one connection without a handshake, and another after a call that hangs. So an unclear acquire is given back within 0.3 s even where all answers are late. Then the other replica asks while the key is taken only by chance, and three limits may not be answered"},
	{name: "lockcore-etcd", title: "lockdrill's lock core on etcd", store: "etcd", control: true, link: "stores.md",
		promise: "the same; its fence is the revision that created the key",
		adapted: "no worker: `mode: embedded`, class standard"},
	{name: "lockcore-lease", title: "lockdrill's lock core on Lease objects", store: "lease", control: true, link: "stores.md",
		promise: "the same; its fence is an annotation of the Lease",
		adapted: "no worker: `mode: embedded`, class standard"},
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
	{name: "etcd-mutex", title: "etcd Mutex", store: "etcd", worker: goWorker("etcd-mutex"), link: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Mutex",
		promise: "waits in a queue of keys; \"Done returns a channel that closes when the lease is orphaned, expires, or is otherwise no longer being refreshed\" ([reference](https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done)). The revision of its key can serve as a [fence](https://etcd.io/docs/latest/learning/why/#notes-on-the-usage-of-lock-and-lease)",
		adapted: "one `Session` of 2 s for the process, another when it is done; `Lock`, `Unlock`; `Done` ends the work. The client renews by itself: a gRPC interceptor says each keepalive before it is sent. Fence: the revision that created the key"},
	{name: "etcd-election", title: "etcd Election", store: "etcd", worker: goWorker("etcd-election"), link: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Election",
		promise: "\"Multiple sessions can participate in the election for the same prefix, but only one can be the leader at a time\" ([reference](https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Election.Campaign)). Fence: as Mutex",
		adapted: "as Mutex, with `Campaign` and `Resign`"},
	{name: "client-go", title: "client-go leader election", store: "lease", worker: goWorker("client-go"), link: "https://pkg.go.dev/k8s.io/client-go/tools/leaderelection",
		promise: "\"This implementation does not guarantee that only one client is acting as a leader (a.k.a. fencing)\" ([reference](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection))",
		adapted: "a `LeaderElector` for each time that it stands for election, with a name of its own, as if its process were started anew. `LeaseDuration` 2 s, and `RenewDeadline` (1.33 s) and `RetryPeriod` (0.27 s) in the proportion of 15, 10 and 2 s that Kubernetes has. The context of `OnStartedLeading` ends the work. It renews by itself: its resource lock says each renewal before it is sent"},
	{name: "client-go-release", title: "client-go with ReleaseOnCancel", store: "lease", worker: goWorker("client-go-release"), link: "https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig",
		promise: "the same; \"ReleaseOnCancel should be set true if the lock should be released when the run context is cancelled. If you set this to true, you must ensure all code guarded by this lease has successfully completed prior to cancelling the context\" ([reference](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig))",
		adapted: "as client-go, with `ReleaseOnCancel`. After a lost lease the elector tries to release it before it ends that context"},
	{name: "pg-advisory", title: "PostgreSQL advisory lock (pgx)", store: "postgres", worker: goWorker("pg-advisory"), link: "https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS",
		promise: "\"Once acquired at session level, an advisory lock is held until explicitly released or the session ends\" ([docs](https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS)). No lease, no fence",
		adapted: "by pgx: `pg_try_advisory_lock(hashtext(key))` on a connection of its own; a `Ping` every 660 ms, and a failed one ends the work; `pg_advisory_unlock`, and the connection is closed"},
	{name: "curator", title: "Curator InterProcessMutex", store: "zookeeper", worker: javaWorker("Curator"), link: "https://curator.apache.org/docs/recipes-shared-reentrant-lock",
		promise: "a mutex of sequential nodes, each of which goes with its session; a `ConnectionStateListener` is to watch for SUSPENDED, after which nobody can be sure of the lock until RECONNECTED, and for LOST, after which it is another's ([docs](https://curator.apache.org/docs/recipes-shared-reentrant-lock)). No fence",
		adapted: "one `CuratorFramework` with a session of 2 s, and `ExponentialBackoffRetry(1000, 3)`; `acquire` for at most 2 s; SUSPENDED and LOST end the work; `release`, also then. ZooKeeper's client pings by itself: a socket class of ours, which extends its own, says each ping of a holder's session before it is sent. lockdrill does not look at ZooKeeper: its rows rest on what the worker says and on the ledger"},
}

func goWorker(name string) []string   { return []string{"../../bin/wild/goworker", name} }
func nodeWorker(name string) []string { return []string{"node/worker.js", name} }
func javaWorker(name string) []string { return []string{"java/worker", name} }

// kind is the word of the experiment file for the store that it locks in.
func (l library) kind() string { return cmp.Or(l.store, "redis") }

// section says where the locks are.
func (l library) section(d drill) string {
	if l.store == "zookeeper" && strings.Contains(l.faults(d), "hook:") { // lockdrill knows of no ZooKeeper, and a hook strikes what a file says
		return "environment: staging\nredis: {mode: spawn}"
	}
	if l.store == "" || l.store == "zookeeper" {
		return "redis: {mode: spawn}"
	}
	if l.store == "lease" {
		return "environment: staging\nstore: {kind: lease, mode: external, namespace: wild, replicas_context: '{replica}'}"
	}
	return fmt.Sprintf("store: {kind: %s%s}", l.store, d.store)
}

// key is the lock's: a Lease object has a name that takes no colon.
func (l library) key() string {
	if l.store == "lease" {
		return "mutex-wild"
	}
	return "mutex:wild"
}

// every is how often the key is looked at; what is in a ZooKeeper is not. A look at Lease objects lists them, which costs an API server more than a Redis; the watch tells
// each change all the same.
func (l library) every() string {
	switch l.store {
	case "lease":
		return "25ms"
	case "zookeeper":
		return "1h"
	}
	return "5ms"
}

// mode is the loop's: an elector leads until it loses the lease, and whoever is to be struck without looks at the key has to keep it.
func (l library) mode(d drill) string {
	if (l.store == "lease" || l.store == "zookeeper") && !d.often {
		return "renewed"
	}
	return d.mode
}

// blind is for how long looks at the key may fail: three servers of etcd answer nobody for 1 to 2 s after the death of their leader, and
// PostgreSQL takes a second to start, an API server some more. Their grants are not hidden by that: a watch of etcd tells each revision, a watch of Leases each change, and a session has its id.
func (l library) blind() string {
	switch l.store {
	case "":
		return "1s"
	case "lease":
		return "30s"
	case "zookeeper":
		return "2h"
	}
	return "5s"
}

func (l library) faults(d drill) string { return cmp.Or(d.on[l.kind()], d.faults) }
