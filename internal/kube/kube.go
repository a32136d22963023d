// Package kube is what lockdrill asks of a Kubernetes cluster, in words of its own: pods, their logs, their deaths, Lease objects,
// permissions, and objects that a run makes and removes. It is the only product package that knows client-go, but for
// lockcore/leasestore.
//
// It decides nothing and stamps nothing. Its one invariant: nothing is changed but by a name that the caller gives, and where an
// object may be another by now, by its UID as well.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

// Options say which cluster and namespace, as kubectl's flags of these names do; all may be empty.
type Options struct {
	Kubeconfig string   // path; "" = $KUBECONFIG, ~/.kube/config, or the service account of the pod that this runs in
	Context    string   // "" = the current one
	Namespace  string   // "" = that of the context
	Also       []string // further namespaces, whose pods Pods and WatchPods tell of as well
	Zones      bool     // pods are told of with the zone of their node, as a label of their own
	// Unproven: somebody else may have named the kubeconfig, as in a journal. It may start no program and read no other file, unless
	// it is one that the caller uses anyway.
	Unproven bool
}

// Cluster is one namespace of a cluster, or several (Also). It is safe for concurrent use.
type Cluster struct {
	Options                   // as resolved: Namespace is never empty, Kubeconfig is absolute, or empty where it is not one file
	objects dynamic.Interface // of any kind
	core    rest.Interface    // what is no object: streams, the version; nil on a fake one, as rest is
	rest    *rest.Config
	zones   *sync.Map // of nodes, by their names
}

var (
	// ErrSettings is wrapped by errors that a person mends by a flag or a file.
	ErrSettings = errors.New("settings")
	// ErrUnproven is wrapped by the refusal of a kubeconfig that is Unproven and would do more than reach a cluster, for kubectl as well.
	ErrUnproven = errors.New("only a journal names it")
)

// Open reads the kubeconfig. It does not dial. The options of the result are absolute: another process, elsewhere, reaches the same
// cluster by them, also after the current context has changed. An error wraps ErrSettings and says what to do.
func Open(o Options) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %w: %w", ErrSettings, err)
	}
	if o.Context == "" {
		o.Context = raw.CurrentContext // it may be another tomorrow
	} else if raw.Contexts[o.Context] == nil {
		return nil, fmt.Errorf("kubeconfig %w: there is no context %q; there are: %s", ErrSettings, o.Context, contextsOf(&raw))
	}
	if o.Unproven && !current(o.Kubeconfig) { // before anything else that may be wrong with it: kubectl, another version, may not mind that
		if what := reaches(&raw, o.Context); what != "" {
			return nil, fmt.Errorf("kubeconfig %w: %s has %s, and %w: if you trust that file, say --kubeconfig %s", ErrSettings, o.Kubeconfig, what, ErrUnproven, o.Kubeconfig)
		}
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %w: there is none that says which cluster: say --kubeconfig FILE or set KUBECONFIG, and --context where it has no current one", ErrSettings)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %w: %w", ErrSettings, err)
	}
	if o.Namespace == "" {
		if o.Namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("kubeconfig %w: %w", ErrSettings, err)
		}
	}
	if o.Kubeconfig, err = absolute(o, &raw); err != nil {
		return nil, fmt.Errorf("kubeconfig %w: %w", ErrSettings, err)
	}
	config.QPS, config.Burst = 50, 100
	config.UserAgent = "lockdrill"
	core, err := restClient(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %w: %w", ErrSettings, err)
	}
	c := New(dynamic.New(core), o.Namespace)
	c.Options, c.core, c.rest = o, core, config
	return c, nil
}

// current reports whether the caller uses the file anyway: "" = whatever the caller uses.
func current(path string) bool {
	return path == "" || slices.ContainsFunc(clientcmd.NewDefaultClientConfigLoadingRules().Precedence, func(own string) bool {
		abs, err := filepath.Abs(own)
		return err == nil && abs == path
	})
}

// reaches names what of a kubeconfig runs a program, or sends a file of the caller's to the server.
func reaches(raw *clientcmdapi.Config, context string) string {
	name := ""
	if c := raw.Contexts[context]; c != nil {
		name = c.AuthInfo
	}
	switch user := raw.AuthInfos[name]; {
	case user == nil:
	case user.Exec != nil:
		return "an exec plugin"
	case user.AuthProvider != nil:
		return "an auth-provider plugin"
	case user.TokenFile != "":
		return "a tokenFile"
	}
	return ""
}

// absolute is the path of the file that says all about the context; "" where there is no such one file: several make it up, or none.
func absolute(o Options, raw *clientcmdapi.Config) (string, error) {
	path := o.Kubeconfig
	if c := raw.Contexts[o.Context]; path == "" && c != nil {
		cluster, user := raw.Clusters[c.Cluster], raw.AuthInfos[c.AuthInfo]
		if cluster != nil && cluster.LocationOfOrigin == c.LocationOfOrigin && (user == nil || user.LocationOfOrigin == c.LocationOfOrigin) {
			path = c.LocationOfOrigin
		}
	}
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

func contextsOf(raw *clientcmdapi.Config) string {
	if len(raw.Contexts) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
}

// Quiet keeps client-go from writing to standard error by itself: what matters of it comes back as errors.
func Quiet() { klog.SetLogger(klog.Logger{}) }

// Server is the address of the API server, without secrets; "" of a fake one.
func (c *Cluster) Server() string {
	if c.rest == nil {
		return ""
	}
	u, err := url.Parse(c.rest.Host)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// New is a cluster on a client that exists.
func New(objects dynamic.Interface, namespace string) *Cluster {
	return &Cluster{Options: Options{Namespace: namespace}, objects: objects, zones: new(sync.Map)}
}

// Version of the API server, "v1.36.3".
func (c *Cluster) Version(ctx context.Context) (string, error) {
	if c.core == nil {
		return "", errNoConnection
	}
	body, err := c.core.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	var v version.Info
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("ask the API server for its version: unable to parse the server version: %w", err)
	}
	return v.GitVersion, nil
}
