// Package kubetest starts a real etcd and kube-apiserver for a test and, where it asks for them, controllers and a scheduler, on free
// loopback ports, without root, with a fake node beside them that runs Go functions or real processes as containers; all of it ends
// with the test. It is for tests only, and its fake node is no kubelet: it shows logic and order, never how long a takeover takes.
// Where that is asked, StartNode starts a real node instead, as root in namespaces that `make e2e-kube` makes.
//
// Its one invariant: an object and a process are two things. An object is gone when the API server says so; a process is over when
// the function that it is has returned; Lives knows the second whatever the first says.
package kubetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say what stands; the zero value is an API server with RBAC and a fake node.
type Options struct {
	// Controllers: Deployments, StatefulSets, Jobs and CronJobs make pods, owned objects go with their owner, namespaces end, and
	// a scheduler binds pods. Without, a pod needs spec.nodeName: kubetest.Node, and costs a second less.
	Controllers bool
	NodeOptions
	NoNode bool     // no fake node
	Host   string   // IP of a real node, in whose network the API server has port 443 of every address; "" = loopback, a free port
	Audit  bool     // the API server writes down what it is asked
	Args   []string // further arguments of kube-apiserver
}

// Env is one cluster.
type Env struct {
	Kubeconfig string // file of one who may do everything
	Config     *rest.Config
	Client     kubernetes.Interface // likewise
	Dir        string               // of certificates, logs of the programs and kubeconfigs
	AuditLog   string               // file of Events of audit.k8s.io/v1, one a line, with no bodies; "" = there is none

	t    testing.TB
	bin  string
	url  string // of the API server
	ca   *authority
	node *node

	etcd, server *Process
}

const (
	startWithin = 2 * time.Minute  // everything, on a machine that is busy
	callWithin  = 20 * time.Second // one call
	lookEvery   = 20 * time.Millisecond
	loopback    = "127.0.0.1"
	servicePort = 443 // of the API server in a cluster, 10.0.0.1:443
	portTries   = 4   // between the choice of a free port and its use another process may take it
)

// controllers that the objects of a drill need; more would only cost time.
const controllers = "disruption-controller,deployment-controller,replicaset-controller,statefulset-controller,job-controller,cronjob-controller," +
	"garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,persistentvolume-binder-controller"

const auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"

// Start returns when the API server answers. Without built programs the test is skipped; see Need.
func Start(t testing.TB, o Options) *Env {
	t.Helper()
	programs := []string{"etcd", "kube-apiserver"}
	if o.Controllers {
		programs = append(programs, "kube-controller-manager", "kube-scheduler")
	}
	e := &Env{t: t, bin: Need(t, programs...)}
	// Not t.TempDir: the path of a unix socket has at most 107 characters.
	dir, err := os.MkdirTemp("", "kubetest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e.Dir = dir
	if err := e.start(o); err != nil {
		t.Fatalf("start a Kubernetes: %v", err)
	}
	return e
}

func (e *Env) start(o Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	var err error
	if e.ca, err = newAuthority(e.Dir); err != nil {
		return err
	}
	socket, err := e.startEtcd(ctx)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err = e.startServer(ctx, o, socket); err == nil {
			break
		}
		if try == portTries || ctx.Err() != nil {
			return err
		}
	}
	if o.Controllers {
		if err := e.startControllers(); err != nil {
			return err
		}
	}
	if o.NoNode {
		return nil
	}
	e.node, err = startNode(ctx, e, o.NodeOptions)
	return err
}

