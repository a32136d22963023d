package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RealNode is the name of the node that StartNode starts.
const RealNode = "lockdrill-node"

// PodImage is the image of internal/kubetest/pod, which a real node needs for its sandboxes.
const PodImage = "localhost/lockdrill-pod:1"

// NeedRealNode returns the IP address of the node in whose namespaces this test runs: pods reach what listens there, and Options.Host
// must be it. Elsewhere the test is skipped: a kubelet outside of them would take the machine for its own.
func NeedRealNode(t testing.TB) (ip string) {
	t.Helper()
	if ip = os.Getenv("LOCKDRILL_NODE"); ip == "" {
		t.Skip("SKIPPED, NOT TESTED: `make e2e-kube` (root, Linux) makes the namespaces of a real node and runs this in them")
	}
	return ip
}

// StartNode starts containerd and a kubelet, imports these archives of images (PodImage's among them) and returns when the node takes
// pods. Options.NoNode must be set, and Options.Host be NeedRealNode's. It is over with the namespaces: one in a test's process.
func (e *Env) StartNode(archives ...string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if err := e.startRealNode(ctx, NeedRealNode(e.t), archives); err != nil {
		e.t.Fatalf("start a node: %v", err)
	}
}

func (e *Env) startRealNode(ctx context.Context, ip string, archives []string) error {
	cri := os.Getenv("LOCKDRILL_CRI_BIN")
	if cri == "" {
		return errors.New("LOCKDRILL_CRI_BIN must name the folder that internal/kubetools/cri/build prints")
	}
	dir := filepath.Join(e.Dir, "node")
	for _, sub := range []string{"cni", "kubelet", "pki", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	socket, err := e.startContainerd(ctx, dir, cri)
	if err != nil {
		return err
	}
	for _, archive := range archives {
		out, err := exec.CommandContext(ctx, filepath.Join(cri, "ctr"), "-a", socket, "-n", "k8s.io", "images", "import", archive).CombinedOutput()
		if err != nil {
			return fmt.Errorf("import %s: %w: %s", archive, err, out)
		}
	}
	if err := e.serveNames(ip); err != nil {
		return err
	}
	kubelet, err := e.startKubelet(dir, ip, socket)
	if err != nil {
		return err
	}
	return kubelet.until(ctx, func() error { return e.takesPods(ctx) })
}

// startContainerd returns the socket that it listens on.
func (e *Env) startContainerd(ctx context.Context, dir, cri string) (string, error) {
	socket := filepath.Join(dir, "containerd.sock")
	fill := strings.NewReplacer("DIR", dir, "SOCKET", socket, "CRI", cri, "PAUSE", PodImage)
	if err := os.WriteFile(filepath.Join(dir, "cni", "10-bridge.conflist"), []byte(fill.Replace(networkConfig)), 0o600); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(config, []byte(fill.Replace(containerdConfig)), 0o600); err != nil {
		return "", err
	}
	containerd, err := e.Spawn(filepath.Join(cri, "containerd"), "--config", config)
	if err != nil {
		return "", err
	}
	return socket, containerd.until(ctx, func() error { return answers(socket) })
}

func (e *Env) startKubelet(dir, ip, socket string) (*Process, error) {
	cert, key, err := e.ca.issueFiles(filepath.Join(dir, "pki"), RealNode, nil, ip)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "kubelet.yaml")
	fill := strings.NewReplacer("DIR", dir, "SOCKET", socket, "ADDRESS", ip, "CLIENTCA", e.ca.file, "CERT", cert, "KEY", key)
	if err := os.WriteFile(config, []byte(fill.Replace(kubeletConfig)), 0o600); err != nil {
		return nil, err
	}
	return e.Spawn("kubelet", "--config="+config, "--kubeconfig="+e.KubeconfigFor("system:node:"+RealNode, "system:nodes"),
		"--hostname-override="+RealNode, "--node-ip="+ip, "--root-dir="+filepath.Join(dir, "kubelet"), "--cert-dir="+filepath.Join(dir, "pki"), "--v=2")
}

// takesPods is nil when the node is ready; then it takes off the taint that every new node has until a controller, which does not run
// here, has seen it ready.
func (e *Env) takesPods(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	nodes := e.Client.CoreV1().Nodes()
	n, err := nodes.Get(call, RealNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ready := false
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c.Status == corev1.ConditionTrue
			err = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	if !ready {
		return errors.Join(errors.New("the node is not ready"), err)
	}
	n.Spec.Taints = nil
	_, err = nodes.Update(call, n, metav1.UpdateOptions{})
	return err
}
