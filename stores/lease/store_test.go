package lease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/leasestore"
)

// The holder of a key is the object of that key, by its name or by what it says of itself. It is deleted only as long as it is that epoch's.
func TestHoldersOfLeases(t *testing.T) {
	client, ctx := fake.NewClientset(), t.Context()
	locks := leasestore.New(client.CoordinationV1(), "drill", "p.")
	for _, key := range []string{"one", "job/1", "free"} {
		if _, err := locks.Acquire(ctx, key, "token of "+key, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, locks.Release(ctx, "free", "token of free"))
	who, turns, at := "pod-1", int32(3), metav1.NewMicroTime(time.Unix(7, 8000))
	elected := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "p.elected"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseTransitions: &turns, AcquireTime: &at}}
	if _, err := client.CoordinationV1().Leases("drill").Create(ctx, elected, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &store{cluster: kube.New(kubefake.Generic(client), "drill")}
	for key, want := range map[string]string{
		"p.one": lockcore.Fingerprint("token of one"), "p.job/1": lockcore.Fingerprint("token of job/1"), "p.elected": lockcore.Fingerprint("pod-1#3@7000008000"),
		"p.free": "", "p.none": "",
	} {
		name, epoch, _, err := s.Holder(ctx, key)
		if err != nil || epoch != want || (name == "") != (want == "") {
			t.Errorf("%s is held by %q %s: %v, want %s", key, name, epoch, err, want)
		}
		if name == "" {
			continue
		}
		if none, err := s.End(ctx, name, "another"); err != nil || !none {
			t.Errorf("the object of another epoch was deleted: %v, %v", none, err)
		}
		if there, err := s.Lives(ctx, name, epoch); err != nil || !there {
			t.Errorf("%s %s lives: %v, %v", name, epoch, there, err)
		}
		if none, err := s.End(ctx, name, epoch); err != nil || none {
			t.Errorf("end %s %s: %v, %v", name, epoch, none, err)
		}
		if there, err := s.Lives(ctx, name, epoch); err != nil || there {
			t.Errorf("%s %s lives on: %v, %v", name, epoch, there, err)
		}
	}
	again := elected.DeepCopy()
	again.UID = "another"
	if _, err := client.CoordinationV1().Leases("drill").Create(ctx, again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if there, err := s.Lives(ctx, "p.elected", lockcore.Fingerprint("pod-1#3@7000008000")); err != nil || there {
		t.Errorf("the object that its holder has made anew is taken for the one that was deleted: %v, %v", there, err)
	}
}
