package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lockdrill/lockdrill/experiments"
)

// ServerOptions say where runs are kept when the pods that made them are gone.
type ServerOptions struct {
	Name      string // of all its objects; "" = lockdrill-server
	Namespace string // "" = that of whoever applies them
	Image     string
	Pod       experiments.PodPatch
	Secret    string // with the file of tokens under the key tokens; "" = the name
	Claim     string // an existing PersistentVolumeClaim; "" = one is made
	Storage   string // size of the claim; "" = 20Gi
}

// DefaultServer is the name of the server's Service, and of all beside it, where no other is given.
const DefaultServer = "lockdrill-server"

// DefaultServerStorage is the size of the server's claim.
const DefaultServerStorage = "20Gi"

const (
	serverPort    = 8420
	serverStorage = 2 << 30 // at least: an upload may take 1 GiB, and is refused where that could not be kept
)

// Server is a server for runs, http://NAME.NAMESPACE:8420: ServiceAccount, PersistentVolumeClaim if one is made, Deployment, Service and
// NetworkPolicy, one YAML document each.
func Server(o ServerOptions) ([][]byte, error) {
	if o.Image == "" {
		return nil, errors.New("--image names the image with lockdrill, such as registry.example/lockdrill:1.0.0")
	}
	o.Name, o.Storage = cmp.Or(o.Name, DefaultServer), cmp.Or(o.Storage, DefaultServerStorage)
	o.Secret = cmp.Or(o.Secret, o.Name)
	size, err := resource.ParseQuantity(o.Storage)
	if err != nil || size.Value() < serverStorage {
		return nil, fmt.Errorf("--storage %q: want a size of at least 2Gi, such as %s", o.Storage, DefaultServerStorage)
	}
	labels := map[string]string{NameLabel: "lockdrill-server", "app.kubernetes.io/instance": o.Name}
	f := struct {
		ServerOptions
		Labels   map[string]string
		NewClaim *meta // nil = none is made
		Args     []string
		Port     int
	}{ServerOptions: o, Labels: labels, Port: serverPort, Args: []string{
		"serve", "--dir", "/results/runs", "--listen", "0.0.0.0:" + strconv.Itoa(serverPort), "--tokens", FilesDir + "/tokens",
		"--most-disk", strconv.FormatInt(size.Value()/10*9, 10), // the rest is the index's, and the file system's own
	}}
	if f.Claim == "" {
		f.Claim, f.NewClaim = o.Name+"-runs", &meta{o.Name + "-runs", o.Namespace, labels}
	}
	return podManifests("server", f, o.Pod)
}
