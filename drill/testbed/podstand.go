package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	turnName   = kube.RunLease   // the Lease object whose holder has the namespace
	turnStale  = 7 * time.Second // a turn that seems to be over is watched for so long: its holder's clock may be behind
	turnLook   = 500 * time.Millisecond
	applyLimit = 10 * time.Second       // for one object
	podsLook   = 100 * time.Millisecond // between two looks for what was told to go
	podsGrace  = 2 * time.Second        // of pods that are removed: their workers have been told to stop before
	leaseWord  = "coordination.k8s.io/v1"
	leaseWords = "Lease"
)

// PodStandOptions say what a run makes in a namespace.
type PodStandOptions struct {
	Cluster   *kube.Cluster
	Run       string
	Folder    string        // of the run, absolute: shown to whoever wants to run there as well
	Manifests [][]byte      // YAML; the kinds that kube.ParseManifests takes. None = only the namespace's turn is taken (pods: use)
	Leases    string        // keys of locks that begin with it are the run's, Lease objects; "" = its locks are elsewhere
	Journal   *undo.Journal // written before the first change; nil = nowhere
}

// PodStand is what a run has in a namespace: its turn (one run at a time), and the objects that it applied.
type PodStand struct {
	o      PodStandOptions
	record int // in the journal
	what   undo.Cluster
	mine   kube.Turn
	stores.Turn
}

// ApplyPods takes the namespace's turn and applies the manifests, each labelled as this run's. It touches nothing where an object of the
// same name is there that is not this run's (an error), or another run has the namespace (a stores.HeldError). On an error nothing is left.
// The caller closes it.
func ApplyPods(ctx context.Context, o PodStandOptions) (*PodStand, error) {
	objects, err := kube.ParseManifests(o.Manifests...)
	if err != nil {
		return nil, fmt.Errorf("apply pods: %w", err)
	}
	s := &PodStand{o: o, what: NamespaceOf(ctx, o.Cluster, o.Run)}
	s.what.Leases = o.Leases
	s.what.Objects = []undo.Object{{APIVersion: leaseWord, Kind: leaseWords, Name: turnName}}
	for i := range objects {
		if err := s.claimName(ctx, &objects[i]); err != nil {
			return nil, fmt.Errorf("apply pods: %w", err)
		}
	}
	if s.mine, err = s.ours(); err != nil {
		return nil, fmt.Errorf("apply pods: %w", err)
	}
	if s.record, err = o.Journal.Intend(undo.Record{Kind: undo.StandPods, Cluster: &s.what}); err != nil {
		return nil, err
	}
	err = s.take(ctx)
	for i := 0; i < len(objects) && err == nil; i++ {
		err = s.apply(ctx, objects[i])
	}
	if err != nil {
		return nil, fmt.Errorf("apply pods: %w", stores.Abandon(ctx, err, s.Close))
	}
	return s, nil
}

// apply waits for the API server's answer whatever ends ctx meanwhile: an object that is made after Close has looked for it would stay.
func (s *PodStand) apply(ctx context.Context, o kube.Object) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyLimit)
	defer cancel()
	return s.o.Cluster.Apply(ctx, o)
}

// claimName refuses an object whose name is taken, and labels the others.
func (s *PodStand) claimName(ctx context.Context, o *kube.Object) error {
	name := strings.ToLower(o.GetKind()) + " " + o.GetName()
	if ns := o.GetNamespace(); ns != "" && ns != s.what.Namespace {
		return fmt.Errorf("%s is for namespace %s, and the run's is %s", name, ns, s.what.Namespace)
	}
	found, ok, err := s.o.Cluster.Find(ctx, o.GetAPIVersion(), o.GetKind(), o.GetName())
	switch {
	case err != nil:
		return err
	case ok && found.Run == "":
		return fmt.Errorf("%s is in namespace %s already, and no run has made it: give it another name, or say kubernetes.pods: use", name, s.what.Namespace)
	case ok && found.Run != s.what.Run:
		return fmt.Errorf("%s in namespace %s is left of run %s: `lockdrill recover` in that run's folder removes it", name, s.what.Namespace, found.Run)
	}
	s.what.Objects = append(s.what.Objects, undo.Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()})
	return kube.Mark(o, s.what.Run)
}

