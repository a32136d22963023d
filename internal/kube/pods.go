package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Pod is a pod of the namespace with the one container that matters.
type Pod struct {
	Name, UID, Node, Phase string // Name: NAMESPACE/NAME outside of the cluster's own namespace
	IP                     string // "" = it has none yet
	Labels, Annotations    map[string]string
	Created                time.Time // to the second, the API server's clock
	Ready                  bool
	Waiting                string        // for what, where it is not ready: "worker: ImagePullBackOff (image example/w:1)"; "" = nobody says
	Ending                 bool          // it has a deletion timestamp
	Grace                  time.Duration // terminationGracePeriodSeconds
	Owner                  string        // what makes it again: "deployment/web"; "" = nothing
	Containers             []string      // names of all
	Container              Container
}

// Over reports a pod that ends or has ended: it takes no further part in anything.
func (p *Pod) Over() bool {
	return p.Ending || p.Phase == string(corev1.PodSucceeded) || p.Phase == string(corev1.PodFailed)
}

// Ordinal is the number at the end of the name of a StatefulSet's pod, which comes back under that name.
func (p *Pod) Ordinal() (n int, ok bool) {
	set, ok := strings.CutPrefix(p.Owner, "statefulset/")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(Bare(p.Name), set+"-"))
	return n, err == nil && n >= 0
}

// Container is the state of a pod's container.
type Container struct {
	Name       string
	ID         string // of its present life, "containerd://..."; "" = not started
	Running    bool
	Terminated bool   // this life is over, and the node has seen that: not so where it only cannot find the container any more
	ExitCode   int32  // of a life that is over
	LastID     string // of the life before this one, which is over; "" = there was none
	LastExit   int32  // its exit status
	Restarts   int32
}

// Errors of changes that a caller decides by.
var (
	ErrGone    = errors.New("the object is gone")
	ErrAnother = errors.New("an object of that name is another by now")
	// ErrUnanswered says that nobody knows whether the change was made.
	ErrUnanswered = errors.New("the API server did not say whether it was done")
)

func gone(err error) bool { return apierrors.IsNotFound(err) }

// refused reports an answer that says that nothing was changed. One with a status of 500 or above says so of nothing: the server, or what
// stands before it, may have given up waiting.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code < 500
}

