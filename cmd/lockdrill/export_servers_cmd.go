package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
)

// serverFlags are those of an export that is about no experiment.
type serverFlags struct{ name, namespace, image, pod string }

func (f *serverFlags) flags(flags *pflag.FlagSet, name, nameOf, image string) {
	flags.StringVar(&f.name, "name", name, nameOf)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "of the manifests (default: none)")
	flags.StringVar(&f.image, "image", "", image)
	flags.StringVar(&f.pod, "pod", "", "laid over the pod, as kubernetes.pod of an experiment: YAML, such as '{priorityClassName: low}'")
}

func (f *serverFlags) patch() (experiments.PodPatch, error) {
	p, err := experiments.ParsePod(f.pod)
	if err != nil {
		return "", usagef("--pod: %w", err)
	}
	return p, nil
}

func newExportServerCmd(out streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Print a server that keeps and shows the runs of Jobs when their pods are gone",
		Long: "server prints lockdrill serve for a cluster: a ServiceAccount without any permission, a claim for the runs, a Deployment of one\n" +
			"pod, a Service and a NetworkPolicy. A Secret has the file of tokens under the key tokens; lockdrill serve token writes that file.\n" +
			"Jobs and CronJobs bring their runs there with export job --upload.",
		Example: "  lockdrill export server --image registry.example/lockdrill:1.0.0 --namespace staging",
		Args:    cobra.NoArgs,
	}
	var f serverFlags
	f.flags(cmd.Flags(), deploy.DefaultServer, "of all objects, and the host name of the server", "image with lockdrill (needed)")
	var o deploy.ServerOptions
	cmd.Flags().StringVar(&o.Secret, "secret", "", "Secret with the file of tokens under the key tokens (default: the name)")
	cmd.Flags().StringVar(&o.Claim, "claim", "", "PersistentVolumeClaim that keeps the runs, in its folder runs (default: a new one)")
	cmd.Flags().StringVar(&o.Storage, "storage", deploy.DefaultServerStorage, "size of the claim: the server keeps runs in nine tenths of it")
	cmd.RunE = func(*cobra.Command, []string) error {
		pod, err := f.patch()
		if err != nil {
			return err
		}
		o.Name, o.Namespace, o.Image, o.Pod = f.name, f.namespace, f.image, pod
		return printManifests(out, "lockdrill export server", func() ([][]byte, error) { return deploy.Server(o) })
	}
	return cmd
}

func newExportToxiproxyCmd(out streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "toxiproxy",
		Short:   "Print a Toxiproxy that stands between workers and Redis, for proxy.mode: external",
		Example: "  lockdrill export toxiproxy --image registry.example/toxiproxy:2.12.0",
		Args:    cobra.NoArgs,
	}
	var f serverFlags
	f.flags(cmd.Flags(), deploy.DefaultToxiproxy, "of the Deployment and its Service", "with the server as its entrypoint (needed); 2.12.0 is the version that is tested")
	cmd.RunE = func(*cobra.Command, []string) error {
		pod, err := f.patch()
		if err != nil {
			return err
		}
		return printManifests(out, "lockdrill export toxiproxy", func() ([][]byte, error) {
			return deploy.Toxiproxy(deploy.ToxiproxyOptions{Name: f.name, Namespace: f.namespace, Image: f.image, Pod: pod})
		})
	}
	return cmd
}

func newExportWatchCmd(out streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print a watch of your locks that runs on, as a target of Prometheus",
		Long: "watch prints lockdrill watch --listen for a cluster: a Deployment of one pod, a Service and a ServiceAccount; for Lease objects\n" +
			"also the Role that reads them. The alerts and the dashboard for its metrics: lockdrill export alerts --metrics watch, and\n" +
			"export dashboard --metrics watch.",
		Example: "  lockdrill export watch --image lockdrill:1.0.0 --redis redis://redis:6379 --keys 'sched:*'\n" +
			"  lockdrill export watch --image lockdrill:1.0.0 -n shop --lease billing-leader",
		Args: cobra.NoArgs,
	}
	var f serverFlags
	flags := cmd.Flags()
	f.flags(flags, deploy.DefaultWatch, "of all objects", "image with lockdrill (needed)")
	var o deploy.WatchOptions
	flags.StringVar(&o.Redis.URL, "redis", "", "the Redis of the locks, as the pod reaches it: redis://host:6379/0, or rediss:// (TLS), without a password")
	flags.StringVar(&o.Redis.UsernameEnv, "username-env", "", "key in the Secret that holds the user name of that Redis")
	flags.StringVar(&o.Redis.PasswordEnv, "password-env", "", "key in the Secret that holds its password")
	flags.BoolVar(&o.Redis.Cluster, "cluster", false, "that Redis is a server of a cluster: all of it is meant")
	flags.StringArrayVar(&o.Keys, "keys", nil, "name or pattern of keys, as SCAN has it: 'sched:*'; may be repeated")
	flags.StringArrayVar(&o.Leases, "lease", nil, "name of a Lease object of the namespace (default: all of it); may be repeated")
	flags.StringVar(&o.Holder, "holder", "", "finds the holder's name in a value: '^(?P<holder>[^:]+)'; its matches are shown")
	flags.StringVar(&o.Secret, "secret", "", "Secret with the user name and the password, each under the name of its variable (default: "+deploy.DefaultSecret+")")
	cmd.RunE = func(*cobra.Command, []string) error {
		pod, err := f.patch()
		if err != nil {
			return err
		}
		if _, err := (&exporting{addr: "the pod's", holder: o.Holder}).named("", ""); err != nil {
			return err
		}
		if err := (&draftFlags{Draft: draft.Draft{Redis: o.Redis}}).check(); err != nil {
			return err
		}
		o.Name, o.Namespace, o.Image, o.Pod = f.name, f.namespace, f.image, pod
		return printManifests(out, "lockdrill export watch", func() ([][]byte, error) { return deploy.Watch(o) })
	}
	return cmd
}
