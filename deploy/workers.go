package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// WorkersOptions say which workers of ours are to run in pods. WorkersFor fills them from an experiment.
type WorkersOptions struct {
	Fleet     string // whom they join: the id of a run, or the name of an experiment
	Run       string // the run that applies them, whose label they carry; "" = they are exported, and stay
	Namespace string // "" = that of whoever applies them
	Replicas  int
	Stateful  bool // a StatefulSet, whose pods come back under their names
	Image     string
	Grace     time.Duration // terminationGracePeriodSeconds; whole seconds
	Pod       experiments.PodPatch
	Container string // name of the container; "" = worker

	Join        string            // the ledger's store as pods reach it: redis:// or rediss://, without a password
	UsernameEnv string            // of Join
	PasswordEnv string            //
	CA          string            // of Join: path in the pod, FilesDir/name for one of Files; "" = the system's authorities
	SecretEnv   []string          // variables with the names and passwords of both stores
	Secret      string            // the Secret that holds them, each under its variable's name
	Env         map[string]string // further variables of the workers

	Experiment []byte            // resolved, kept beside the workers so that people see what they are for; nil = not kept
	Files      map[string][]byte // that the pods find in FilesDir: authorities of certificates
}

// DefaultSecret is the Secret with the stores' passwords, where no other is named.
const DefaultSecret = "lockdrill"

// workerName is the label by which workers of ours are known, whatever their fleet.
const workerName = "lockdrill-worker"

// WorkerLabels select the pods of a fleet.
func WorkerLabels(fleet string) map[string]string {
	return map[string]string{NameLabel: workerName, FleetLabel: LabelValue(fleet)}
}

// AppliedLabels are those labels of the workers which a run makes that can be known before it has an id.
func AppliedLabels() map[string]string { return map[string]string{NameLabel: workerName} }

// ErrNoPods is wrapped by the error about an experiment whose replicas are no pods, or that says too little about them.
var ErrNoPods = errors.New("the experiment does not say enough about its pods")

// WorkersFor are the workers of e. The experiment and the files of its certificates are the caller's to add.
func WorkersFor(e *experiments.Experiment, fleet string) (WorkersOptions, error) {
	k := e.Kubernetes
	switch {
	case k == nil:
		return WorkersOptions{}, fmt.Errorf("%w: add a section kubernetes, such as kubernetes: {image: registry.example/lockdrill:1}", ErrNoPods)
	case e.Observed():
		return WorkersOptions{}, fmt.Errorf("%w: system.mode observe watches pods of your own, so there are no workers to deploy", ErrNoPods)
	case k.Image == "":
		return WorkersOptions{}, fmt.Errorf("%w: kubernetes.image names the image of the workers", ErrNoPods)
	case e.Ledger.URL == "":
		return WorkersOptions{}, fmt.Errorf("%w: ledger.url names the store over which workers in pods report", ErrNoPods)
	}
	o := WorkersOptions{
		Fleet: fleet, Namespace: k.Namespace, Replicas: e.System.Replicas, Stateful: k.Workers == experiments.WorkersStatefulSet, Image: k.Image, Pod: k.Pod, Grace: k.Grace, Container: k.Container,
		Join: reached(e.Ledger.URL, k.Ledger), UsernameEnv: e.Ledger.UsernameEnv, PasswordEnv: e.Ledger.PasswordEnv, CA: e.Ledger.CA,
		SecretEnv: secretEnv(e), Secret: secretOf(e),
	}
	return o, nil
}

// secretOf is the Secret of the experiment's stores.
func secretOf(e *experiments.Experiment) string { return cmp.Or(e.Kubernetes.Secret, DefaultSecret) }

// secretEnv are the variables that hold names and passwords of the experiment's stores.
func secretEnv(e *experiments.Experiment) []string {
	names := []string{e.Redis.UsernameEnv, e.Redis.PasswordEnv, e.Ledger.UsernameEnv, e.Ledger.PasswordEnv}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// reached is a store's URL with the host and port by which pods reach it; "" = as it is.
func reached(url, hostPort string) string {
	if hostPort == "" {
		return url
	}
	scheme, rest, _ := strings.Cut(url, "://")
	_, database, ok := strings.Cut(rest, "/")
	if ok {
		hostPort += "/" + database
	}
	return scheme + "://" + hostPort
}

// Workers are the manifests of a fleet, one YAML document each, in the order in which they are to be applied: a ServiceAccount that may
// do nothing, a ConfigMap with the experiment and its files where there are any, and the Deployment or StatefulSet. All are called ObjectName(o.Fleet).
func Workers(o WorkersOptions) ([][]byte, error) {
	docs, err := workers(o)
	if err != nil {
		return nil, fmt.Errorf("workers of %s: %w", o.Fleet, err)
	}
	return docs, nil
}

func workers(o WorkersOptions) ([][]byte, error) {
	switch {
	case o.Fleet == "" || o.Image == "" || o.Join == "":
		return nil, errors.New("a fleet, an image and a store to join are needed")
	case strings.Contains(o.Join, "@"):
		return nil, errors.New("the URL of the ledger's store has a user in it: name a variable instead")
	}
	labels := WorkerLabels(o.Fleet)
	if o.Run != "" {
		labels[RunLabel] = LabelValue(o.Run)
	}
	o.Container = cmp.Or(o.Container, "worker")
	args := []string{"worker", "--join", o.Join, "--fleet", o.Fleet}
	for _, f := range [][2]string{{"--username-env", o.UsernameEnv}, {"--password-env", o.PasswordEnv}, {"--ca", o.CA}} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	return podManifests("workers", struct {
		WorkersOptions
		Meta     meta
		Selector map[string]string
		Data     map[string]string
		Args     []string
	}{o, meta{ObjectName(o.Fleet), o.Namespace, labels}, WorkerLabels(o.Fleet), filesOf(o.Experiment, o.Files), args}, o.Pod)
}

// experimentKey is the file of the experiment in FilesDir.
const experimentKey = "experiment.yaml"

// filesOf are the files of a ConfigMap.
func filesOf(experiment []byte, files map[string][]byte) map[string]string {
	data := map[string]string{}
	if experiment != nil {
		data[experimentKey] = string(experiment)
	}
	for name, text := range files {
		data[name] = string(text)
	}
	return data
}