// Pods lists the pods with these labels, in the order of their names; container "" = each one's first.
func (c *Cluster) Pods(ctx context.Context, selector map[string]string, container string) ([]Pod, error) {
	if len(c.Also) > 0 {
		var all []Pod
		for _, one := range c.Each() {
			pods, err := one.Pods(ctx, selector, container)
			if err != nil {
				return nil, fmt.Errorf("namespace %s: %w", one.Namespace, err)
			}
			for i := range pods {
				pods[i].Name = c.called(one, pods[i].Name)
			}
			all = append(all, pods...)
		}
		return all, nil
	}
	list, err := as[corev1.PodList](c.pods().List(ctx, metav1.ListOptions{LabelSelector: labels.Set(selector).String()}))
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := make([]Pod, len(list.Items))
	for i := range list.Items {
		if pods[i], err = c.podOf(ctx, &list.Items[i], container); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// Pod reads one pod of the namespace; ok is false where there is none of that name.
func (c *Cluster) Pod(ctx context.Context, name, container string) (p Pod, ok bool, err error) {
	at, bare := c.at(name)
	o, err := as[corev1.Pod](at.pods().Get(ctx, bare, metav1.GetOptions{}))
	if gone(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read pod %s: %w", name, err)
	}
	if p, err = c.podOf(ctx, o, container); err != nil {
		return p, false, err
	}
	p.Name = name
	return p, true, nil
}

// Change is one thing that WatchPods saw.
type Change struct {
	Pod  Pod
	Gone bool // the object was deleted: Pod is its last state. It says nothing of the process
}

// WatchPods tells of every pod with these labels and of every change of one, one at a time, until ctx ends. heard is called, where it
// is not nil, whenever the list is known to be whole again, and with the error whenever the watch breaks.
func (c *Cluster) WatchPods(ctx context.Context, selector map[string]string, container string, on func(Change), heard func(error)) {
	if heard == nil {
		heard = func(error) {}
	}
	if len(c.Also) > 0 {
		c.watchEach(ctx, selector, container, on, heard)
		return
	}
	known := map[string]Pod{} // by UID
	keepWatching(ctx, func(stands func()) error { return c.watchOnce(ctx, selector, container, known, on, stands) }, heard)
}

func (c *Cluster) watchOnce(ctx context.Context, selector map[string]string, container string, known map[string]Pod, on func(Change), stands func()) error {
	api, options := c.pods(), metav1.ListOptions{LabelSelector: labels.Set(selector).String()}
	list, err := as[corev1.PodList](api.List(ctx, options))
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	now := map[string]bool{}
	for i := range list.Items {
		now[string(list.Items[i].UID)] = true
	}
	for uid, p := range known { // first: a StatefulSet gives a name again
		if !now[uid] {
			delete(known, uid)
			on(Change{Pod: p, Gone: true})
		}
	}
	for i := range list.Items {
		p, err := c.podOf(ctx, &list.Items[i], container)
		if err != nil {
			return err
		}
		known[p.UID] = p
		on(Change{Pod: p})
	}
	options.ResourceVersion = list.ResourceVersion
	w, err := api.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	stands()
	var unread error
	err = eachEvent(ctx, w, func(what watch.EventType, o *corev1.Pod) {
		p, bad := c.podOf(ctx, o, container)
		if bad != nil { // its zone: it is in none, and what strikes a zone leaves it alone
			unread = bad
		}
		if what == watch.Deleted {
			delete(known, p.UID)
		} else {
			known[p.UID] = p
		}
		on(Change{Pod: p, Gone: what == watch.Deleted})
	})
	return fmt.Errorf("watch pods: %w", errors.Join(err, unread))
}

// DeletePod asks for the end of a pod; grace nil = the pod's own. An error wraps ErrGone or ErrAnother where that pod is not there, and
// ErrUnanswered where it may end all the same.
func (c *Cluster) DeletePod(ctx context.Context, name, uid string, grace *int64) error {
	u := types.UID(uid)
	at, bare := c.at(name)
	err := at.pods().Delete(ctx, bare, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &u},
	})
	if err != nil && !refused(err) { // a refusal: gone and another are such
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return deleted("pod "+name, err)
}

// FollowLog streams the log of the container's present life from its beginning until that life ends. An error other than io.EOF says
// that the connection to the API server was cut. io.EOF says less than it seems to: the API server ends the stream so when the life
// is over, and also when it has lost the node. Only a caller that asks again, and no longer finds that life running, knows. Whose life
// it is must be asked again as well: between a look at the pod and this call another may have begun.
func (c *Cluster) FollowLog(ctx context.Context, pod, container string) (io.ReadCloser, error) {
	return c.log(ctx, pod, container, map[string]string{"follow": "true"})
}

// LastLines is the end of a pod's log as it is now, n lines at most.
func (c *Cluster) LastLines(ctx context.Context, pod, container string, n int) ([]byte, error) {
	return c.last(ctx, pod, container, map[string]string{"tailLines": strconv.Itoa(n)})
}

// LastStamped is LastLines with stamps as of FollowStamped.
func (c *Cluster) LastStamped(ctx context.Context, pod, container string, n int) ([]byte, error) {
	return c.last(ctx, pod, container, map[string]string{"tailLines": strconv.Itoa(n), "timestamps": "true"})
}

func (c *Cluster) last(ctx context.Context, pod, container string, params map[string]string) ([]byte, error) {
	r, err := c.log(ctx, pod, container, params)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// LogStart says from where a log is followed; the zero value is its beginning.
type LogStart struct {
	New   bool      // only lines that are not there yet
	Since time.Time // by the node's clock; it is rounded down to seconds
}

// FollowStamped is FollowLog with the node's time, RFC 3339, and a blank before each line.
func (c *Cluster) FollowStamped(ctx context.Context, pod, container string, from LogStart) (io.ReadCloser, error) {
	more := map[string]string{"follow": "true", "timestamps": "true"}
	switch {
	case !from.Since.IsZero():
		more["sinceTime"] = from.Since.UTC().Format(time.RFC3339)
	case from.New:
		more["tailLines"] = "0"
	}
	return c.log(ctx, pod, container, more)
}

func (c *Cluster) log(ctx context.Context, pod, container string, how map[string]string) (io.ReadCloser, error) {
	if c.core == nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, errNoConnection)
	}
	q := c.sub(c.core.Get(), pod, "log", container)
	for name, value := range how {
		q.Param(name, value)
	}
	r, err := q.Stream(ctx)
	if gone(err) {
		err = ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	return r, nil
}

// podOf is a pod, with the zone of its node where zones are asked for.
func (c *Cluster) podOf(ctx context.Context, o *corev1.Pod, container string) (Pod, error) {
	p := podOf(o, container)
	if !c.Zones || p.Node == "" || p.Labels[corev1.LabelTopologyZone] != "" {
		return p, nil
	}
	zone, known := c.zones.Load(p.Node)
	if !known {
		node, err := as[corev1.Node](c.nodes().Get(ctx, p.Node, metav1.GetOptions{}))
		if err != nil {
			return p, fmt.Errorf("read the zone of node %s: %w", p.Node, err)
		}
		zone = node.Labels[corev1.LabelTopologyZone]
		c.zones.Store(p.Node, zone)
	}
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[corev1.LabelTopologyZone] = zone.(string)
	return p, nil
}

func podOf(o *corev1.Pod, container string) Pod {
	p := Pod{
		IP:   o.Status.PodIP,
		Name: o.Name, UID: string(o.UID), Node: o.Spec.NodeName, Phase: string(o.Status.Phase), Labels: o.Labels, Annotations: o.Annotations,
		Created: o.CreationTimestamp.Time, Ending: o.DeletionTimestamp != nil, Owner: ownerOf(o),
	}
	if g := o.Spec.TerminationGracePeriodSeconds; g != nil {
		p.Grace = time.Duration(*g) * time.Second
	}
	for _, k := range o.Status.Conditions {
		p.Ready = p.Ready || k.Type == corev1.PodReady && k.Status == corev1.ConditionTrue
	}
	if !p.Ready {
		p.Waiting = waitsFor(o)
	}
	for i := range o.Spec.Containers {
		p.Containers = append(p.Containers, o.Spec.Containers[i].Name)
	}
	if container == "" && len(o.Spec.Containers) > 0 {
		container = o.Spec.Containers[0].Name
	}
	p.Container.Name = container
	for _, s := range o.Status.ContainerStatuses {
		if s.Name != container {
			continue
		}
		k := &p.Container
		k.ID, k.Running, k.Terminated, k.Restarts = s.ContainerID, s.State.Running != nil, false, s.RestartCount
		if t := s.State.Terminated; t != nil && t.ContainerID == s.ContainerID && t.ContainerID != "" {
			k.Terminated, k.ExitCode = true, t.ExitCode
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			k.LastID, k.LastExit = t.ContainerID, t.ExitCode
		}
	}
	return p
}

// ownerOf is the controller of a pod. A ReplicaSet of a Deployment is called after it, with the sum of the template that its pods are
// labelled with: two of one Deployment are there while it rolls out.
func ownerOf(o *corev1.Pod) string {
	c := metav1.GetControllerOf(o)
	if c == nil {
		return ""
	}
	kind, name := strings.ToLower(c.Kind), c.Name
	if sum := o.Labels["pod-template-hash"]; kind == "replicaset" && sum != "" {
		if of, ok := strings.CutSuffix(name, "-"+sum); ok {
			kind, name = "deployment", of
		}
	}
	return kind + "/" + name
}
