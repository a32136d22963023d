package main

import (
	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/experiments/drill"
)

// consentFlags adds what an operator says on the command line about targets that are not the run's own.
func consentFlags(flags *pflag.FlagSet, c *drill.Consent) {
	whereFlags(flags, &c.Cluster)
	flags.StringVarP(&c.Cluster.Namespace, "namespace", "n", "", "of the pods (default: the file's, else that of the context)")
	flags.StringVar(&c.Environment, "environment", "", "what a target that does not say so itself is, as the file's environment")
	flags.StringArrayVar(&c.Confirm, "confirm", nil, "name of the experiment: needed where the target is not started by the run; may be repeated")
}

// whereFlags adds the flags that say how the cluster is reached.
func whereFlags(flags *pflag.FlagSet, c *drill.Cluster) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "file that says how clusters are reached (default $KUBECONFIG, else ~/.kube/config, else the pod's service account)")
	flags.StringVar(&c.Context, "context", "", "of the kubeconfig (default: the file's, else the current one)")
}
