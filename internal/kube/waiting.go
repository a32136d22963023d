package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostOfMessage bounds what a cluster says of a state, in bytes.
const mostOfMessage = 200

// passing are the words for a container that is about to start: the first one says more, where there is one.
var passing = []string{"ContainerCreating", "PodInitializing"}

// waitsFor says what keeps a pod from being ready, as its status has it; "" = nothing that it tells of. Of several containers it is the
// first in the order of their start that does not merely start.
func waitsFor(o *corev1.Pod) string {
	for _, k := range o.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse {
			return reasonWith(k.Reason, k.Message)
		}
	}
	starting := ""
	for _, s := range slices.Concat(o.Status.InitContainerStatuses, o.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil || w.Reason == "" {
			continue
		}
		if slices.Contains(passing, w.Reason) {
			if starting == "" {
				starting = s.Name + ": " + w.Reason
			}
			continue
		}
		return s.Name + ": " + reasonWith(w.Reason, detail(&s, w))
	}
	return starting
}

// workload is all that is read of a Deployment or StatefulSet: its Go type would link those of its whole group.
type workload struct {
	Spec struct {
		Replicas int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Replicas   int32 `json:"replicas"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// Unmade says why no pods are made of a Deployment, as its status has it: a quota, an admission policy; "" = nothing that it tells of. A
// StatefulSet keeps why to its Events: it says only that pods are missing.
func (c *Cluster) Unmade(ctx context.Context, kind, name string) (string, error) {
	api, err := c.api("apps/v1", kind)
	if err != nil {
		return "", err
	}
	d, err := as[workload](api.Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return "", fmt.Errorf("read %s %s: %w", strings.ToLower(kind), name, err)
	}
	if kind == "StatefulSet" && d.Status.Replicas < d.Spec.Replicas {
		return fmt.Sprintf("there are %d of %d; its Events say why", d.Status.Replicas, d.Spec.Replicas), nil
	}
	for _, k := range d.Status.Conditions {
		if k.Type == "ReplicaFailure" && k.Status == string(corev1.ConditionTrue) {
			return reasonWith(k.Reason, k.Message), nil
		}
	}
	return "", nil
}

// detail leaves out of a message what changes with every try.
func detail(s *corev1.ContainerStatus, w *corev1.ContainerStateWaiting) string {
	switch last := s.LastTerminationState.Terminated; {
	case strings.Contains(w.Reason, "Image"):
		return "image " + s.Image
	case w.Reason == "CrashLoopBackOff" && last != nil:
		return fmt.Sprintf("last exit status %d", last.ExitCode)
	case w.Reason == "CrashLoopBackOff":
		return ""
	}
	return w.Message
}

func reasonWith(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > mostOfMessage {
		message = strings.ToValidUTF8(message[:mostOfMessage], "") + " .."
	}
	if message == "" {
		return reason
	}
	return reason + " (" + message + ")"
}
