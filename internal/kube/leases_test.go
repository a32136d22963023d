package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func leaseObject(version, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: "ns", ResourceVersion: version}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

// apiOf is a fake API server of one Lease, whose watches the test feeds.
type apiOf struct {
	client  *fake.Clientset
	list    coordinationv1.LeaseList
	asked   []string // versions that lists and watches were asked from: "list", or a watch's version
	watches chan watch.Interface
}

func newAPI(version string, there ...coordinationv1.Lease) *apiOf {
	a := &apiOf{client: fake.NewClientset(), watches: make(chan watch.Interface)}
	a.list = coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: there}
	a.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.asked = append(a.asked, "list")
		return true, a.list.DeepCopy(), nil
	})
	a.client.PrependWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w := action.(clienttesting.WatchActionImpl)
		if w.ListOptions.FieldSelector != "metadata.name=leader" || !w.ListOptions.AllowWatchBookmarks {
			return true, nil, errors.New("asks for more than its name")
		}
		a.asked = append(a.asked, w.ListOptions.ResourceVersion)
		if next, open := <-a.watches; open {
			return true, next, nil
		}
		return true, nil, errors.New("the test is over")
	})
	return a
}

// A watch that is cut goes on from where it was, by a bookmark where nothing changed; one that the API server cannot take up there
// begins with a list, which says that it is one.
func TestAWatchOfALeaseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI("10", *leaseObject("7", "a"))
		ctx, stop := context.WithCancel(t.Context())
		var told []LeaseChange
		var heard []error
		done := make(chan struct{})
		go func() {
			defer close(done)
			New(kubefake.Generic(a.client), "ns").WatchLease(ctx, "leader", func(c LeaseChange) { told = append(told, c) }, func(err error) { heard = append(heard, err) })
		}()
		feed := func(do func(*watch.FakeWatcher)) {
			w := watch.NewFakeWithChanSize(10, false)
			do(w)
			w.Stop()
			a.watches <- w
			synctest.Wait()
		}
		feed(func(w *watch.FakeWatcher) {
			w.Modify(leaseObject("11", ""))
			w.Modify(leaseObject("12", "b"))
			w.Action(watch.Bookmark, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "40"}})
		})
		feed(func(w *watch.FakeWatcher) { w.Delete(leaseObject("41", "b")) })
		a.list.ResourceVersion, a.list.Items = "90", []coordinationv1.Lease{*leaseObject("88", "c")}
		feed(func(w *watch.FakeWatcher) {
			gone := apierrors.NewResourceExpired("too old resource version").Status()
			w.Error(&gone)
		})
		feed(func(w *watch.FakeWatcher) { w.Modify(leaseObject("91", "d")) })
		stop()
		close(a.watches)
		<-done
		if want := []string{"list", "10", "40", "41", "list", "90", "91"}; !slices.Equal(a.asked, want) && !slices.Equal(a.asked, want[:6]) {
			t.Errorf("asked %q, want %q", a.asked, want)
		}
		var holders []string
		for _, c := range told {
			holders = append(holders, c.Lease.Holder+map[bool]string{true: "!"}[c.Listed]+map[bool]string{false: "-"}[c.There])
		}
		if want := []string{"a!", "", "b", "-", "c!", "d"}; !slices.Equal(holders, want) {
			t.Errorf("told %q, want %q", holders, want)
		}
		if !told[4].Covers("88") || !told[4].Covers("90") || told[4].Covers("91") || told[4].Covers("") || told[5].Covers("91") {
			t.Error("what a list covers is what came before it")
		}
		broken := slices.ContainsFunc(heard, func(err error) bool { return apierrors.IsResourceExpired(err) })
		if !broken || heard[0] != nil {
			t.Errorf("heard %v", heard)
		}
	})
}

// Looks and watches share one connection, so that no look is good behind the back of one that is half open.
func TestLooksShareTheConnectionOfWatches(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.Proto+" from "+r.RemoteAddr]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("watch"):
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/leader"):
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}`)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"clusters": [{"name": "x", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
		"contexts": [{"name": "x", "context": {"cluster": "x", "namespace": "ns"}}], "current-context": "x"}`, server.URL)
	testkit.Must(t, os.WriteFile(path, []byte(config), 0o600))
	c, err := Open(Options{Kubeconfig: path})
	testkit.Must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	told, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		c.WatchLease(ctx, "leader", func(LeaseChange) {}, func(err error) {
			select {
			case told <- err:
			default:
			}
		})
	}()
	if err := <-told; err != nil {
		t.Errorf("the watch: %v", err)
	}
	for range 3 {
		if _, there, err := c.Lease(ctx, "leader"); there || err != nil {
			t.Errorf("a look: %t, %v", there, err)
		}
	}
	stop()
	<-done
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(conns); len(conns) != 1 || !strings.HasPrefix(got, "map[HTTP/2.0 from ") || !strings.HasSuffix(got, ":5]") {
		t.Errorf("a list, a watch and 3 looks by %s", got)
	}
}

// What an elector writes is read from the Lease, in both of the forms in which clients send it.
func TestWhatAnElectorWrites(t *testing.T) {
	then, later, nobody := metav1.NewMicroTime(time.Unix(1, 0)), metav1.NewMicroTime(time.Unix(2, 0)), ""
	const path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/leader"
	for want, spec := range map[string]coordinationv1.LeaseSpec{
		"acquire": {HolderIdentity: new("a"), AcquireTime: &then, RenewTime: &then},
		"renew":   {HolderIdentity: new("a"), AcquireTime: &then, RenewTime: &later},
		"release": {HolderIdentity: &nobody, AcquireTime: &later, RenewTime: &later},
	} {
		l := &coordinationv1.Lease{Spec: spec}
		text, err := json.Marshal(l)
		testkit.Must(t, err)
		raw, err := l.Marshal()
		testkit.Must(t, err)
		wire, err := (&runtime.Unknown{Raw: raw}).Marshal()
		testkit.Must(t, err)
		for _, body := range [][]byte{text, append([]byte("k8s\x00"), wire...)} {
			if got := Written(path, body); got != want {
				t.Errorf("%s: %q of %q", want, got, body)
			}
		}
		if got := Written("/api/v1/namespaces/ns/events", text); got != "" {
			t.Errorf("no Lease: %q", got)
		}
	}
	for _, body := range []string{"", "{", "k8s\x00\xff"} {
		if got := Written(path, []byte(body)); got != "" {
			t.Errorf("%q: %q", body, got)
		}
	}
}
