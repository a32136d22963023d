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
	{name: "lockcore", title: "lockdrill's lock core", control: true, link: "../lockcore"},
	{name: "go-control", title: "control in Go", control: true, worker: []string{"../../bin/wild/gocontrol"}, link: "../scenarios/workers/go/main.go"},
	{name: "python-control", title: "control in Python", control: true, worker: []string{"python/control.py"}, link: "../scenarios/workers/python/worker.py"},
	{name: "node-control", title: "control in node", control: true, worker: nodeWorker("control"), link: "../internal/wild/node/lib/control.js"},
	{name: "java-control", title: "control in Java", control: true, worker: javaWorker("Control"), link: "../internal/wild/java/Control.java"},
	{name: "lockcore-etcd", title: "lockdrill's lock core on etcd", store: "etcd", control: true, link: "stores.md"},
	{name: "lockcore-lease", title: "lockdrill's lock core on Lease objects", store: "lease", control: true, link: "stores.md"},
	{name: "redsync", title: "redsync", worker: goWorker("redsync"), link: "https://github.com/go-redsync/redsync",
		promise: "Redlock; `Extend` \"returns the status of expiry extension\" ([reference](https://pkg.go.dev/github.com/go-redsync/redsync/v4)). No fence",
		adapted: "`Lock`, `Unlock`; `Extend` every 660 ms, and a failed one ends the work. 32 tries, the default"},
	{name: "redislock", title: "redislock", worker: goWorker("redislock"), link: "https://github.com/bsm/redislock",
		promise: "\"Simplified distributed locking implementation\" on one Redis ([reference](https://pkg.go.dev/github.com/bsm/redislock)). No fence",
		adapted: "`Obtain` without retries, the default; `Release`; `Refresh` every 660 ms, and a failed one ends the work"},
	{name: "redis-py", title: "redis-py Lock", worker: []string{"python/redispy.py"}, link: "https://redis-py.readthedocs.io/en/stable/lock.html",
		promise: "\"It's left to the user to resolve deadlock issues and make sure multiple clients play nicely together\" ([docs](https://redis-py.readthedocs.io/en/stable/lock.html)). No fence",
		adapted: "`acquire` with a `blocking_timeout` of the TTL, `release`; `reacquire` every 660 ms by a thread, and a failed one ends the work"},
	{name: "redlock4", title: "redlock 4", worker: nodeWorker("redlock4"), link: "https://github.com/mike-marcacci/node-redlock/tree/v4.2.0",
		promise: "Redlock; \"extend the lock as long as you never let it expire\" ([README](https://github.com/mike-marcacci/node-redlock/tree/v4.2.0)). No fence",
		adapted: "`lock`, `unlock`; `extend` every 660 ms, and a failed one ends the work. 10 retries, the default"},
	{name: "redlock5", title: "redlock 5 beta", worker: nodeWorker("redlock5"), link: "https://github.com/mike-marcacci/node-redlock",
		promise: "Redlock; \"in the case that auto-extension fails, an AbortSignal will be updated\" ([README](https://github.com/mike-marcacci/node-redlock#usage)). No fence",
		adapted: "`using`, which extends by itself 500 ms before the end, the default; the signal ends the work"},
	{name: "sesamecare-redlock", title: "@sesamecare-oss/redlock", worker: nodeWorker("sesamecare"), link: "https://github.com/sesamecare/redlock",
		promise: "a fork of redlock 5, with the same words ([README](https://github.com/sesamecare/redlock#usage)). No fence",
		adapted: "as redlock 5"},
	{name: "redis-semaphore", title: "redis-semaphore", worker: nodeWorker("redis-semaphore"), link: "https://github.com/swarthy/redis-semaphore",
		promise: "a mutex that refreshes by itself; \"onLockLost: called when lock loss is detected due refresh cycle\" ([README](https://github.com/swarthy/redis-semaphore#mutex)). No fence",
		adapted: "`Mutex`, refreshed at 0.8 of the TTL, the default; `onLockLost` ends the work"},
	{name: "etcd-mutex", title: "etcd Mutex", store: "etcd", worker: goWorker("etcd-mutex"), link: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Mutex",
		promise: "a queue of keys; `Done` is closed \"when the lease is orphaned, expires, or is otherwise no longer being refreshed\" ([reference](https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done)). The revision of its key can be a [fence](https://etcd.io/docs/latest/learning/why/#notes-on-the-usage-of-lock-and-lease)",
		adapted: "one `Session` of 2 s, another when it is done; `Lock`, `Unlock`; `Done` ends the work. Fence: the revision that created the key"},
	{name: "etcd-election", title: "etcd Election", store: "etcd", worker: goWorker("etcd-election"), link: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Election",
		promise: "\"only one can be the leader at a time\" ([reference](https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Election.Campaign)). Fence: as Mutex",
		adapted: "as Mutex, with `Campaign` and `Resign`"},
	{name: "client-go", title: "client-go leader election", store: "lease", worker: goWorker("client-go"), link: "https://pkg.go.dev/k8s.io/client-go/tools/leaderelection",
		promise: "\"does not guarantee that only one client is acting as a leader (a.k.a. fencing)\" ([reference](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection))",
		adapted: "a new `LeaderElector` for each candidacy, as if its process started anew. `LeaseDuration` 2 s, `RenewDeadline` 1.33 s, `RetryPeriod` 0.27 s: Kubernetes' 15, 10 and 2 s in proportion. The context of `OnStartedLeading` ends the work"},
	{name: "client-go-release", title: "client-go with ReleaseOnCancel", store: "lease", worker: goWorker("client-go-release"), link: "https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig",
		promise: "as client-go; \"you must ensure all code guarded by this lease has successfully completed prior to cancelling the context\" ([reference](https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig))",
		adapted: "as client-go, with `ReleaseOnCancel`"},
	{name: "pg-advisory", title: "PostgreSQL advisory lock (pgx)", store: "postgres", worker: goWorker("pg-advisory"), link: "https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS",
		promise: "\"held until explicitly released or the session ends\" ([docs](https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS)). No lease, no fence",
		adapted: "`pg_try_advisory_lock(hashtext(key))` by pgx on a connection of its own, `pg_advisory_unlock`; a `Ping` every 660 ms, and a failed one ends the work"},
	{name: "curator", title: "Curator InterProcessMutex", store: "zookeeper", worker: javaWorker("Curator"), link: "https://curator.apache.org/docs/recipes-shared-reentrant-lock",
		promise: "sequential nodes that go with their session. After SUSPENDED nobody can be sure of the lock, after LOST it is another's ([docs](https://curator.apache.org/docs/recipes-shared-reentrant-lock)). No fence",
		adapted: "a session of 2 s, `ExponentialBackoffRetry(1000, 3)`; `acquire` for at most 2 s, `release`; SUSPENDED and LOST end the work"},
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
