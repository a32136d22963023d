package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
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
