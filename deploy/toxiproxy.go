package deploy

import (
	"errors"

	"github.com/lockdrill/lockdrill/experiments"
)

// ToxiproxyOptions say which Toxiproxy stands between workers in pods and their store.
type ToxiproxyOptions struct {
	Name      string // of the Deployment and the Service; "" = lockdrill-toxiproxy
	Namespace string // "" = that of whoever applies it
	Pod       experiments.PodPatch
	Image     string // with the server as its entrypoint
}

// DefaultToxiproxy is the name of the Toxiproxy's Service, and of all beside it, where no other is given.
const DefaultToxiproxy = "lockdrill-toxiproxy"

// Toxiproxy is a server that a run drives by its API, http://NAME.NAMESPACE:8474: a Deployment and a headless Service, one YAML document
// each.
func Toxiproxy(o ToxiproxyOptions) ([][]byte, error) {
	if o.Image == "" {
		return nil, errors.New("--image names an image with the Toxiproxy server, such as registry.example/toxiproxy:2.12.0")
	}
	if o.Name == "" {
		o.Name = DefaultToxiproxy
	}
	return podManifests("toxiproxy", struct {
		meta
		Image string
	}{meta{o.Name, o.Namespace, map[string]string{NameLabel: "toxiproxy", "app.kubernetes.io/instance": o.Name}}, o.Image}, o.Pod)
}
