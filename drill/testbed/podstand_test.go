package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/stores"
)

// turnOfAnother is the namespace's turn of a run that renewed it at that time.
func turnOfAnother(last time.Time) *coordinationv1.Lease {
	stamp, seconds := metav1.NewMicroTime(last), int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: turnName, Namespace: "drill", UID: "another", Labels: map[string]string{kube.RunLabel: "other"},
			Annotations: map[string]string{"lockdrill.dev/holder": `{"run":"other","folder":"/theirs"}`},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: &stamp, LeaseDurationSeconds: &seconds},
	}
}

func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name    string
		age     time.Duration // of the other's last renewal
		renewed bool          // it renews while it is watched
		held    bool
	}{
		{"fresh", 10 * time.Second, false, true},
		{"from a clock that is behind", time.Hour, true, true},
		{"of a run that died", time.Hour, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), undo.File)
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(turnOfAnother(time.Now().Add(-c.age)))
				leases := client.CoordinationV1().Leases("drill")
				j, err := undo.Create(path, undo.Header{Run: "mine"})
				if err != nil {
					t.Fatal(err)
				}
				if c.renewed {
					time.AfterFunc(turnStale/2, func() {
						_, _ = leases.Update(t.Context(), turnOfAnother(time.Now().Add(-time.Hour)), metav1.UpdateOptions{})
					})
				}
				cluster := kube.New(kubefake.Generic(client), "drill")
				s, err := ApplyPods(t.Context(), PodStandOptions{Cluster: cluster, Run: "mine", Journal: j})
				held := new(stores.HeldError)
				if errors.As(err, &held) != c.held || c.held && (held.Run != "other" || held.Folder != "/theirs" || !strings.Contains(err.Error(), "namespace drill is held by run other")) {
					t.Errorf("err %v", err)
				}
				l, got := leases.Get(t.Context(), turnName, metav1.GetOptions{})
				if want := map[bool]string{true: "other", false: "mine"}[c.held]; got != nil || l.Labels[kube.RunLabel] != want {
					t.Errorf("the turn is %+v, %v, want that of %s", l, got, want)
				}
				if s != nil {
					err := s.Close(t.Context())
					if _, gone := leases.Get(t.Context(), turnName, metav1.GetOptions{}); err != nil || gone == nil {
						t.Errorf("close: %v; the turn: %v", err, gone)
					}
				}
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A Lease object of that name that no run has made is somebody's own, however long nobody has renewed it.
func TestATurnThatIsSomebodysOwn(t *testing.T) {
	theirs := turnOfAnother(time.Now().Add(-time.Hour))
	theirs.Labels = nil
	client := fake.NewClientset(theirs)
	_, err := ApplyPods(t.Context(), PodStandOptions{Cluster: kube.New(kubefake.Generic(client), "drill"), Run: "mine"})
	if err == nil || !strings.Contains(err.Error(), "no run has made it") {
		t.Errorf("err %v", err)
	}
	if l, err := client.CoordinationV1().Leases("drill").Get(t.Context(), turnName, metav1.GetOptions{}); err != nil || l.UID != "another" || len(l.Labels) > 0 {
		t.Errorf("their lease: %+v, %v", l, err)
	}
}

// slow is a generic client of an API server that makes an object a second after it was told to, whether or not anybody waits for it.
type slow struct {
	dynamic.Interface
	told func()
}

func (s slow) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return slowKind{s.Interface.Resource(r), s.told}
}

type slowKind struct {
	dynamic.NamespaceableResourceInterface
	told func()
}

func (s slowKind) Namespace(ns string) dynamic.ResourceInterface {
	return slowPlace{s.NamespaceableResourceInterface.Namespace(ns), s.told}
}

type slowPlace struct {
	dynamic.ResourceInterface
	told func()
}

func (s slowPlace) Apply(ctx context.Context, _ string, o *kube.Object, _ metav1.ApplyOptions, _ ...string) (*kube.Object, error) {
	made := make(chan error, 1)
	time.AfterFunc(time.Second, func() {
		_, err := s.Create(context.Background(), o, metav1.CreateOptions{})
		made <- err
	})
	s.told()
	select {
	case err := <-made:
		return o, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// An interruption while an object is being made leaves nothing, and makes no more.
func TestAnInterruptedApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		objects := kubefake.Generic(client)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		cluster := kube.New(slow{objects, interrupt}, "drill")
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}"
		if _, err := ApplyPods(ctx, PodStandOptions{Cluster: cluster, Run: "r", Manifests: [][]byte{[]byte(text)}}); !errors.Is(err, context.Canceled) {
			t.Errorf("err %v", err)
		}
		time.Sleep(time.Minute) // a bubble's time
		maps := objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("drill")
		if left, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
			t.Errorf("left: %+v, %v", left, err)
		}
		applied := 0
		for _, a := range objects.Actions() {
			if a.Matches("create", "configmaps") {
				applied++
			}
		}
		if applied != 1 {
			t.Errorf("%d objects made, want the one that was under way", applied)
		}
	})
}

func TestATurnThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		leases := client.CoordinationV1().Leases("drill")
		s, err := ApplyPods(t.Context(), PodStandOptions{Cluster: kube.New(kubefake.Generic(client), "drill"), Run: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		begun, _ := leases.Get(t.Context(), turnName, metav1.GetOptions{})
		time.Sleep(2*stores.TurnEvery + time.Second) // a bubble's time
		if l, _ := leases.Get(t.Context(), turnName, metav1.GetOptions{}); s.Held() != nil || !l.Spec.RenewTime.After(begun.Spec.RenewTime.Time) {
			t.Errorf("held %v, renewed %v", s.Held(), l.Spec.RenewTime)
		}
		if err := leases.Delete(t.Context(), turnName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stores.TurnEvery) // likewise
		if _, err := leases.Get(t.Context(), turnName, metav1.GetOptions{}); err != nil || s.Held() != nil {
			t.Errorf("a turn that vanished is not taken again: %v, %v", err, s.Held())
		}
		if _, err := leases.Update(t.Context(), turnOfAnother(time.Now()), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stores.TurnEvery) // likewise
		if held := new(stores.HeldError); !errors.As(s.Held(), &held) || held.Run != "other" {
			t.Errorf("held: %v", s.Held())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if l, err := leases.Get(t.Context(), turnName, metav1.GetOptions{}); err != nil || l.Labels[kube.RunLabel] != "other" {
			t.Errorf("another's turn after Close: %+v, %v", l, err)
		}
	})
}

// What cannot be removed for a while keeps nothing else from going, and is tried again.
func TestRemovalGoesOnWhereOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "drill", UID: types.UID(name), Labels: map[string]string{kube.RunLabel: "mine"}}}
		}
		stranger := run("c") // in place of one of the run's
		stranger.Labels[kube.RunLabel] = "another"
		client := fake.NewClientset(run("a"), run("b"), stranger, run(turnName))
		objects, gone, failures := kubefake.Generic(client), false, 3
		leases := client.CoordinationV1().Leases("drill")
		objects.PrependReactor("get", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.(clienttesting.GetAction).GetName() != "b" || failures == 0 {
				return false, nil, nil
			}
			failures--
			_, err := leases.Get(t.Context(), "a", metav1.GetOptions{})
			gone = err != nil
			return true, nil, errors.New("connection refused")
		})
		what := undo.Cluster{Namespace: "drill", Run: "mine"}
		for _, name := range []string{turnName, "a", "b", "c"} {
			what.Objects = append(what.Objects, undo.Object{APIVersion: leaseWord, Kind: leaseWords, Name: name})
		}
		if err := endPods(t.Context(), kube.New(objects, "drill"), what); err != nil || !gone {
			t.Errorf("removed: %v; a went while b failed: %v", err, gone)
		}
		if l, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) != 1 || l.Items[0].Name != "c" {
			t.Errorf("left: %+v, %v, want the stranger's", l.Items, err)
		}
	})
}

// A record that was made at one API server is not undone at another, which would find nothing and call that gone.
func TestEndPodsRefusesAnotherServer(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	writeFile(t, config, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}],"clusters":[{"name":"k","cluster":{"server":"https://127.0.0.1:1"}}]}`)
	for _, c := range []struct {
		of   *undo.Cluster
		want string
	}{
		{&undo.Cluster{Kubeconfig: config, Server: "https://127.0.0.1:2", Namespace: "drill", Run: "r"}, "at the API server https://127.0.0.1:2, and the kubeconfig leads to https://127.0.0.1:1"},
		{&undo.Cluster{Kubeconfig: config, Server: "https://127.0.0.1:2", UID: "u", Namespace: "drill", Run: "r"}, "is it the same cluster?"},
		{&undo.Cluster{Kubeconfig: config, Namespace: "drill"}, "names no run"},
		{nil, "names no run"},
	} {
		if err := EndPods(t.Context(), undo.Record{Kind: undo.StandPods, Cluster: c.of}, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.of, err)
		}
	}
	c := kube.New(kubefake.Generic(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drill", UID: "there"}})), "drill")
	for uid, want := range map[string]string{"there": "<nil>", "another": "is another (UID there, the run's another)"} { // by another address
		if err := sameCluster(t.Context(), c, undo.Cluster{Server: "https://127.0.0.1:2", UID: uid, Namespace: "drill"}); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("UID %s: %v, want %s", uid, err, want)
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}":                          "secret a is none of the kinds",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}":                  "configmap theirs is in namespace drill already, and no run has made it",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {}":                              "has no name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: elsewhere}": "is for namespace elsewhere",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: [":         "read manifest",
	} {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "drill"}})
		_, err := ApplyPods(t.Context(), PodStandOptions{Cluster: kube.New(kubefake.Generic(client), "drill"), Run: "r", Manifests: [][]byte{[]byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		for _, a := range client.Actions() {
			if a.GetVerb() != "get" {
				t.Errorf("%q: %s %s", text, a.GetVerb(), a.GetResource().Resource)
			}
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
