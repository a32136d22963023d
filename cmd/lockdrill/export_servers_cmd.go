package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
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
