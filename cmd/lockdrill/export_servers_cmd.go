package main

import (
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
)

// serverFlags adds those of an export that is about no experiment. What it returns reads the pod once they are parsed.
func serverFlags(flags *pflag.FlagSet, name, namespace, image *string, is, nameOf, imageOf string) (pod func() (experiments.PodPatch, error)) {
	flags.StringVar(name, "name", is, nameOf)
	flags.StringVarP(namespace, "namespace", "n", "", "of the manifests (default: none)")
	flags.StringVar(image, "image", "", imageOf)
	patch := flags.String("pod", "", "laid over the pod, as kubernetes.pod of an experiment: YAML, such as '{priorityClassName: low}'")
	return func() (experiments.PodPatch, error) {
		p, err := experiments.ParsePod(*patch)
		if err != nil {
			return "", usagef("--pod: %w", err)
		}
		return p, nil
	}
}

func exportServer(_ streams, flags *pflag.FlagSet) renderer {
	var o deploy.ServerOptions
	pod := serverFlags(flags, &o.Name, &o.Namespace, &o.Image, deploy.DefaultServer, "of all objects, and the host name of the server", "image with lockdrill (needed)")
	flags.StringVar(&o.Secret, "secret", "", "Secret with the file of tokens under the key tokens (default: the name)")
	flags.StringVar(&o.Claim, "claim", "", "PersistentVolumeClaim that keeps the runs, in its folder runs (default: a new one)")
	flags.StringVar(&o.Storage, "storage", deploy.DefaultServerStorage, "size of the claim: the server keeps runs in nine tenths of it")
	return func([]string) (_ []byte, err error) {
		if o.Pod, err = pod(); err != nil {
			return nil, err
		}
		return joined(deploy.Server(o))
	}
}

func exportToxiproxy(_ streams, flags *pflag.FlagSet) renderer {
	var o deploy.ToxiproxyOptions
	pod := serverFlags(flags, &o.Name, &o.Namespace, &o.Image, deploy.DefaultToxiproxy, "of the Deployment and its Service", "with the server as its entrypoint (needed); 2.12.0 is the version that is tested")
	return func([]string) (_ []byte, err error) {
		if o.Pod, err = pod(); err != nil {
			return nil, err
		}
		return joined(deploy.Toxiproxy(o))
	}
}

func exportWatch(_ streams, flags *pflag.FlagSet) renderer {
	var o deploy.WatchOptions
	pod := serverFlags(flags, &o.Name, &o.Namespace, &o.Image, deploy.DefaultWatch, "of all objects", "image with lockdrill (needed)")
	flags.StringVar(&o.Redis.URL, "redis", "", "the Redis of the locks, as the pod reaches it: redis://host:6379/0, or rediss:// (TLS), without a password")
	flags.StringVar(&o.Redis.UsernameEnv, "username-env", "", "key in the Secret that holds the user name of that Redis")
	flags.StringVar(&o.Redis.PasswordEnv, "password-env", "", "key in the Secret that holds its password")
	flags.BoolVar(&o.Redis.Cluster, "cluster", false, "that Redis is a server of a cluster: all of it is meant")
	flags.StringArrayVar(&o.Keys, "keys", nil, "name or pattern of keys, as SCAN has it: 'sched:*'; may be repeated")
	flags.StringArrayVar(&o.Leases, "lease", nil, "name of a Lease object of the namespace (default: all of it); may be repeated")
	flags.StringVar(&o.Holder, "holder", "", "finds the holder's name in a value: '^(?P<holder>[^:]+)'; its matches are shown")
	flags.StringVar(&o.Secret, "secret", "", "Secret with the user name and the password, each under the name of its variable (default: "+deploy.DefaultSecret+")")
	return func([]string) (_ []byte, err error) {
		if o.Pod, err = pod(); err != nil {
			return nil, err
		}
		if _, err := (&exporting{addr: "the pod's", holder: o.Holder}).named("", ""); err != nil {
			return nil, err
		}
		if err := (&draftFlags{Draft: draft.Draft{Redis: o.Redis}}).check(); err != nil {
			return nil, err
		}
		return joined(deploy.Watch(o))
	}
}
