package kube

import (
	"errors"
	"testing"

	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A node is cordoned in the state that was read, and not twice; what ends it takes the mark along.
func TestKubeCordon(t *testing.T) {
	s := newStand(t, kubetest.NodeOptions{})
	look := func() Node {
		t.Helper()
		n, there, err := s.Node(t.Context(), kubetest.Node)
		if err != nil || !there {
			t.Fatal(there, err)
		}
		return n
	}
	before := look()
	testkit.Must(t, s.Cordon(t.Context(), before, "run"))
	if n := look(); !n.Cordoned || n.By != "run" {
		t.Errorf("%+v", n)
	}
	if err := s.Cordon(t.Context(), before, "other"); !errors.Is(err, ErrAnother) {
		t.Errorf("of a state that is over: %v", err)
	}
	testkit.Must(t, s.Cordon(t.Context(), look(), ""))
	if n := look(); n.Cordoned || n.By != "" {
		t.Errorf("%+v", n)
	}
	if _, there, err := s.Node(t.Context(), "nobody"); there || err != nil {
		t.Errorf("nobody: %v, %v", there, err)
	}
	if err := s.Cordon(t.Context(), Node{Name: "nobody", UID: "x"}, "run"); !errors.Is(err, ErrGone) {
		t.Errorf("nobody: %v", err)
	}
}
