// Package undo is the write-ahead journal of what a run changes in the world: faults, and what it has put there to stand on.
// Whatever is changed is written down, with how it is undone, and synced to the disk before it is changed; so another process can
// end it, also after the runner was killed with -9: the watchdog at once, `lockdrill recover` at any later time.
//
// It does not know how anything is undone: reverters, by kind, are handed to it. Its one invariant: a journal is closed only when
// every record in it is undone and that was verified.
package undo

import (
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// Record is one change of the world: plain data, never code, and no secrets. Exactly the body that its Kind needs is set.
type Record struct {
	Kind  string        `json:"kind"`           // names the reverter: a fault's kind (injectors), or one of the Stand constants
	Shot  history.Event `json:"shot,omitzero"`  // faults: the fault.intent event; N is the index from which its effects are awaited
	Ends  time.Time     `json:"ends,omitzero"`  // wall time at which the fault's own time is up
	Until time.Time     `json:"until,omitzero"` // by which it should have ended, with the time for confirming and undoing; then the watchdog ends it

	Process *Process     `json:"process,omitempty"`
	Folder  string       `json:"folder,omitempty"` // absolute; removed with what is in it, only if its name starts with "lockdrill-"
	Cgroup  string       `json:"cgroup,omitempty"` // of the process and all that it starts, as /proc/PID/cgroup has it; see CgroupOf
	Route   *ProxyRoute  `json:"way,omitempty"`
	Routes  []ProxyRoute `json:"ways,omitempty"` // faults of the network: one of each victim
	Key     *Key         `json:"key,omitempty"`
	Store   *Store       `json:"store,omitempty"`
	Cluster *Cluster     `json:"cluster,omitempty"`
	Cut     *Cut         `json:"cut,omitempty"`  // with Cluster
	Node    *Node        `json:"node,omitempty"` // with Cluster
	Made    *Made        `json:"made,omitempty"` // with Cluster
	Hook    *Hook        `json:"hook,omitempty"`
	Tap     *Tap         `json:"tap,omitempty"`
}

// Kinds of records that are no faults: what the run stands on.
const (
	StandReplica = "replica"      // Process and Cgroup: a replica's process group is to be gone
	StandServer  = "redis-server" // Process, Cgroup and Folder: all are to be gone
	StandRoute   = "way"          // Route: a proxy of ours on a Toxiproxy server is to be gone
	StandPods    = "pods"         // Cluster: none of these objects is left, if it is still this run's
	StandKeys    = "keys"         // Store and Key.Name = the prefix: no key of ours is to be left on a Redis that the run did not start
)

// Halts reports a fault that makes something stand still. It is undone before the others: what stands still cannot be told to end them.
func (r *Record) Halts() bool {
	t := fault.Seen(r.Kind, "", "").Traits()
	return t.Stands > 0 || t.AtStore
}

// Takes is how long it may take to undo the record, beyond what any record may.
func (r *Record) Takes() time.Duration {
	switch {
	case r.Hook != nil:
		return r.Hook.Within
	case r.Made != nil:
		return r.Made.Within
	}
	return 0
}

// Process is a process of this host by more than its number, which is used again.
type Process struct {
	PID     int    `json:"pid"`              // also the number of its process group and of its session, unless it is Alone
	Alone   bool   `json:"alone,omitempty"`  // somebody's own, which the run has not started: it is continued and never ended, and it alone is meant
	Started string `json:"started"`          // start time in ticks since boot, field 22 of /proc/PID/stat
	Host    string `json:"host"`             // boot id: another host, or this one after a reboot, has no such process
	Mark    string `json:"mark,omitempty"`   // value of MarkEnv in its environment, and in that of what it starts
	Folder  string `json:"folder,omitempty"` // that it works in, or below: how a server is known that overwrites its environment
	Forks   string `json:"forks,omitempty"`  // how the command line of its forks begins, which leave its session and have no environment: PostgreSQL's. They work in Folder, too
}

// ProxyRoute is a proxy on a Toxiproxy server, and the toxics of a fault on it.
type ProxyRoute struct {
	API      string   `json:"api"`                // base URL of the control API, http://127.0.0.1:8474
	Proxy    string   `json:"proxy"`              // its name there; carries the run and the replica
	Listen   string   `json:"listen"`             // host:port, as the server says
	Upstream string   `json:"upstream,omitempty"` // host:port, as the server dials it
	Toxics   []string `json:"toxics,omitempty"`   // names; carry the run, the fault and the stream
	Down     bool     `json:"down,omitempty"`     // the fault disables the proxy, if only for an instant
	Own      int      `json:"own,omitempty"`      // pid of the runner whose embedded server this is; 0 = a server that exists by itself
	Theirs   bool     `json:"theirs,omitempty"`   // the proxy is somebody's own: it is never made, deleted or replaced, and disabled by the fault down only
}

// Addr is where the proxy is dialled, host:port: on the host of the server's API, or, of somebody's own, where it says that it listens.
func (w *ProxyRoute) Addr() string {
	host, port, err := net.SplitHostPort(w.Listen)
	u, bad := url.Parse(w.API)
	if err != nil || bad != nil {
		return w.Listen
	}
	if ip, err := netip.ParseAddr(host); w.Theirs && err == nil && !ip.IsUnspecified() && !ip.IsLoopback() {
		return w.Listen
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Tap is a fault of a lockdrill proxy that stands by itself: it ends with its time, and is ended earlier.
type Tap struct {
	API string `json:"api"` // http://host:port, or unix:PATH
	ID  string `json:"id"`  // carries the run
}

// Key is a lock key that a fault changes.
type Key struct {
	Name  string        `json:"name"`            // with its prefix, as the store knows it
	Epoch string        `json:"epoch,omitempty"` // fingerprint of the holder's token before the fault
	Token string        `json:"token,omitempty"` // the stranger's: the key is removed only while it carries this
	TTL   time.Duration `json:"ttl,omitempty"`   // of the stranger's lease
}

// Hook is a fault of the user's own commands. Which command undoes it is also in the experiment beside the journal, or it is not run.
type Hook struct {
	Undo    []string      `json:"undo,omitempty"` // none = there is nothing to undo
	Dir     string        `json:"dir"`            // where it is run; absolute
	Within  time.Duration `json:"within"`
	Secrets []string      `json:"secrets,omitempty"` // names of environment variables whose values no command may be quoted with
	Mark    string        `json:"mark"`              // value of MarkEnv in the environment of what makes and confirms it: ended first
	PID     int           `json:"pid,omitempty"`     // of the victim
	Name    string        `json:"name,omitempty"`    // of the victim: its pod's, or its replica's
}

// Memory is how much a Redis may use, and what it does then, as it is configured.
type Memory struct {
	Max    string `json:"max"`
	Policy string `json:"policy"`
}

// Store is a store of locks. A password never stands here: the name of its environment variable does.
type Store struct {
	Kind        string   `json:"kind,omitempty"`  // as in the worker protocol; "" = a Redis
	Addr        string   `json:"addr"`            // host:port, or the absolute path of a socket
	Addrs       []string `json:"addrs,omitempty"` // of all servers, where there are several
	DB          int      `json:"db,omitempty"`
	Database    string   `json:"database,omitempty"` // of a PostgreSQL
	TLS         bool     `json:"tls,omitempty"`
	CA          string   `json:"ca,omitempty"`   // absolute path of a PEM file
	Cert        string   `json:"cert,omitempty"` // likewise
	Key         string   `json:"key,omitempty"`  // likewise
	UsernameEnv string   `json:"username_env,omitempty"`
	PasswordEnv string   `json:"password_env,omitempty"`
	RunID       string   `json:"run_id,omitempty"`
	Memory      *Memory  `json:"memory,omitempty"` // of a store that is filled: what it had before
	Owned       bool     `json:"owned,omitempty"`  // the run started it: it is gone when the run is

	Cluster  bool      `json:"cluster,omitempty"`  // Addr is one of its servers
	Sentinel *Sentinel `json:"sentinel,omitempty"` // they say where it is; Addr is that of the first of them
}

// Sentinel says who knows the primary.
type Sentinel struct {
	Master      string   `json:"master"`
	Addrs       []string `json:"addrs"`
	UsernameEnv string   `json:"username_env,omitempty"` // of the Sentinels themselves
	PasswordEnv string   `json:"password_env,omitempty"`
}

// Cluster is what a run makes in a namespace of a Kubernetes cluster, and how that is reached: paths and names, never credentials.
type Cluster struct {
	Kubeconfig string   `json:"kubeconfig,omitempty"` // absolute path; "" = as kubectl finds it, or the pod's own service account
	Context    string   `json:"context,omitempty"`
	Server     string   `json:"server,omitempty"` // address of its API server: a kubeconfig may lead elsewhere tomorrow
	Namespace  string   `json:"namespace"`
	UID        string   `json:"uid,omitempty"` // of the namespace: the same wherever the server is reached; "" = it could not be read
	Run        string   `json:"run"`           // value of the label by which an object is this run's
	Objects    []Object `json:"objects"`
	Leases     string   `json:"leases,omitempty"` // Lease objects whose keys begin with it are the run's
}

// Cut is a NetworkPolicy of the run's, and the pod that it cuts off by a label with the policy's name.
type Cut struct {
	Policy string `json:"policy"`
	Pod    string `json:"pod"`
	UID    string `json:"uid"` // of the pod
}

// Node is a node that a fault cordons; it bears the run of its Cluster as a mark.
type Node struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Made is an object that a fault makes in its Cluster; it bears the run of that as a label.
type Made struct {
	Object
	Within time.Duration `json:"within"` // in which its controller lets go of it, once it is deleted
}

// Object is one object of a cluster.
type Object struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}
