package deploy

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/lockdrill/lockdrill/experiments"
)

// WatchOptions say which locks a pod watches for as long as it runs: keys of a Redis, or Lease objects.
type WatchOptions struct {
	Name      string // of all its objects; "" = lockdrill-watch
	Namespace string // "" = that of whoever applies them; of Leases: where they are
	Image     string
	Pod       experiments.PodPatch
	Redis     experiments.Redis // without a URL: Leases
	Keys      []string
	Leases    []string // their names; none = all of the namespace
	Holder    string   // finds the holder's name in a value; "" = none is shown
	Secret    string   // with the values of the variables that Redis names; "" = lockdrill
}

// DefaultWatch is the name of a watch, and of all beside it, where no other is given.
const DefaultWatch = "lockdrill-watch"

const watchPort = 9460

// Watch is `lockdrill watch --listen` for a cluster: ServiceAccount, for Leases a Role and its binding, Deployment and Service, one YAML
// document each.
func Watch(o WatchOptions) ([][]byte, error) {
	leases := o.Redis.URL == ""
	switch {
	case o.Image == "":
		return nil, errors.New("--image names the image with lockdrill, such as registry.example/lockdrill:1.0.0")
	case leases && len(o.Keys) > 0:
		return nil, errors.New("--keys: of which Redis? Say --redis redis://host:6379, or --lease in place of --keys")
	case leases && o.Namespace == "":
		return nil, errors.New("where are the locks? Say --redis redis://host:6379 --keys 'sched:*', or --namespace NAME for its Lease objects")
	case !leases && len(o.Leases) > 0:
		return nil, errors.New("--redis and --lease: one at a time")
	case !leases && len(o.Keys) == 0:
		return nil, errors.New("which keys? Say --keys 'sched:*'")
	}
	o.Name, o.Secret = cmp.Or(o.Name, DefaultWatch), cmp.Or(o.Secret, DefaultSecret)
	port := strconv.Itoa(watchPort)
	args := []string{"watch", "--listen", "0.0.0.0:" + port}
	with := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				args = append(args, flag, v)
			}
		}
	}
	with("--redis", o.Redis.URL)
	with("--keys", o.Keys...)
	with("--username-env", o.Redis.UsernameEnv)
	with("--password-env", o.Redis.PasswordEnv)
	if o.Redis.Cluster {
		args = append(args, "--cluster")
	}
	if leases {
		with("--namespace", o.Namespace)
		with("--lease", o.Leases...)
	}
	with("--holder", o.Holder)
	f := struct {
		meta
		Image, Secret, PortText string
		SecretEnv, Args         []string
		Port                    int
		Leases                  bool
	}{meta{o.Name, o.Namespace, map[string]string{NameLabel: "lockdrill-watch", "app.kubernetes.io/instance": o.Name}}, o.Image, o.Secret, port, nil, args, watchPort, leases}
	for _, v := range []string{o.Redis.UsernameEnv, o.Redis.PasswordEnv} {
		if v != "" {
			f.SecretEnv = append(f.SecretEnv, v)
		}
	}
	return podManifests("watch", f, o.Pod)
}