// ours is this run's turn.
func (s *PodStand) ours() (kube.Turn, error) {
	note, err := stores.HolderOf(s.o.Run, s.o.Folder)
	return kube.Turn{Name: turnName, Run: s.what.Run, Note: note, TTL: stores.TurnTTL}, err
}

// take takes the turn, also one whose holder has died, and keeps it.
func (s *PodStand) take(ctx context.Context) error {
	for {
		other, mine, err := s.o.Cluster.TakeTurn(ctx, s.mine)
		if err != nil {
			return err
		}
		if mine {
			break
		}
		if other.Run == "" {
			return fmt.Errorf("lease %s is in namespace %s already, and no run has made it: runs take turns by it, so give it another name", turnName, s.what.Namespace)
		}
		if time.Since(other.Last) < other.TTL {
			return s.heldBy(other)
		}
		if err := s.outlast(ctx, other); err != nil {
			return err
		}
	}
	s.Keep(ctx, s.renew)
	return nil
}

// outlast drops a turn that nobody renews while it is watched.
func (s *PodStand) outlast(ctx context.Context, old kube.Turn) error {
	look, end := time.NewTicker(turnLook), time.NewTimer(turnStale)
	defer look.Stop()
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the turn of run %s: %w", old.Run, ctx.Err())
		case <-look.C:
			now, ok, err := s.o.Cluster.Lease(ctx, turnName)
			if err != nil {
				return err
			}
			if ok && (now.UID != old.UID || !now.Renewed.Equal(old.Last)) {
				return s.heldBy(old)
			}
		case <-end.C:
			return s.o.Cluster.DropTurn(ctx, old)
		}
	}
}

func (s *PodStand) heldBy(t kube.Turn) *stores.HeldError {
	held := &stores.HeldError{Target: fmt.Sprintf("namespace %s", s.what.Namespace)}
	if json.Unmarshal([]byte(t.Note), &held.Holder) != nil {
		held.Run = t.Run // what another version has written is still another's
	}
	return held
}

// renew prolongs the turn; an error says that it is lost. A turn that is gone is taken again; another's is not.
func (s *PodStand) renew(ctx context.Context) error {
	if other, mine, err := s.o.Cluster.TakeTurn(ctx, s.mine); err == nil && !mine {
		return s.heldBy(other)
	}
	return nil // an API server that does not answer now is asked again
}

// Close removes what is still this run's, and verifies that it is gone, its pods too. It may be called again.
func (s *PodStand) Close(ctx context.Context) error {
	return s.End(func() error {
		if err := endPods(ctx, s.o.Cluster, s.what); err != nil {
			return err
		}
		return s.o.Journal.Mark(s.record, undo.Undone, "")
	})
}

// EndPods undoes a record of StandPods, from any process that reaches the cluster: every object that is still the run's is removed, and
// that they and the run's pods are gone is verified. named says that the caller has named the kubeconfig, and not the record alone.
func EndPods(ctx context.Context, r undo.Record, named bool) error {
	c, err := ClusterOf(ctx, r, named)
	if err != nil {
		return fmt.Errorf("remove pods: %w", err)
	}
	return endPods(ctx, c, *r.Cluster)
}

// ClusterOf reaches the cluster of a record, from any process, and refuses another one.
func ClusterOf(ctx context.Context, r undo.Record, named bool) (*kube.Cluster, error) {
	if r.Cluster == nil || r.Cluster.Run == "" || r.Cluster.Namespace == "" {
		return nil, errors.New("the record names no run or no namespace")
	}
	w := *r.Cluster
	c, err := kube.Open(kube.Options{Kubeconfig: w.Kubeconfig, Context: w.Context, Namespace: w.Namespace, Unproven: !named})
	if err != nil {
		return nil, err
	}
	return c, sameCluster(ctx, c, w)
}

// NamespaceOf is how records name a run's namespace. Where its UID may not be read, the server's address has to do.
func NamespaceOf(ctx context.Context, c *kube.Cluster, run string) undo.Cluster {
	w := undo.Cluster{Kubeconfig: c.Kubeconfig, Context: c.Context, Server: c.Server(), Namespace: c.Namespace, Run: kube.RunValue(run)}
	w.UID, _ = c.NamespaceUID(ctx)
	return w
}

