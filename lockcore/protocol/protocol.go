// Package protocol is the worker protocol: what the runner and a replica say to one another, one JSON document a line.
//
// The runner writes Commands to the replica's standard input; the replica writes history.Events to its standard output,
// with absolute CLOCK_MONOTONIC stamps in nanoseconds (the runner moves them to the run's origin). It is not tied to the
// embedded lock core: any executable that speaks it can stand a drill. docs/worker-protocol.md is its description for
// people. Its one invariant: the line that announces a call is written, unbuffered, before the call is made.
// Unknown fields are tolerated on both sides; a higher Version is refused.
package protocol

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Version of the protocol that this package speaks.
const Version = 1

// Command is one line from the runner to a replica: Cmd, and the body of that name where it has one.
type Command struct {
	V         int        `json:"v"`
	Cmd       string     `json:"cmd"` // configure, offer, arm, disarm, crash, stop
	Configure *Configure `json:"configure,omitempty"`
	Offer     *Offer     `json:"offer,omitempty"`
	Arm       *Arm       `json:"arm,omitempty"`
	Disarm    *Disarm    `json:"disarm,omitempty"`
}

// Words of Command.Cmd.
const (
	CmdConfigure = "configure" // first, once; answered by a replica.ready event
	CmdOffer     = "offer"     // a job; answered by job.ack in the end, or not at all
	CmdArm       = "arm"       // a fault inside the replica; each operation that it hits is a fault.hit event, its end fault.reverted
	CmdDisarm    = "disarm"    // answered by a fault.reverted event of the same shot, unless that has been said
	CmdCrash     = "crash"     // die at once, as from SIGKILL: no line, no release, no exit handler; exit status 137
	CmdStop      = "stop"      // finish: cancel work, release what the policy releases, exit 0
)

// Configure tells a replica who it is and what it works on.
type Configure struct {
	Name        string   `json:"name"`            // "r1"
	Incarnation string   `json:"incarnation"`     // "r1.2"
	Seed        int64    `json:"seed"`            // of the replica's own random choices
	Store       Endpoint `json:"store"`           // the locks' store: may lead through a proxy
	Ledger      Endpoint `json:"ledger"`          // never proxied
	Script      string   `json:"script"`          // Lua: the one script by which effects are written; docs/worker-protocol.md gives KEYS, ARGV and reply
	Alone       bool     `json:"alone,omitempty"` // send each lock operation as a command of its own: a proxy on the way makes single ones fail
	Locks       []Lock   `json:"locks"`
}

// Endpoint is a store and the prefix that goes before every key of this run. A password is not in it: the replica reads the
// variables of its own environment that are named here.
type Endpoint struct {
	Kind   string   `json:"kind,omitempty"`  // a Kind; a worker that does not know it does not get ready. "" = KindRedis, of an older runner
	Addr   string   `json:"addr"`            // host:port, or the absolute path of a socket
	Addrs  []string `json:"addrs,omitempty"` // of all servers, where there are several: Addr is the first
	Prefix string   `json:"prefix,omitempty"`

	User     string `json:"user,omitempty"`     // KindPostgres: its role, where no variable names one; it needs no password then
	Database string `json:"database,omitempty"` // KindPostgres

	Kubeconfig string `json:"kubeconfig,omitempty"` // KindLease: absolute path; "" = as kubectl finds it, or the pod's own service account
	Context    string `json:"context,omitempty"`    // KindLease: of the kubeconfig
	Namespace  string `json:"namespace,omitempty"`  // KindLease: of the Lease objects

	DB          int    `json:"db,omitempty"`
	UsernameEnv string `json:"username_env,omitempty"` // name of the environment variable that holds the user's name
	PasswordEnv string `json:"password_env,omitempty"` // the same for the password
	TLS         bool   `json:"tls,omitempty"`
	ServerName  string `json:"server_name,omitempty"` // TLS: whom the certificate must name, also where Addr is a proxy's; "" = the host of Addr
	CA          string `json:"ca,omitempty"`          // TLS: PEM file of the authority, absolute; "" = the system's
	Cert        string `json:"cert,omitempty"`        // TLS: PEM file of the certificate of whoever asks, absolute; "" = the server wants none
	Key         string `json:"key,omitempty"`         // TLS: PEM file of that certificate's key, absolute
}

// Kinds of stores. The ledger is always a Redis.
const (
	KindRedis    = "redis"
	KindEtcd     = "etcd"
	KindPostgres = "postgres"
	KindLease    = "lease"
)

// Lock is one lock of the experiment, resolved.
type Lock struct {
	Name     string          `json:"name"`     // as in the experiment
	Profile  string          `json:"profile"`  // what its policy is called, "" = it has no name: a label of metrics
	Key      string          `json:"key"`      // loops: the key; job locks: empty, each offer carries its key
	Policy   lockcore.Policy `json:"policy"`   // durations in ns
	Unfenced bool            `json:"unfenced"` // effects are written without the fence being compared
	Strict   bool            `json:"strict"`   // the ledger also refuses a second terminal state
	NoLook   bool            `json:"no_look"`  // jobs: do not skip what is already terminal
}

// Offer is a job for a replica. Offers are delivered at least once.
type Offer struct {
	Lock  string        `json:"lock"`            // name of the lock
	Job   string        `json:"job"`             // id, the ledger's subject
	Key   string        `json:"key"`             // its lock key
	Class string        `json:"class,omitempty"` // of the job: a label of metrics
	Hold  time.Duration `json:"hold"`            // ns of work
}

// Arm makes operations of this replica's lock store go wrong, or sets off its wall clock. Count or For must bound it: the replica
// disarms itself, and a dead runner leaves no fault behind.
type Arm struct {
	Fault      string `json:"fault"` // id in the experiment
	Shot       int    `json:"shot"`
	burst.Spec        // or Op clock with Mode offset: Delay is how far ahead (negative: behind)
}

// Name is the shot's name in events: "burst#1".
func (a *Arm) Name() string { return fmt.Sprintf("%s#%d", a.Fault, a.Shot) }

// Kind is the experiment's name of the fault that this is a shot of.
func (a *Arm) Kind() string {
	if a.Op == OpClock {
		return a.Op
	}
	return a.Op + "_failures"
}

// Words of Arm for the wall clock as the replica's lock core sees it; bounded by For.
const (
	OpClock    = "clock"
	ModeOffset = "offset" // Delay is added to what it shows
)

// Disarm ends an armed fault early.
type Disarm struct {
	Fault string `json:"fault"`
	Shot  int    `json:"shot"`
}
