package injectors

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// keeper is a cluster with the pod web-1 on node n1, and one kind, whose objects a controller keeps.
type keeper struct {
	network
	Cluster
	kind    kube.Kind
	has     kube.Object // the zero Object: none
	ready   int         // so many reads from now it says so; negative: never
	lets    int         // so many reads after its deletion it is gone
	deleted int
	in      string // the namespace that was asked last
}

func (k *keeper) Pod(_ context.Context, name, _ string) (kube.Pod, bool, error) {
	return kube.Pod{Name: name, UID: "p1", Node: "n1"}, true, nil
}

func (k *keeper) Exec(context.Context, string, string, []string) (int, string, error) {
	return 1, "", nil
}

func (k *keeper) Served(_ context.Context, version, kind string) (kube.Kind, bool, error) {
	return k.kind, version == k.kind.APIVersion && kind == k.kind.Kind, nil
}

func (k *keeper) Create(_ context.Context, _ kube.Kind, o kube.Object) (kube.Object, error) {
	if k.has.Object != nil {
		return o, kube.ErrAnother
	}
	o.SetUID("u1")
	k.has = o
	return o, nil
}

func (k *keeper) Read(_ context.Context, _ kube.Kind, name string) (kube.Object, bool, error) {
	if k.deleted > 0 {
		if k.lets--; k.lets < 0 {
			k.has = kube.Object{}
		}
	}
	if k.has.GetName() != name {
		return kube.Object{}, false, nil
	}
	if k.ready--; k.ready == 0 {
		k.has.Object["status"] = map[string]any{"phase": "Injected"}
	}
	return *k.has.DeepCopy(), true, nil
}

func (k *keeper) Delete(_ context.Context, _ kube.Kind, _, uid string) error {
	if uid != string(k.has.GetUID()) {
		return kube.ErrAnother
	}
	k.deleted++
	return nil
}

// making is a fault at a pod, on its way.
func making(t *testing.T, k *keeper, pod, manifest string) (*Hit, error) {
	t.Helper()
	past := recorded{{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", Pod: &history.Pod{Name: pod, UID: "p1"}}}}
	began := time.Now()
	reach := &Reach{Pods: k, Past: past.past, Await: past.await, Clock: func() int64 { return int64(time.Since(began)) },
		Cluster: func(_ context.Context, r undo.Record) (Network, error) { k.in = r.Cluster.Namespace; return k, nil },
		Home: func(in string) undo.Cluster {
			if in == "" || in == "shop" || in == "jobs" {
				return undo.Cluster{Run: "run", Namespace: cmp.Or(in, "shop")}
			}
			return undo.Cluster{}
		}}
	return reach.Prepare(t.Context(), &fault.Object{Aim: fault.Aim{HolderOf: "l"}, Manifest: vocab.JSON(manifest), Confirm: "{.status.phase}", Equals: "Injected", Within: 3 * time.Second},
		history.Event{Op: "chaos#1", Fault: &history.Fault{ID: "chaos", Kind: "object", Victim: "r1.1", Declared: int64(time.Minute)}})
}

// What the record says is what is made, with the victim filled in and the run's mark; whoever has the record deletes it, until it is gone. What bears
// another's mark stays.
func TestAnObjectIsMadeAndDeletedByItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{kind: kube.Kind{APIVersion: "x/v1", Kind: "Cut", Resource: "cuts"}, ready: 3, lets: 2}
		h, err := making(t, k, "jobs/web-1", `{"apiVersion":"x/v1","kind":"Cut","metadata":{"name":"c-${pod}"},"spec":{"who":["${namespace}/${pod}@${node} of ${run}"],"n":1}}`)
		if err != nil || k.has.Object != nil {
			t.Fatalf("prepared: %v, made %v", err, k.has)
		}
		r := h.Record()
		if r.Made == nil || *r.Made != (undo.Made{Object: undo.Object{APIVersion: "x/v1", Kind: "Cut", Name: "c-web-1"}, Within: 3 * time.Second}) || r.Cluster.Namespace != "jobs" {
			t.Fatalf("the record is %+v in %+v", r.Made, r.Cluster)
		}
		applied, err := h.Inject(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := json.Marshal(k.has.Object["spec"])
		if string(spec) != `{"n":1,"who":["jobs/web-1@n1 of run"]}` || k.has.GetNamespace() != "jobs" || kube.MarkOf(k.has) != "run" {
			t.Errorf("made %s in %s, of %s", spec, k.has.GetNamespace(), kube.MarkOf(k.has))
		}
		if applied.To-applied.From != int64(2*objectLook) {
			t.Errorf("it began within %s: it was made, and the third look showed it", time.Duration(applied.To-applied.From))
		}
		if _, saw, err := h.Confirm(t.Context(), applied); err != nil || saw.Hits != 1 {
			t.Errorf("confirmed %+v, %v", saw, err)
		}
		end := (&Reach{Cluster: h.Cluster}).Reverters(false)["object"]
		for range 2 {
			if err := end(t.Context(), r); err != nil || k.deleted == 0 || k.has.Object != nil {
				t.Errorf("%v, deleted %d times, left %v", err, k.deleted, k.has.Object)
			}
		}
		if _, _, err := h.Confirm(t.Context(), applied); voidOf(err) != "unconfirmed" {
			t.Errorf("deleted by somebody else: %v", err)
		}
		k.deleted, k.has = 0, kube.Object{Object: map[string]any{"metadata": map[string]any{"name": "c-web-1", "labels": map[string]any{kube.RunLabel: "another"}}}}
		if err := end(t.Context(), r); err != nil || k.deleted > 0 {
			t.Errorf("another's was deleted (%v)", err)
		}
		if _, err := h.Inject(t.Context()); voidOf(err) != "no_target" {
			t.Errorf("laid over another's: %v", err)
		}
		k.kind.Kind = "Other"
		if err := end(t.Context(), r); err != nil {
			t.Errorf("its kind is gone, and all objects with it: %v", err)
		}
	})
}

// An object that does not show the fault in time says what it shows, and one that stays says what holds it.
func TestAnObjectThatIsNotInEffectOrStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{kind: kube.Kind{APIVersion: "x/v1", Kind: "Cut", Resource: "cuts"}, ready: -1, lets: 1 << 30}
		h, err := making(t, k, "web-1", `{"apiVersion":"x/v1","kind":"Cut"}`)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := h.Inject(t.Context()); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), "{.status.phase} of Cut lockdrill-") || !strings.Contains(err.Error(), "is not there") || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		k.has.SetFinalizers([]string{"x/keep"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Revert(ctx); err == nil || !strings.Contains(err.Error(), "is still there, held by x/keep") {
			t.Errorf("%v", err)
		}
	})
}

// A namespace of the manifest's own is one of the drill's.
func TestAnObjectIsMadeInANamespaceOfTheDrill(t *testing.T) {
	for in, want := range map[string]string{"jobs": "", "shop": "", "elsewhere": "no_target"} {
		k := &keeper{kind: kube.Kind{APIVersion: "x/v1", Kind: "Cut", Resource: "cuts"}}
		h, err := making(t, k, "web-1", `{"apiVersion":"x/v1","kind":"Cut","metadata":{"namespace":"`+in+`"}}`)
		if want == "" && (err != nil || h.Record().Cluster.Namespace != in) || want != "" && voidOf(err) != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}
