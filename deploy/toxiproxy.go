package deploy

import "errors"

// ToxiproxyOptions say which Toxiproxy stands between workers in pods and their store.
type ToxiproxyOptions struct {
	Name      string // of the Deployment and the Service; "" = lockdrill-toxiproxy
	Namespace string // "" = that of whoever applies it
	Image     string // with the server as its entrypoint
}

// DefaultToxiproxy is the name of the Toxiproxy's Service, and of all beside it, where no other is given.
const DefaultToxiproxy = "lockdrill-toxiproxy"

const toxiproxyPort = 8474

type serviceSpec struct {
	ClusterIP string            `yaml:"clusterIP"`
	NotReady  bool              `yaml:"publishNotReadyAddresses"`
	Selector  map[string]string `yaml:"selector"`
	Ports     []servicePort     `yaml:"ports"`
}

type servicePort struct {
	Name string `yaml:"name"`
	Port int    `yaml:"port"`
}

const serviceNote = `Headless: its name leads to the pod itself, on every port. A run makes a proxy for each replica on a port that is not known before.
Whoever reaches the API can disturb the way to the locks: keep this out of namespaces that others may use.`

const toxiproxyNote = `One pod, and never two at once: what it was told is in its memory, and a second one would know nothing of it.`

// Toxiproxy is a server that a run drives by its API, http://NAME.NAMESPACE:8474: a Deployment and a headless Service, one YAML document
// each.
func Toxiproxy(o ToxiproxyOptions) ([][]byte, error) {
	if o.Image == "" {
		return nil, errors.New("--image names an image with the Toxiproxy server, such as registry.example/toxiproxy:2.12.0")
	}
	if o.Name == "" {
		o.Name = DefaultToxiproxy
	}
	labels := map[string]string{NameLabel: "toxiproxy", "app.kubernetes.io/instance": o.Name}
	m := meta{Name: o.Name, Namespace: o.Namespace, Labels: labels}
	pod := podSpec{
		Grace: 5, Security: restrictedPod(),
		Containers: []container{{
			Name: "toxiproxy", Image: o.Image, PullPolicy: "IfNotPresent", Args: []string{"-host=0.0.0.0"},
			Ports:     []port{{Name: "api", Port: toxiproxyPort}},
			Ready:     &probe{HTTPGet: map[string]any{"path": "/version", "port": "api"}, Period: 2},
			Resources: modest("256Mi"), Security: restrictedContainer(),
		}},
	}
	return documents([]manifest{
		{
			note: toxiproxyNote, APIVersion: "apps/v1", Kind: "Deployment", Metadata: m,
			Spec: deploymentSpec{
				Replicas: 1, Selector: podSelector{labels}, Strategy: &strategy{Type: "Recreate"},
				Template: podTemplate{Metadata: meta{Labels: labels}, Spec: pod},
			},
		},
		{
			note: serviceNote, APIVersion: "v1", Kind: "Service", Metadata: m,
			Spec: serviceSpec{ClusterIP: "None", NotReady: true, Selector: labels, Ports: []servicePort{{"api", toxiproxyPort}}},
		},
	})
}
