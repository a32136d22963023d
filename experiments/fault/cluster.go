package fault

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Faults by calls to the API server of a cluster, and hooks.

// NetworkPolicy cuts the pod of a holder off, by a NetworkPolicy of the run's own: nothing gets in or out.
type NetworkPolicy struct {
	Aim
	Reach []string // command in the container that succeeds while the pod reaches what it needs; it shows the cut in place of the lease
}

func (*NetworkPolicy) Kind() string { return "network_policy" }

// APIServer is what the API server of a cluster is to electors for a while: slow, read-only, away, or without one answer. It is made by the lockdrill proxy
// that they are pointed at, for all of them or for one.
type APIServer struct {
	Aim
	Do    APIServerDo   `rule:"required,words=slow|refuse_writes|lose_reply|away"`                // slow: requests arrive late; refuse_writes: writes get 503; lose_reply: one write's answer does not come; away: connections are reset
	Delay time.Duration `rule:"positive,for=do:slow,need=do:slow" scale:"no"`                     // how late
	Of    lockcore.Op   `rule:"words=acquire|renew|release,for=do:lose_reply,need=do:lose_reply"` // which write
}

// APIServerDo is what befalls the API server.
type APIServerDo string

const (
	SlowAPI  APIServerDo = "slow"
	ReadOnly APIServerDo = "refuse_writes"
	LostAPI  APIServerDo = "lose_reply"
	AwayAPI  APIServerDo = "away"
)

func (*APIServer) Kind() string { return "api_server" }

// Node takes the node on which the holder of a lock runs out of service: cordon lets no new pod onto it, drain evicts the drill's pods
// from it as well. No other pod is touched.
type Node struct {
	HolderOf string `rule:"required"`                    // the node of whoever holds this lock
	Do       NodeDo `rule:"required,words=drain|cordon"` // drain: cordon, and evict the drill's pods
}

// NodeDo is what is done to the node.
type NodeDo string

const (
	Drain  NodeDo = "drain"
	Cordon NodeDo = "cordon"
)

func (*Node) Kind() string  { return "node" }
func (n *Node) Target() Aim { return Aim{HolderOf: n.HolderOf} }

// Moment: as a kill, a drain strikes at an instant of the lease.
func (n *Node) Moment() Phase {
	if n.Do == Drain {
		return RandomPhase
	}
	return ""
}

// Hook is a fault that commands of the user's make, observe and undo. Aimed at a replica, it is told which that is; without an aim it
// strikes what the commands say.
type Hook struct {
	Aim
	Commands
	Struck bool `file:"-"` // a replica, as events tell, which do not say by which aim
}

// Commands are lists of words, run without a shell on the runner's host. Exit status 0 means that it is done, seen, undone.
type Commands struct {
	Do      []string      `rule:"required"` // command that makes the fault
	Undo    []string      // command that ends it, safe to run twice
	Confirm []string      `rule:"required"`                    // command that sees whether it took effect
	Within  time.Duration `rule:"positive,most=1m" scale:"no"` // limit of each command
	Dir     string        // the folder's whole path; default: where lockdrill was started
}

// Commanding is a fault that runs commands of the user's on the runner's host.
type Commanding interface {
	Spec
	Runs() *Commands
}

// Runs are the commands themselves.
func (c *Commands) Runs() *Commands { return c }

// Lists are the commands, by the words of a file.
func (c *Commands) Lists() map[string][]string {
	return map[string][]string{"do": c.Do, "undo": c.Undo, "confirm": c.Confirm}
}

func (*Hook) Kind() string { return "hook" }

// aimed is the form of a hook that strikes a replica.
const aimed = "aimed"

func (h *Hook) form() string {
	if h.Struck || h.Aim != (Aim{}) {
		return aimed
	}
	return ""
}

func (h *Hook) seen(form, _ string) { h.Struck = form == aimed }

const (
	uncordoned = "the node is uncordoned if it still bears the run's mark, which is read back"
	byTheProxy = ", by the lockdrill proxy that they are pointed at"
	uncut      = "the policy is deleted and the label removed, which is read back"
)

