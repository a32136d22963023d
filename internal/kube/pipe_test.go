package kube

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// Nothing waits for a kubeconfig that is a pipe, whoever names it.
func TestAKubeconfigThatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "config")
	testkit.Must(t, syscall.Mkfifo(pipe, 0o600))
	t.Setenv("KUBECONFIG", pipe)
	for _, o := range []Options{{}, {Kubeconfig: pipe}} {
		if _, err := Open(o); !errors.Is(err, ErrSettings) || !errors.Is(err, regular.ErrNoFile) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
