package injectors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/procstat"
	"github.com/lockdrill/lockdrill/internal/sockets"
)

// victimEvidence is how the victims are to show a fault of the network, in their own claims: independent of the proxy, so that a client that
// goes round its way is found out.
type victimEvidence struct {
	base    time.Duration // the way's round trip before
	cut     bool          // no operation on the lock may be answered
	least   time.Duration // every operation takes at least so long; > 0
	some    time.Duration // some operations take so much longer; > 0
	sockets bool          // operations do not show it: the victims must be connected to their ways
}

const (
	evidenceEvery = 100 * time.Millisecond // for operations without an answer, and sockets
	lostEvery     = 5                      // of these: is the fault still on?
	lateSoon      = 3                      // late operations that show a delay, before its time is up
)

// seeVictims waits until all living victims have felt the fault, at most until its time is up, when one must have. It returns a sentence
// that says who has felt what.
func (h *Hit) seeVictims(ctx context.Context, f victimEvidence) (string, error) {
	names := h.names()
	claims := &claims{victimEvidence: f, names: names, after: h.Applied.To, open: map[string]history.Event{}, late: map[string]int{}, prompt: map[string]int{}, quickest: map[string]time.Duration{}}
	end := h.Applied.From + h.fault().Declared
	for from, tick := int(h.Rec.Shot.N), 1; ; tick++ {
		over := h.now() >= end
		wait, cancel := context.WithTimeout(ctx, evidenceEvery)
		_, err := h.Await(wait, from, func(e history.Event) bool {
			from = int(e.N)
			claims.see(e)
			return claims.quick != "" || !f.sockets && claims.all(h.living(names), over)
		})
		if err != nil && !over {
			<-wait.Done() // the log may have ended early
		}
		cancel()
		claims.hang(h.now())
		if f.sockets {
			if err := h.connected(claims); err != nil {
				return "", void(history.Unconfirmed, "%v", err)
			}
		}
		switch {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
			return "", ctx.Err()
		case claims.quick != "":
			return "", void(history.Unconfirmed, "%s: does it go round the proxy?", claims.quick)
		case claims.all(h.living(names), over):
			return claims.say(), nil
		case over && slices.ContainsFunc(names, func(name string) bool { return claims.shows(name, true) }):
			return claims.say(), nil
		case over || ctx.Err() != nil:
			return "", void(history.Unconfirmed, "%s", claims.nobody())
		}
		if tick%lostEvery == 0 {
			if err := h.stillOn(ctx); err != nil {
				return "", err
			}
		}
	}
}

// living are the victims that run now.
func (h *Hit) living(names []string) []string {
	alive := h.processes()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, lives := alive[name]; return !lives })
}

// processes are the ids of the processes of replicas that run now, by name. What is past is read once.
func (h *Hit) processes() map[string]int {
	past := h.Past()
	for _, e := range past[min(h.read, len(past)):] {
		switch {
		case e.Replica == nil:
		case e.Kind == history.ReplicaStart:
			h.pids[e.Replica.Name] = e.Replica.PID
		case e.Kind == history.ReplicaExit:
			delete(h.pids, e.Replica.Name)
		}
	}
	h.read = len(past)
	return h.pids
}

// claims is what the victims say about their operations under the fault.
type claims struct {
	victimEvidence
	names    []string
	after    int64 // only operations that began later count
	open     map[string]history.Event
	late     map[string]int           // by name: operations that show the fault
	prompt   map[string]int           // by name: operations that do not, of a fault that only some need show
	quickest map[string]time.Duration // by name: of those that were answered
	quick    string                   // an operation that the fault should have kept from being so quick
}

func (c *claims) see(e history.Event) {
	name := history.ReplicaOf(e.Source)
	if !slices.Contains(c.names, name) {
		return
	}
	id := e.Source + " " + e.Op
	switch e.Kind {
	case history.AcquireInvoke, history.RenewInvoke, history.ReleaseInvoke:
		if e.From > c.after {
			c.open[id] = e
		}
	case history.AcquireReturn, history.RenewReturn, history.ReleaseReturn:
		began, ok := c.open[id]
		delete(c.open, id)
		if ok && e.Call != nil && e.Call.Fault == "" { // what another fault made of it shows nothing of this one
			c.judge(name, e, time.Duration(e.To-began.To)) // the bracket of a return begins with the call: its effect lies anywhere within
		}
	}
}

