package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A status is a sign of an end only where the node has seen the end of that very container.
func TestStatesOfContainers(t *testing.T) {
	over := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, ContainerID: id}}
	}
	for _, c := range []struct {
		name   string
		status corev1.ContainerStatus
		want   Container
	}{
		{"none yet", corev1.ContainerStatus{}, Container{}},
		{"running", corev1.ContainerStatus{ContainerID: "a", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, Container{ID: "a", Running: true}},
		{"terminated", corev1.ContainerStatus{ContainerID: "a", State: over("a")}, Container{ID: "a", Terminated: true, ExitCode: 137}},
		{"not located", corev1.ContainerStatus{ContainerID: "a", State: over("")}, Container{ID: "a"}}, // ContainerStatusUnknown
		{"restarted", corev1.ContainerStatus{ContainerID: "b", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: over("a")},
			Container{ID: "b", Running: true, Restarts: 1, LastID: "a", LastExit: 137}},
		{"waiting to restart", corev1.ContainerStatus{ContainerID: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: over("a")},
			Container{ID: "a", LastID: "a", LastExit: 137}},
	} {
		c.status.Name, c.want.Name = "c", "c"
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", ContainerID: "x"}, c.status}}}
		if got := podOf(pod, "c").Container; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