var cluster = []Kind{
	{Word: "network_policy", By: Cluster, New: made(NetworkPolicy{}), Aims: one, Unplayed: "the network of a cluster is not simulated",
		Says: "a holder's pod is cut off by a NetworkPolicy, which the cluster's network has to enforce",
		Form: Form{Traits: Traits{Class: ClassPause, Noun: "cut", Called: "cut off", GoesOn: "a pod is cut off until the policy is removed", OnTheWay: true, Cuts: true, LabelsPods: true}, Undone: uncut,
			Does: "{cut}", Seen: "{shown}", Told: "cut off {victim}{held} by a NetworkPolicy{for}", Shows: "the cut showed after"},
		Values: values(func(n *NetworkPolicy, t Traits) Traits { t.Command = n.Reach; return t }),
		Unsupported: unsupported(func(_ *NetworkPolicy, a Around) string {
			switch {
			case !a.Pods:
				return "is for replicas in pods, " + noPods + ": a hook can run the firewall's command"
			case !a.Observed:
				return "would cut lockdrill's workers off from the runner as well: black_hole, with proxy: {mode: external, url: ...}"
			}
			return ""
		}),
		Constraints: []Constraint{only("one pod is cut off at a time", one, func(n *NetworkPolicy) *Aim { return &n.Aim }),
			because("", func(n *NetworkPolicy, c Checker) string {
				var least time.Duration
				for _, l := range c.Locks() {
					if n.HolderOf == "" || n.HolderOf == l.Name {
						least = max(least, l.Policy.TTL)
					}
				}
				if f := c.Around().For; len(n.Reach) == 0 && f > 0 && f <= least {
					return fmt.Sprintf("for %s is not above the ttl of %s: a cut is confirmed when the lease of the pod has run out; or give it a reach", figures.Spell(f), figures.Spell(least))
				}
				return ""
			})}},
	{Word: "api_server", By: Cluster, New: made(APIServer{}), Formed: "do", Aims: anybody, Unplayed: "the API server of a cluster, and elections that go by it, are not simulated",
		Says: "a cluster's API server is slow, refuses writes or is away, by a lockdrill proxy that electors are pointed at",
		Form: Form{Traits: Traits{Class: ClassPause, Noun: "fault", Called: "API server", GoesOn: "the API server would be like that until the fault is ended", OnTheWay: true, ByAPIProxy: true},
			Size: "{late}", Seen: "the proxy counts what it did to connections from the victims' addresses: none makes the shot void", Undone: "the proxy ends the fault, and says so; it also ends by itself",
			Does: byTheProxy, Told: "API server away {on}"},
		Forms: []Form{
			{Word: "slow", Does: "what the electors send to the API server arrives {delay|0} late" + byTheProxy, Told: "API server slow[ {size}] {on}"},
			{Word: "refuse_writes", Does: "the API server answers the electors' reads, and their writes with 503" + byTheProxy, Told: "API server refuses writes {on}"},
			{Word: "lose_reply", Told: "API server loses the answer to[ {size}] {on}",
				Does: "the API server carries out one write of an elector ({of}), and its answer does not come until the fault is over; then the request is cut off" + byTheProxy},
			{Word: "away", Traits: Traits{Cuts: true}, Does: "the electors' connections to the API server are reset, and new ones too" + byTheProxy},
		},
		Values: values(func(s *APIServer, t Traits) Traits { t.Holds = s.Delay; return t }),
		Unsupported: unsupported(func(_ *APIServer, a Around) string {
			switch {
			case !a.Pods || !a.Observed:
				return "is for elections of somebody's own in pods: lockdrill's workers ask nothing of the API server"
			case !a.APIProxy:
				return "needs the lockdrill proxy that the electors are pointed at in place of their API server: kubernetes: {api_proxy: \"http://127.0.0.1:6381\"}"
			}
			return ""
		}),
		Constraints: []Constraint{
			because("holder_of", func(s *APIServer, c Checker) string {
				for _, l := range c.Locks() {
					if l.Name == s.HolderOf && !l.Lease {
						return "lock " + l.Name + " is a key of a Redis: its holder does not need the API server"
					}
				}
				return ""
			}),
			breaks("of", "the holder has acquired its Lease already: say replica, or all: true", func(s *APIServer, _ Checker) bool {
				return s.Do == "lose_reply" && s.Of == "acquire" && s.HolderOf != ""
			})}},
	{Word: "node", By: Cluster, New: made(Node{}), Formed: "do", Unplayed: "which pods share a node, and what their disruption budgets allow, is not simulated",
		Says: "a holder's node is cordoned, or drained of the drill's pods",
		Form: Form{Traits: Traits{Noun: "cordon", Called: "cordoned node", GoesOn: "a node stays cordoned until it is uncordoned", CordonsNode: true}, Undone: uncordoned,
			Does: "cordons the node of the holder: no new pod comes onto it", Seen: "the node says that it takes no pods", Told: "cordoned the node of {victim}{held}{for}"},
		Forms: []Form{{Word: "drain", Traits: Traits{Class: ClassHandOver, Noun: "drain", Called: "drained node", Kills: true, Evicts: true, WholeNode: true},
			Does: "cordons the node of the holder and evicts the drill's pods from it, within their disruption budgets; pods of others stay",
			Seen: "the node takes no pods, the pods are gone, and the holder's process is seen to end; an eviction that a budget blocks is void", Told: "drained the node of {victim}{held}{for}"}},
		Unsupported: unsupported(func(_ *Node, a Around) string {
			if !a.Pods {
				return "is for replicas in pods, " + noPods + ": a hook can run a command of yours"
			}
			return ""
		}),
		Constraints: []Constraint{because("", func(n *Node, c Checker) string { c.Lock("holder_of", n.HolderOf); return "" }),
			breaks("do", "drain needs time_scale 1: the grace of a pod does not scale", func(n *Node, c Checker) bool {
				a := c.Around()
				return n.Do == "drain" && a.TimeScale != 1 && !a.Observed && a.Pods
			})}},
	{Word: "hook", By: Hooks, New: made(Hook{Commands: Commands{Within: 10 * time.Second}}), Aims: nobody, Unplayed: "its commands are yours: what they do to the locks shows only where they run",
		Says: "what commands of yours do",
		Form: Form{Traits: Traits{Noun: "hook", Called: "hook", Elsewhere: true}, Does: "runs the file's command: {do}", Seen: "the file's command says so: {confirm}", Undone: "{ended}", Told: "ran a command[ {on}]{alone}"},
		Values: values(func(h *Hook, t Traits) Traits {
			if h.form() == "aimed" {
				t.Class, t.Elsewhere = ClassPause, false
			}
			if len(h.Undo) > 0 {
				t.GoesOn = "what undo ends goes on until then"
			}
			return t
		}),
		Constraints: []Constraint{only("a hook is told of one victim", "holder_of, replica or neither", func(h *Hook) *Aim { return &h.Aim }),
			breaks("dir", `"{dir}" does not begin with /: a folder's whole path`, func(h *Hook, _ Checker) bool { return h.Dir != "" && !strings.HasPrefix(h.Dir, "/") })}},
}

func (n *NetworkPolicy) values() map[string]string {
	if len(n.Reach) > 0 {
		return map[string]string{"cut": "a label on the pod, and a NetworkPolicy of the run's own for it, let nothing in or out, which a command in the pod tries",
			"shown": "a command in its container fails that succeeded before: " + strings.Join(n.Reach, " ") + "; a network plugin that does not enforce policies makes the shot void"}
	}
	return map[string]string{"cut": "the pod gets a label, and a NetworkPolicy of the run's own lets nothing in or out of pods with that label",
		"shown": "the lease that the pod holds is not extended, and runs out: a network plugin that does not enforce policies makes the shot void"}
}

func (h *Hook) values() map[string]string {
	ended := "by the file's command: " + strings.Join(h.Undo, " ")
	if len(h.Undo) == 0 {
		ended = "nothing to undo, the file says: no undo"
	}
	return map[string]string{"ended": ended}
}

func (s *APIServer) values() map[string]string {
	late := "+" + figures.Spell(s.Delay)
	if s.Delay == 0 {
		late = string(s.Of)
	}
	return map[string]string{"late": late}
}
