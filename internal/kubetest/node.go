package kubetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Node is the name of the fake node, for spec.nodeName where there is no scheduler.
const Node = "fake-0"

// NodeOptions say how the fake node's containers live; the zero value is one that ends at once on SIGTERM and restarts at once.
type NodeOptions struct {
	// Run is the program of every pod's first container (others are said to run, and do nothing); nil = Wait.
	Run Program
	// Exec answers `kubectl exec` in the life that runs; nil = no command is found there, exit 127.
	Exec func(ctx context.Context, l *Life, command []string, in io.Reader, out, errs io.Writer) (exit int)
	// ReadyAt is a line of its log from which on a container is ready, as by a readiness probe; "" = from its start, when a real
	// process may not even have heard of SIGTERM.
	ReadyAt string
}

// forceGrace is the kubelet's least time from SIGTERM to SIGKILL, even where the object is gone at once.
const forceGrace = 2 * time.Second

// node keeps the pods that are bound to it.
type node struct {
	NodeOptions
	t      interface{ Errorf(string, ...any) }
	client kubernetes.Interface

	mu      sync.Mutex
	runners map[string]*podRunner // by namespace/name: the newest
	byUID   map[string]*podRunner
	all     []*Life
	cut     chan struct{} // closed and made anew by CutLogs
	held    chan struct{} // until it is closed nothing is killed; nil = nobody holds

	keeping sync.WaitGroup
}

// startNode makes the node's object, its endpoint and what keeps its pods; all of it ends with the test, before the API server does.
func startNode(ctx context.Context, e *Env, o NodeOptions) (*node, error) {
	if o.Run == nil {
		o.Run = Wait
	}
	n := &node{NodeOptions: o, t: e.t, client: e.Client, runners: map[string]*podRunner{}, byUID: map[string]*podRunner{}, cut: make(chan struct{})}
	port, err := n.serve(e)
	if err != nil {
		return nil, err
	}
	if err := n.register(ctx, port); err != nil {
		return nil, fmt.Errorf("register the node: %w", err)
	}
	run, stop := context.WithCancel(context.Background())
	pods := e.Client.CoreV1().Pods(corev1.NamespaceAll)
	mine := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", Node).String()
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &corev1.Pod{},
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				mine(&o)
				return pods.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				mine(&o)
				return pods.Watch(ctx, o)
			},
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { n.see(run, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { n.see(run, o.(*corev1.Pod)) },
			DeleteFunc: n.lose,
		},
	})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		informer.RunWithContext(run)
	}()
	e.t.Cleanup(func() {
		stop()
		<-watching
		n.keeping.Wait()
	})
	return n, nil
}

// register makes the node's object: ready, with room, and with the port of its endpoint.
func (n *node) register(ctx context.Context, port int) error {
	nodes := n.client.CoreV1().Nodes()
	o, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Node}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.Spec.Taints = nil // admission taints a new node until a controller that is not here has seen it ready
	if o, err = nodes.Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return err
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("200"),
	}
	o.Status.Capacity, o.Status.Allocatable = room, room
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Fake", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	o.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	o.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	_, err = nodes.UpdateStatus(ctx, o, metav1.UpdateOptions{})
	return err
}

// serve starts the endpoint that the API server asks for logs and exec; it answers nobody else.
func (n *node) serve(e *Env) (port int, err error) {
	cert, key, err := e.ca.issue(Node, nil, "127.0.0.1")
	if err != nil {
		return 0, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{
		Handler:   n.handler(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: e.ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
		ErrorLog:  silent(), // of connections that tests cut
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(l, "", "") // says that it was closed
	}()
	e.t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port, nil
}

// see tells the pod's runner of its object; a new pod gets one.
func (n *node) see(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.byUID[string(pod.UID)]; s != nil {
		s.notify(pod, false)
		return
	}
	if over(pod) {
		return
	}
	s := &podRunner{node: n, pod: pod, changed: make(chan struct{}, 1), ip: fmt.Sprintf("127.64.%d.%d", len(n.byUID)/250, len(n.byUID)%250+1)}
	n.byUID[string(pod.UID)], n.runners[pod.Namespace+"/"+pod.Name] = s, s
	n.keeping.Go(func() { s.keep(ctx) })
}

// lose tells the pod's runner that its object is gone.
func (n *node) lose(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.byUID[string(pod.UID)]; s != nil {
		s.notify(pod, true)
	}
}

// holding is closed when what is to be killed may be; nil = it may be now.
func (n *node) holding() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held
}

// runner is that of the newest pod of that name, or nil.
func (n *node) runner(namespace, name string) *podRunner {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runners[namespace+"/"+name]
}
