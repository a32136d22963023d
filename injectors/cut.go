package injectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// Network is what is asked of a cluster to cut a pod off, or a node.
type Network interface {
	Nodes
	Objects
	Pod(ctx context.Context, name, container string) (p kube.Pod, ok bool, err error)
	SetCut(ctx context.Context, name, uid, value string) error
	Find(ctx context.Context, apiVersion, kind, name string) (f kube.Found, ok bool, err error)
	Apply(ctx context.Context, o kube.Object) error
	Remove(ctx context.Context, apiVersion, kind, name, uid string) error
	Exec(ctx context.Context, pod, container string, command []string) (exit int, output string, err error)
}

// Nodes is what is asked of a cluster to take a node out of service.
type Nodes interface {
	Node(ctx context.Context, name string) (n kube.Node, ok bool, err error)
	Cordon(ctx context.Context, n kube.Node, run string) error
}

// A pod is cut off by a policy of the run's own. Whether a policy is enforced is up to the cluster's network: the fault is seen by the victim's
// lease, which runs out, or by a command in its container that no longer reaches what it reached.
//
// A node is cordoned, and of a drain the pods are evicted from it that are the shot's victims: no other. What a disruption budget blocks makes
// the whole shot void.
//
// A lockdrill proxy before the API server makes that slow, read-only or away for the victims, or loses one answer to them, which the proxy knows
// by the addresses of their pods. The proxy counts what it did.
var (
	policies  = Row{Needs: func(h *Hit) bool { return h.Cluster != nil }, Find: policy, Do: cutOff, See: cutSeen, End: gone(askAgain, endCut)}
	cordons   = Row{Needs: inCluster, Find: node, Do: cordon, See: cordoned, End: gone(askAgain, uncordon), Takes: func(*Hit) time.Duration { return 2 * callWithin }}
	drains    = Row{Needs: inCluster, Find: inTurn(node, drainable), Do: inTurn(cordon, evictAll), See: inTurn(cordoned, allLeft), End: gone(askAgain, uncordon), Takes: func(*Hit) time.Duration { return gracesMost + graceSlack }}
	apiServer = Row{Needs: func(h *Hit) bool { return pods(h) && h.APIProxy != "" }, Find: apiFault, Do: armAPI, See: struckByProxy, End: apiFree, Takes: func(*Hit) time.Duration { return callWithin }}
)

func inCluster(h *Hit) bool { return pods(h) && h.Cluster != nil }

