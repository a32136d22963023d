package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Labels of what lockdrill makes in a cluster.
const (
	NameLabel  = "app.kubernetes.io/name"
	FleetLabel = "lockdrill.dev/fleet" // of workers: whom they join
	RunLabel   = "lockdrill.dev/run"   // of what a run has applied: it may remove it
)

// FilesDir is where pods find the experiment and the files that it names, authorities of certificates among them.
const FilesDir = "/etc/lockdrill"

// Files in FilesDir: the authorities of the stores' certificates.
const (
	RedisCA  = "redis-ca.pem"
	LedgerCA = "ledger-ca.pem"
)

// manifest is any object of the cluster; sections that a kind does not have are empty.
type manifest struct {
	note string // above it, as a comment: why it is as it is

	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   meta              `yaml:"metadata"`
	Automount  *bool             `yaml:"automountServiceAccountToken,omitempty"` // ServiceAccount
	Data       map[string]string `yaml:"data,omitempty"`                         // ConfigMap
	Rules      []roleRule        `yaml:"rules,omitempty"`                        // Role
	RoleRef    *roleRef          `yaml:"roleRef,omitempty"`                      // RoleBinding
	Subjects   []subject         `yaml:"subjects,omitempty"`
	Spec       any               `yaml:"spec,omitempty"`
}

type meta struct {
	Name        string            `yaml:"name,omitempty"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type deploymentSpec struct {
	Replicas int         `yaml:"replicas"`
	Selector podSelector `yaml:"selector"`
	Strategy *strategy   `yaml:"strategy,omitempty"`
	Template podTemplate `yaml:"template"`
}

type podSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type strategy struct {
	Type          string         `yaml:"type"`
	RollingUpdate map[string]int `yaml:"rollingUpdate,omitempty"`
}

type podTemplate struct {
	Metadata meta    `yaml:"metadata"`
	Spec     podSpec `yaml:"spec"`
}

type podSpec struct {
	ServiceAccount string       `yaml:"serviceAccountName,omitempty"`
	Automount      bool         `yaml:"automountServiceAccountToken"`
	RestartPolicy  string       `yaml:"restartPolicy,omitempty"`
	Grace          int64        `yaml:"terminationGracePeriodSeconds"`
	Security       *podSecurity `yaml:"securityContext"`
	Containers     []container  `yaml:"containers"`
	Volumes        []volume     `yaml:"volumes,omitempty"`
}

// podSecurity and containerSecurity are what the pod security standard "restricted" asks for.
type podSecurity struct {
	RunAsNonRoot bool              `yaml:"runAsNonRoot"`
	User         int64             `yaml:"runAsUser"`
	Group        int64             `yaml:"runAsGroup"`
	FSGroup      int64             `yaml:"fsGroup,omitempty"`
	Seccomp      map[string]string `yaml:"seccompProfile"`
}

type containerSecurity struct {
	Escalation   bool                `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRoot bool                `yaml:"readOnlyRootFilesystem"`
	Capabilities map[string][]string `yaml:"capabilities"`
}

type container struct {
	Name       string             `yaml:"name"`
	Image      string             `yaml:"image"`
	PullPolicy string             `yaml:"imagePullPolicy"`
	Command    []string           `yaml:"command,omitempty"`
	Args       []string           `yaml:"args,omitempty"`
	WorkingDir string             `yaml:"workingDir,omitempty"`
	Env        []envVar           `yaml:"env,omitempty"`
	Ports      []port             `yaml:"ports,omitempty"`
	Ready      *probe             `yaml:"readinessProbe,omitempty"`
	Resources  resources          `yaml:"resources"`
	Security   *containerSecurity `yaml:"securityContext"`
	Mounts     []mount            `yaml:"volumeMounts,omitempty"`
}

type envVar struct {
	Name  string  `yaml:"name"`
	Value string  `yaml:"value,omitempty"`
	From  *envRef `yaml:"valueFrom,omitempty"`
}

type envRef struct {
	Field  map[string]string `yaml:"fieldRef,omitempty"`
	Secret map[string]string `yaml:"secretKeyRef,omitempty"`
}