// sameCluster refuses a cluster in which nothing of the run would be found, and that would be called gone. From another machine the same
// server may have another address: the namespace itself tells.
func sameCluster(ctx context.Context, c *kube.Cluster, w undo.Cluster) error {
	at := c.Server()
	if w.Server == "" || at == w.Server {
		return nil
	}
	said := fmt.Sprintf("the run was at the API server %s, and the kubeconfig leads to %s", w.Server, at)
	if w.UID == "" {
		return errors.New(said)
	}
	switch uid, err := c.NamespaceUID(ctx); {
	case err != nil:
		return fmt.Errorf("%s: is it the same cluster? %w", said, err)
	case uid != w.UID:
		return fmt.Errorf("%s, whose namespace %s is another (UID %s, the run's %s)", said, w.Namespace, uid, w.UID)
	}
	return nil
}

// endPods removes what is the run's, the turn last: whoever finds it free finds nothing of ours.
func endPods(ctx context.Context, c *kube.Cluster, w undo.Cluster) error {
	told := map[string]bool{} // pods, by UID
	for _, objects := range [][]undo.Object{w.Objects[min(1, len(w.Objects)):], w.Objects[:min(1, len(w.Objects))]} {
		if err := endObjects(ctx, c, w, objects, told); err != nil {
			return fmt.Errorf("remove what run %s has in namespace %s: %w", w.Run, w.Namespace, err)
		}
	}
	return nil
}

// endObjects goes on until none of the objects, and no pod or key, is the run's. What fails with one is tried again, and keeps it from none of
// the others: an API server may be away for a while.
func endObjects(ctx context.Context, c *kube.Cluster, w undo.Cluster, objects []undo.Object, told map[string]bool) error {
	var left []string
	var failed error
	for range poll.Every(ctx, podsLook) {
		left, failed = nil, nil
		for _, o := range slices.Backward(objects) {
			there, err := endObject(ctx, c, w.Run, o)
			if there || err != nil {
				left = append(left, strings.ToLower(o.Kind)+" "+o.Name)
			}
			failed = cmp.Or(failed, err)
		}
		var more []string
		var err error
		if w.Leases != "" {
			more, err = endLeases(ctx, c, w.Leases)
		} else {
			more, err = endRunPods(ctx, c, w.Run, told)
		}
		left, failed = append(left, more...), cmp.Or(failed, err)
		if len(left) == 0 && failed == nil {
			return nil
		}
	}
	return fmt.Errorf("still there, for all that is known: %s: %w", strings.Join(left, ", "), cmp.Or(failed, ctx.Err()))
}

// endObject tells one object to go if it is the run's, and says whether it is still there.
func endObject(ctx context.Context, c *kube.Cluster, run string, o undo.Object) (there bool, err error) {
	found, ok, err := c.Find(ctx, o.APIVersion, o.Kind, o.Name)
	if err != nil || !ok || found.Run != run {
		return false, err
	}
	if found.Ending {
		return true, nil
	}
	err = c.Remove(ctx, o.APIVersion, o.Kind, o.Name, found.UID)
	if errors.Is(err, kube.ErrGone) || errors.Is(err, kube.ErrAnother) {
		err = nil
	}
	return true, err // looked for again
}

// endLeases removes the Lease objects of keys that begin with prefix, and names those that were there.
func endLeases(ctx context.Context, c *kube.Cluster, prefix string) (left []string, err error) {
	all, err := c.Leases(ctx)
	for _, l := range all {
		if !strings.HasPrefix(l.Key, prefix) {
			continue
		}
		left = append(left, "lease "+l.Name)
		if err := c.Remove(ctx, leaseWord, leaseWords, l.Name, l.UID); err != nil && !errors.Is(err, kube.ErrGone) && !errors.Is(err, kube.ErrAnother) {
			return left, err
		}
	}
	return left, err
}

// endRunPods tells the pods with the run's label to go, each once, and names those that are there.
func endRunPods(ctx context.Context, c *kube.Cluster, run string, told map[string]bool) (left []string, err error) {
	pods, err := c.Pods(ctx, map[string]string{kube.RunLabel: run}, "")
	if err != nil {
		return nil, err
	}
	grace := int64(podsGrace / time.Second)
	for _, p := range pods {
		left = append(left, "pod "+p.Name)
		if told[p.UID] {
			continue
		}
		told[p.UID] = true
		if err := c.DeletePod(ctx, p.Name, p.UID, &grace); err != nil && !errors.Is(err, kube.ErrGone) && !errors.Is(err, kube.ErrAnother) {
			return nil, err
		}
	}
	return left, nil
}