// policy names it, and the pod that it will mean.
func policy(ctx context.Context, h *Hit) error {
	pod, who, where := h.pod(), h.fault().Victim, h.Home("")
	sum := sha256.Sum256([]byte(where.Run + " " + h.Rec.Shot.Op))
	h.Rec.Cluster, h.Rec.Cut = &where, &undo.Cut{Policy: "lockdrill-cut-" + hex.EncodeToString(sum[:6])}
	if pod == nil {
		return void(history.NoTarget, "%s is in no pod that is known", who)
	}
	h.Rec.Cut.Pod, h.Rec.Cut.UID = pod.Name, pod.UID
	if in, _ := kube.NamespaceIn(pod.Name); in != "" {
		where = h.Home(in)
	}
	reach := h.command()
	if len(reach) == 0 && len(h.leases(h.Past())) == 0 {
		return void(history.NoTarget, "%s holds no lock: nothing would show the cut", who)
	}
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	switch p, there, err := c.Pod(ctx, pod.Name, ""); {
	case err != nil:
		return fmt.Errorf("look at pod %s: %w", pod.Name, err)
	case !there || p.UID != pod.UID || p.Ending:
		return void(history.Moved, "pod %s of %s is gone, or ending", pod.Name, who)
	case len(reach) == 0:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if exit, _, err := c.Exec(ctx, pod.Name, h.Container, reach); err != nil || exit != 0 {
		return void(history.Unconfirmed, "pod %s does not reach it before the cut either: %s ends with status %d (%v)", pod.Name, reach[0], exit, err)
	}
	return nil
}

// reachWithin bounds one try of the command.
const reachWithin = 4 * time.Second

// cutOff makes the policy, which means no pod yet, and then labels the pod. The bracket is that of the label.
func cutOff(ctx context.Context, h *Hit) error {
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	cut := h.Rec.Cut
	made, err := kube.CutPolicy(cut.Policy, cut.Policy, h.Rec.Cluster.Run)
	if err == nil {
		err = c.Apply(ctx, made)
	}
	if err != nil {
		return err
	}
	h.Applied = history.At(h.now())
	if err = c.SetCut(ctx, cut.Pod, cut.UID, cut.Policy); isAnother(err) {
		return void(history.Moved, "%v", err)
	}
	return err
}

// leases are the epochs of the victim by key, as the locks name their holders, after what is past.
func (h *Hit) leases(past []history.Event) map[string]string {
	held := map[string]string{}
	for _, e := range past {
		switch {
		case e.Kind != history.LookKind:
		case e.Look.Present && e.Look.Holder == h.fault().Victim && (h.Rec.Shot.Epoch == "" || e.Epoch == h.Rec.Shot.Epoch):
			held[e.Key] = e.Epoch
		case held[e.Key] != "" && e.Epoch != held[e.Key]:
			delete(held, e.Key)
		}
	}
	return held
}

// leaseSlack is by how much a look may find a lease gone before the look before said that it ends.
const leaseSlack = 100 * time.Millisecond

// cutSeen waits until a lease that the victim held when it was cut off has run out, or its command fails. A lease that was given back was not cut off.
func cutSeen(ctx context.Context, h *Hit) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Applied.From+h.fault().Declared-h.now()))
	defer cancel()
	if reach := h.command(); len(reach) > 0 {
		return h.unreached(ctx, reach)
	}
	held := h.leases(slices.DeleteFunc(slices.Clone(h.Past()), func(e history.Event) bool { return e.To > h.Applied.To }))
	ends, over, released := history.Ends{}, history.Event{}, false
	_, err := h.Await(ctx, 0, func(e history.Event) bool {
		if e.Kind != history.LookKind {
			return false
		}
		due := ends[e.Key]
		ends.Extended(e)
		epoch := held[e.Key]
		if epoch == "" || e.From < h.Applied.To || e.Look.Present && e.Epoch == epoch && e.Look.PTTL > 0 {
			return false
		}
		over, released = e, e.Look.Released || !e.Look.Present && e.To < due-int64(leaseSlack)
		return true
	})
	h.Window.To = h.now()
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return void(history.Unconfirmed, "the run ended first")
	case err != nil:
		return void(history.Unconfirmed, "the lease of %s went on: is it that the cluster's network does not enforce NetworkPolicy?", h.fault().Victim)
	case released:
		return void(history.Moved, "%s gave its lock back", h.fault().Victim)
	}
	h.Saw.Hits, h.Saw.Observed, h.Saw.Detail = 1, max(0, over.To-h.Applied.From), "the lease of "+over.Key+" was not extended, and ran out"
	return nil
}