// startEtcd returns the socket that etcd listens on. What it keeps is thrown away: it need not reach the disk.
func (e *Env) startEtcd(ctx context.Context) (string, error) {
	socket := filepath.Join(e.Dir, "etcd.sock")
	etcd, err := e.Spawn("etcd", "--data-dir", filepath.Join(e.Dir, "etcd"), "--listen-client-urls", "unix://"+socket,
		"--advertise-client-urls", "http://127.0.0.1:0", "--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "warn", "--unsafe-no-fsync")
	if err != nil {
		return "", err
	}
	e.etcd = etcd
	return socket, etcd.until(ctx, func() error { return answers(socket) })
}

// answers asks whether anything listens on a unix socket.
func answers(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// startServer makes one attempt on a port that is free.
func (e *Env) startServer(ctx context.Context, o Options, etcd string) error {
	bind, port := "0.0.0.0", servicePort
	if o.Host == "" {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
		o.Host, bind = loopback, loopback
	}
	e.url = "https://" + net.JoinHostPort(o.Host, strconv.Itoa(port))
	cert, key, err := e.ca.issueFiles(e.Dir, "kube-apiserver", nil, o.Host)
	if err != nil {
		return err
	}
	nodeCert, nodeKey, err := e.ca.issueFiles(e.Dir, "kube-apiserver-kubelet-client", []string{"system:masters"})
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=unix://" + etcd, "--bind-address=" + bind, "--advertise-address=" + o.Host, fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--client-ca-file=" + e.ca.file,
		"--service-account-issuer=https://kubetest.local", "--service-account-key-file=" + e.ca.accounts, "--service-account-signing-key-file=" + e.ca.accounts,
		"--kubelet-client-certificate=" + nodeCert, "--kubelet-client-key=" + nodeKey, "--kubelet-certificate-authority=" + e.ca.file,
		"--kubelet-preferred-address-types=InternalIP", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=Node,RBAC",
		"--allow-privileged=true", "--endpoint-reconciler-type=none", "--enable-priority-and-fairness=false", "--v=1",
	}
	if !o.Controllers {
		args = append(args, "--disable-admission-plugins=ServiceAccount") // nobody would make the accounts that it asks for
	}
	if o.Audit {
		policy := filepath.Join(e.Dir, "audit.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return err
		}
		e.AuditLog = filepath.Join(e.Dir, "audit.log")
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+e.AuditLog, "--audit-log-mode=blocking-strict")
	}
	server, err := e.Spawn("kube-apiserver", append(args, o.Args...)...)
	if err != nil {
		return err
	}
	e.Kubeconfig = e.KubeconfigFor("admin", "system:masters")
	if e.Config, err = clientcmd.BuildConfigFromFlags("", e.Kubeconfig); err != nil {
		return err
	}
	e.Config.QPS = -1 // no limit: the fake node must not wait behind a test
	if e.Client, err = kubernetes.NewForConfig(e.Config); err != nil {
		return err
	}
	e.server = server
	return server.until(ctx, func() error { return e.serves(ctx) })
}

// serves asks whether the API server is ready.
func (e *Env) serves(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := e.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(call)
	return err
}

// RestartEtcd kills etcd and starts it again with what it has kept. The API server stays; answers says when it answers again.
func (e *Env) RestartEtcd() (answers func(ctx context.Context) error, err error) {
	e.etcd.Kill()
	if e.etcd, err = e.Spawn(e.etcd.cmd.Path, e.etcd.cmd.Args[1:]...); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return e.server.until(ctx, func() error { return e.serves(ctx) }) }, nil
}

func (e *Env) startControllers() error {
	_, err := e.Spawn("kube-controller-manager", "--kubeconfig="+e.KubeconfigFor("system:kube-controller-manager"),
		"--service-account-private-key-file="+e.ca.accounts, "--root-ca-file="+e.ca.file, "--use-service-account-credentials=true",
		"--leader-elect=false", "--secure-port=0", "--controllers="+controllers, "--v=1")
	if err != nil {
		return err
	}
	_, err = e.Spawn("kube-scheduler", "--kubeconfig="+e.KubeconfigFor("system:kube-scheduler"), "--leader-elect=false", "--secure-port=0", "--v=1")
	return err
}

// Namespace makes a namespace and returns its name when pods can be made in it.
func (e *Env) Namespace(name string, annotations map[string]string) string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	_, err := e.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("make namespace %s: %v", name, err)
	}
	if err := e.account(ctx, name, "default"); err != nil {
		e.t.Fatalf("make namespace %s: %v", name, err)
	}
	return name
}

// account makes a service account where there is none. The controller that makes "default" may be before or after.
func (e *Env) account(ctx context.Context, namespace, name string) error {
	_, err := e.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// freePort is a port of loopback that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
