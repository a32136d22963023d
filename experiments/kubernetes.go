package experiments

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Kubernetes says where replicas are pods, and which pods those are. Flags of the command line (--kubeconfig, --context, --namespace)
// win over the file.
type Kubernetes struct {
	Context    string            // of the kubeconfig; default: its current one
	Namespace  string            `rule:"format=namespace"`                                              // of the pods; default: that of the context
	Namespaces []string          `rule:"for=@observed,format=namespace,unique"`                         // further ones with pods of the system, called NAMESPACE/NAME
	Pods       PodsMode          `rule:"words=apply|use,default=use"`                                   // apply: the run makes and removes the workers; use: they are there
	Workers    WorkersKind       `rule:"words=deployment|statefulset,default=deployment,for=@embedded"` // with statefulset a killed pod keeps its name, and r1 is pod -0
	Selector   map[string]string `rule:"format=labels"`                                                 // labels of the pods; default: lockdrill's workers
	Controller string            `rule:"format=controller"`                                             // of the pods, such as deployment/NAME or statefulset/NAME; default: the only one
	Container  string            `rule:"format=label"`                                                  // which takes the locks; default: the first
	Pod        PodPatch          // laid over each pod that lockdrill makes: annotations, nodeSelector, tolerations, resources ...
	Allow      []string          `rule:"unique"`                                        // guarded kinds of which a fault may make an object
	Events     bool              `rule:"omit"`                                          // write Kubernetes Events on struck pods and the namespace
	Image      string            `rule:"for=@embedded"`                                 // of applied workers and exported manifests
	Grace      time.Duration     `rule:"positive,default=30s,for=@embedded" scale:"no"` // terminationGracePeriodSeconds of the workers; whole seconds
	Holder     *HolderNames      `rule:"for=@observed"`                                 // how a lock's holder leads to a pod; default: it begins with the pod's name
	Redis      string            `rule:"for=@embedded,format=hostport"`                 // host:port of the locks' store for pods; default: that of redis.url
	Secret     string            `rule:"format=object"`                                 // names and passwords of the stores, by variable; default: lockdrill
	Ledger     string            `rule:"for=@embedded,format=hostport"`                 // host:port of the ledger for pods; default: that of ledger.url
	APIProxy   string            `file:"api_proxy" rule:"for=@observed,format=proxy"`   // API of the lockdrill proxy before the API server, http://127.0.0.1:6381 or unix:PATH
}

// PodsMode says who brings the pods.
type PodsMode string

const (
	PodsApply PodsMode = "apply" // the run makes its workers, and removes them
	PodsUse   PodsMode = "use"   // what is there: exported workers, or the observed system
)

// WorkersKind is what makes lockdrill's own workers.
type WorkersKind string

const (
	WorkersDeployment  WorkersKind = "deployment"
	WorkersStatefulSet WorkersKind = "statefulset"
)

// HolderNames says how the name of a holder leads to its pod. Exactly one field is set.
type HolderNames struct {
	_          struct{} `rule:"one=name|label|annotation"`
	Name       string   // pattern with {pod} and *, such as "{pod}_*"
	Label      string   `rule:"format=labelkey"` // label of the pod with the name
	Annotation string   `rule:"format=labelkey"` // annotation of the pod with the name
}

const podInName = "{pod}"

// Is reports whether holder is a name of that pod. Two pods may both be meant where a pattern is loose ("{pod}-*" of web and web-1):
// the longer pod name is the better answer. A nil h is the way of client-go, whose names begin with the host's: the pod's name, and
// then nothing that a pod's name could go on with.
func (h *HolderNames) Is(holder, pod string, labels, annotations map[string]string) bool {
	switch {
	case holder == "":
		return false
	case h == nil:
		rest, ok := strings.CutPrefix(holder, pod)
		return ok && (rest == "" || !goesOn(rest[0]))
	case h.Label != "":
		return labels[h.Label] == holder
	case h.Annotation != "":
		return annotations[h.Annotation] == holder
	}
	return matches(strings.Split(strings.ReplaceAll(h.Name, podInName, pod), "*"), holder)
}

// goesOn reports a byte of which pods' names are made.
func goesOn(b byte) bool { return b == '-' || b == '.' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' }

// matches reports whether text is the parts in their order, with anything between them.
func matches(parts []string, text string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return text == first
	}
	text, ok := strings.CutPrefix(text, first)
	for _, part := range parts[1 : len(parts)-1] {
		if !ok {
			return false
		}
		_, text, ok = strings.Cut(text, part)
	}
	return ok && strings.HasSuffix(text, last)
}

// NamespaceAllowed reports whether the caps of the file let a run strike pods of that namespace.
func (l *RunLimits) NamespaceAllowed(namespace string) bool {
	return len(l.Namespaces) == 0 || slices.Contains(l.Namespaces, namespace)
}

var dnsName = vocab.WhenAsked(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