// unreached tries the command until it fails. That it cannot be run, or does not end, shows nothing of the pod's network.
func (h *Hit) unreached(ctx context.Context, command []string) error {
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	said := "it goes on reaching: is it that the cluster's network does not enforce NetworkPolicy?"
	for range poll.Every(ctx, askAgain) {
		try, cancel := context.WithTimeout(ctx, reachWithin)
		exit, _, err := c.Exec(try, h.Rec.Cut.Pod, h.Container, command)
		cancel()
		h.Window.To = h.now()
		switch {
		case err == nil && exit != 0:
			h.Saw.Hits, h.Saw.Observed = 1, max(0, h.Window.To-h.Applied.From)
			h.Saw.Detail = fmt.Sprintf("%s in pod %s ends with status %d", command[0], h.Rec.Cut.Pod, exit)
			return nil
		case err != nil && ctx.Err() == nil:
			said = fmt.Sprintf("%s cannot be run there, or does not end within %s: give it a timeout of its own (%v)", command[0], reachWithin, err)
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		said = history.RunEndedFirst
	}
	return void(history.Unconfirmed, "%s", said)
}

// gone ends what is left of a fault in the cluster of its record until a look finds nothing left of it.
func gone(every time.Duration, end func(context.Context, Network, *undo.Record) (left bool, what string, err error)) step {
	return func(ctx context.Context, h *Hit) error {
		if h.Rec.Cut == nil && h.Rec.Node == nil && h.Rec.Made == nil || h.Rec.Cluster == nil || h.Rec.Cluster.Run == "" {
			return errors.New("undo it in the cluster: the record names nothing there")
		}
		c, err := h.Cluster(ctx, h.Rec)
		if err != nil {
			return err
		}
		var last error
		what := ""
		for range poll.Every(ctx, every) {
			var left bool
			if left, what, last = end(ctx, c, &h.Rec); last == nil && !left {
				return nil
			}
		}
		return fmt.Errorf("%s for all that is known: %w", what, errors.Join(last, ctx.Err()))
	}
}

// endCut takes the policy away, if it is the run's, and the label, and says whether one was still there: it is read again.
func endCut(ctx context.Context, c Network, r *undo.Record) (left bool, what string, err error) {
	cut := r.Cut
	what = fmt.Sprintf("policy %s, or its label on pod %s, is still there", cut.Policy, cut.Pod)
	found, there, err := c.Find(ctx, kube.PolicyVersion, kube.PolicyKind, cut.Policy)
	if left = there && found.Run == r.Cluster.Run; err == nil && left {
		err = c.Remove(ctx, kube.PolicyVersion, kube.PolicyKind, cut.Policy, found.UID)
	}
	if err != nil && !isAnother(err) {
		return true, what, err
	}
	p, there, err := c.Pod(ctx, cut.Pod, "")
	if err != nil || !there || p.UID != cut.UID || p.Labels[kube.CutLabel] != cut.Policy {
		return left, what, err
	}
	if err = c.SetCut(ctx, cut.Pod, cut.UID, ""); isAnother(err) {
		err = nil
	}
	return true, what, err
}

// evicting is the shot as the eviction of one of its victims.
func (h *Hit) evicting(victim string) *Hit {
	one, f := *h, *h.fault()
	if f.Victim != victim {
		one.Rec.Shot.Epoch, one.Rec.Shot.Key, one.Victim = "", "", startOf(h.Past(), victim)
	}
	f.Form, f.Victim, one.row = fault.Evict, victim, deleted
	one.Rec.Shot.Fault, one.Rec.Shot.Op = &f, h.Rec.Shot.Op+" "+victim
	return &one
}

// drainable: all victims are there, the holder among them. It goes last: a budget that blocks then leaves it alone.
func drainable(ctx context.Context, h *Hit) error {
	holder := h.fault().Victim
	if !slices.Contains(h.fault().Victims, holder) {
		return void(history.Moved, "%s holds the lock by now, and lives on another node", holder)
	}
	others := slices.DeleteFunc(slices.Clone(h.fault().Victims), func(v string) bool { return v == holder })
	for _, v := range append(others, holder) {
		one := h.evicting(v)
		if err := victimsPod(ctx, one); err != nil {
			return err
		}
		h.parts = append(h.parts, one)
	}
	return nil
}

// node finds it. One that is cordoned already is somebody's, and stays as it is.
func node(ctx context.Context, h *Hit) error {
	where, who := h.Home(""), h.fault().Victim
	h.Rec.Cluster = &where
	pod, err := h.podNow(ctx)
	if err != nil {
		return err
	}
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	switch n, there, err := c.Node(ctx, pod.Node); {
	case err != nil:
		return err
	case !there:
		return void(history.Moved, "node %s of %s is gone", pod.Node, who)
	case n.Cordoned:
		return void(history.NoTarget, "node %s of %s is cordoned already", pod.Node, who)
	default:
		h.Rec.Node = &undo.Node{Name: n.Name, UID: n.UID}
		return nil
	}
}

// cordonTries bounds how often a node that changes meanwhile is read again: a kubelet writes its status now and then.
const cordonTries = 5

func cordon(ctx context.Context, h *Hit) error {
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		n, there, err := c.Node(ctx, h.Rec.Node.Name)
		switch {
		case err != nil:
			return err
		case !there || n.UID != h.Rec.Node.UID:
			return void(history.Moved, "node %s is gone, or another", h.Rec.Node.Name)
		case n.Cordoned:
			return void(history.NoTarget, "node %s is cordoned already", h.Rec.Node.Name)
		}
		if err = c.Cordon(ctx, n, h.Rec.Cluster.Run); !errors.Is(err, kube.ErrAnother) || try == cordonTries {
			return err
		}
	}
}

// evictAll evicts the victims; the fault's time is from the first call to the last.
func evictAll(ctx context.Context, h *Hit) error {
	for i, one := range h.parts {
		call, err := one.Inject(ctx)
		if err != nil {
			return err
		}
		if i == 0 {
			h.Applied.From = call.From
		}
		h.Applied.To = call.To
	}
	return nil
}