// judge takes one operation that began under the fault and has ended.
func (c *claims) judge(name string, e history.Event, took time.Duration) {
	answered := e.Call.Result != history.ResultError
	switch {
	case c.cut && answered, c.least > 0 && answered && took < c.least:
		verb, _, _ := strings.Cut(string(e.Kind), ".")
		c.quick = fmt.Sprintf("%s of %s was answered in %s under the fault", verb, name, took.Round(time.Microsecond))
	case c.cut, c.least > 0 && (took >= c.least || e.Outcome == history.Unknown), c.some > 0 && took >= c.base+c.some:
		c.count(name, took)
	case c.some > 0 && answered:
		c.prompt[name]++
	}
}

// shows reports that the operations of a victim show the fault. A single one may be late because the machine is busy: of a delay there
// must be more, or no time left for more, and of one that only some need show most must.
func (c *claims) shows(name string, over bool) bool {
	n := c.late[name]
	if c.some == 0 && c.least == 0 {
		return n > 0
	}
	return n > 0 && n >= c.prompt[name] && (over || n >= lateSoon)
}

func (c *claims) count(name string, took time.Duration) {
	c.late[name]++
	if q, ok := c.quickest[name]; !ok || took < q {
		c.quickest[name] = took
	}
}

// hang counts operations that have waited for long enough to show the fault and have no answer yet.
func (c *claims) hang(now int64) {
	enough := max(c.least, c.base+c.some)
	if c.cut {
		enough = silentTime
	}
	if c.sockets {
		return
	}
	for id, e := range c.open {
		if took := time.Duration(now - e.To); took >= enough {
			name := history.ReplicaOf(e.Source)
			delete(c.open, id)
			c.count(name, took)
		}
	}
}

func (c *claims) all(alive []string, over bool) bool {
	return len(c.late) > 0 && !slices.ContainsFunc(alive, func(name string) bool { return !c.shows(name, over) })
}

func (c *claims) say() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.late)) {
		if c.sockets {
			parts = append(parts, fmt.Sprintf("%s is connected through it (its operations are too small to show the fault)", name))
			continue
		}
		parts = append(parts, fmt.Sprintf("felt by %s: %d of its operations, the quickest %s", name, c.late[name], c.quickest[name].Round(time.Millisecond)))
	}
	for _, name := range c.names {
		if c.late[name] == 0 {
			parts = append(parts, name+" showed nothing meanwhile")
		}
	}
	return strings.Join(parts, "; ")
}

func (c *claims) nobody() string {
	who := strings.Join(c.names, ", ")
	if c.sockets {
		return "no connection of " + who + " to the proxy was seen"
	}
	late, prompt := 0, 0
	for _, name := range c.names {
		late, prompt = late+c.late[name], prompt+c.prompt[name]
	}
	if late+prompt > 0 {
		return fmt.Sprintf("%d of %s of %s took %s or more, and at least half were to: the store or this machine is too slow to tell, or they went round the proxy",
			late, figures.Plural(late+prompt, "operation"), who, (c.base + c.some + c.least).Round(time.Millisecond))
	}
	return "no operation of " + who + " shows the fault: none began under it, or they went round the proxy"
}

// connected looks at the victims' sockets: a connection to the way is what a client that goes round it does not have.
func (h *Hit) connected(c *claims) error {
	alive := h.processes()
	for _, name := range c.names {
		pid := alive[name]
		if pid == 0 || c.late[name] > 0 {
			continue
		}
		ports, err := remotePorts(pid)
		if err != nil {
			return fmt.Errorf("look at the sockets of %s: %w", name, err)
		}
		mine := h.Routes(name)
		if slices.ContainsFunc(h.Rec.Routes, func(w undo.ProxyRoute) bool {
			_, text, _ := net.SplitHostPort(w.Addr())
			port, err := strconv.Atoi(text)
			return err == nil && slices.Contains(ports, port) && slices.ContainsFunc(mine, func(m undo.ProxyRoute) bool { return m.Proxy == baseName(w.Proxy) })
		}) {
			c.count(name, 0)
		}
	}
	return nil
}

// remotePorts lists the ports at the far end of the open TCP connections of a process group.
func remotePorts(group int) (ports []int, err error) {
	pids, err := procstat.New().All()
	for _, pid := range pids {
		if _, its, err := stateOf(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || its != group {
			continue // gone meanwhile, or another's
		}
		inodes := sockets.Of(pid)
		conns, _ := sockets.Established(pid) // of one that is gone meanwhile there are none
		for _, c := range conns {
			if inodes[c.Inode] {
				ports = append(ports, int(c.Remote.Port()))
			}
		}
	}
	return ports, err
}

// baseName is a proxy's name without the number of a successor.
func baseName(proxy string) string {
	base, _, _ := strings.Cut(proxy, "~")
	return base
}