type port struct {
	Name     string `yaml:"name,omitempty"`
	Port     int    `yaml:"containerPort"`
	Protocol string `yaml:"protocol,omitempty"`
}

type probe struct {
	HTTPGet map[string]any `yaml:"httpGet"`
	Period  int            `yaml:"periodSeconds"`
}

type resources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits,omitempty"`
}

type mount struct {
	Name     string `yaml:"name"`
	Path     string `yaml:"mountPath"`
	ReadOnly bool   `yaml:"readOnly,omitempty"`
}

type volume struct {
	Name      string            `yaml:"name"`
	ConfigMap map[string]string `yaml:"configMap,omitempty"`
	Claim     map[string]string `yaml:"persistentVolumeClaim,omitempty"`
	EmptyDir  *struct{}         `yaml:"emptyDir,omitempty"`
}

// user is whom containers run as: the image's own user, and no root.
const user = 65532

func restrictedPod() *podSecurity {
	return &podSecurity{RunAsNonRoot: true, User: user, Group: user, FSGroup: user, Seccomp: map[string]string{"type": "RuntimeDefault"}}
}

func restrictedContainer() *containerSecurity {
	return &containerSecurity{ReadOnlyRoot: true, Capabilities: map[string][]string{"drop": {"ALL"}}}
}

// modest is what a container of ours asks for. It has no CPU limit: a throttled process renews late, which would be the cluster's own
// fault in a drill that did not ask for it.
func modest(memory string) resources {
	return resources{Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}, Limits: map[string]string{"memory": memory}}
}

func fromField(name, path string) envVar {
	return envVar{Name: name, From: &envRef{Field: map[string]string{"fieldPath": path}}}
}

// fromSecret are variables whose values are in a Secret, under their own names.
func fromSecret(secret string, names []string) []envVar {
	var vars []envVar
	for _, n := range names {
		vars = append(vars, envVar{Name: n, From: &envRef{Secret: map[string]string{"name": secret, "key": n}}})
	}
	return vars
}

// documents writes each object as a YAML document of its own.
func documents(objects []manifest) ([][]byte, error) {
	var docs [][]byte
	for _, o := range objects {
		text, err := encode(o)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
		}
		var b bytes.Buffer
		for line := range strings.Lines(o.note) {
			fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
		}
		docs = append(docs, append(b.Bytes(), text...))
	}
	return docs, nil
}

// Join makes one stream of documents.
func Join(docs [][]byte) []byte { return bytes.Join(docs, []byte("---\n")) }

const (
	maxLabel = 63
	maxName  = 46 // of a Deployment: its pods are called name-<10>-<5>, and a host's name has at most 63 letters
)

var (
	notInName  = regexp.MustCompile(`[^a-z0-9-]+`)
	notInLabel = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// ObjectName is the name of a fleet's or an experiment's objects: "lockdrill-" and as much of id as a name of the cluster can hold. Ids
// that differ give names that differ.
func ObjectName(id string) string {
	plain := notInName.ReplaceAllString(strings.ToLower(id), "-")
	name := "lockdrill-" + strings.Trim(plain, "-")
	if plain == id && len(name) <= maxName && strings.Trim(plain, "-") == id {
		return name
	}
	return cut(name, id, maxName)
}

// LabelValue is id, any text, as the value of a label. Ids that differ give values that differ.
func LabelValue(id string) string {
	plain := notInLabel.ReplaceAllString(id, "-")
	if plain == id && len(id) <= maxLabel && strings.Trim(id, "._-") == id {
		return id
	}
	return cut(plain, id, maxLabel)
}

// cut shortens text and ends it with a sum of what it stands for.
func cut(text, id string, most int) string {
	sum := sha256.Sum256([]byte(id))
	tail := "-" + hex.EncodeToString(sum[:4])
	if len(text) > most-len(tail) {
		text = text[:most-len(tail)]
	}
	return strings.TrimLeft(strings.Trim(text, "._-")+tail, "-")
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