// cordoned reads the node back.
func cordoned(ctx context.Context, h *Hit) error {
	c, err := h.Cluster(ctx, h.Rec)
	if err != nil {
		return err
	}
	n, there, err := c.Node(ctx, h.Rec.Node.Name)
	h.Window.To = h.now()
	if err != nil || !there || !n.Cordoned || n.By != h.Rec.Cluster.Run {
		return void(history.Unconfirmed, "node %s does not say that it is cordoned by this run (%v)", h.Rec.Node.Name, err)
	}
	h.Saw.Hits, h.Saw.Detail = 1, "node "+n.Name+" takes no pods"
	return nil
}

// allLeft sees every victim end; the holder's death is the fault's.
func allLeft(ctx context.Context, h *Hit) error {
	for _, one := range h.parts {
		at, saw, err := one.Confirm(ctx, h.Applied)
		if h.Saw = saw; err != nil {
			return err
		}
		h.Window.To = max(h.Window.To, at.To)
	}
	h.Saw.Detail = strings.TrimPrefix(h.Saw.Detail+fmt.Sprintf("; %s left node %s, which takes no pods", figures.Plural(len(h.parts), "pod"), h.Rec.Node.Name), "; ")
	return nil
}

// uncordon does so if the node still bears the run's mark: it is read again.
func uncordon(ctx context.Context, c Network, r *undo.Record) (left bool, what string, err error) {
	what = fmt.Sprintf("node %s is still cordoned", r.Node.Name)
	n, there, err := c.Node(ctx, r.Node.Name)
	if err != nil || !there || n.UID != r.Node.UID || n.By != r.Cluster.Run {
		return false, what, err
	}
	return true, what, c.Cordon(ctx, n, "")
}

// apiFault names the fault at the proxy.
func apiFault(ctx context.Context, h *Hit) error {
	h.atProxy(h.APIProxy)
	_, err := h.addresses(ctx)
	return err
}

// addresses are those of the victim; none = everybody's.
func (h *Hit) addresses(ctx context.Context) ([]string, error) {
	pod, victim := h.pod(), h.fault().Victim
	if h.Spec.Target().All || victim == "" {
		return nil, nil
	}
	if pod == nil {
		return nil, void(history.NoTarget, "%s is in no pod that is known", victim)
	}
	switch p, there, err := h.Pods.Pod(ctx, pod.Name, ""); {
	case err != nil:
		return nil, fmt.Errorf("look at pod %s: %w", pod.Name, err)
	case !there || p.UID != pod.UID || p.IP == "":
		return nil, void(history.Moved, "pod %s of %s is gone, or has no address", pod.Name, victim)
	default:
		return []string{p.IP}, nil
	}
}

func armAPI(ctx context.Context, h *Hit) error {
	f := h.Spec.(*fault.APIServer)
	from, err := h.addresses(ctx)
	if err != nil {
		return err
	}
	h.Applied = history.At(h.now())
	err = apiproxy.Arm(ctx, h.Rec.Tap.API, apiproxy.Fault{ID: h.Rec.Tap.ID, Do: string(f.Do), Delay: f.Delay, Of: string(f.Of), For: h.lasts(), From: from})
	if err != nil {
		return void(history.FaultFailed, "%v", err)
	}
	return nil
}

// struckByProxy asks until the proxy has struck the victim.
func struckByProxy(ctx context.Context, h *Hit) error {
	c := tap.NewClient(h.Rec.Tap.API)
	for range poll.Every(ctx, proxyEvery) {
		now, err := c.Fault(ctx, h.Rec.Tap.ID)
		h.Window.To = h.now()
		switch {
		case errors.Is(err, tap.ErrNoFault):
			return unknownAtProxy
		case err == nil && now.Hits > 0:
			h.Saw.Hits = now.Hits
			return nil
		case err == nil && now.Over:
			return void(history.Unconfirmed, "nothing that was struck came from the victim's address: do the electors go round the proxy, or does the cluster's network hide the addresses of pods? Or did they write nothing of that kind?")
		}
	}
	return void(history.Unconfirmed, "%s", history.RunEndedFirst)
}

// apiFree ends the fault, and reads back that it has ended.
func apiFree(ctx context.Context, h *Hit) error {
	if err := endAtProxy(ctx, h); err != nil || h.Rec.Tap == nil {
		return err
	}
	if now, err := tap.NewClient(h.Rec.Tap.API).Fault(ctx, h.Rec.Tap.ID); err == nil && !now.Over {
		return fmt.Errorf("fault %s is still in effect at the proxy", h.Rec.Tap.ID)
	}
	return nil
}
