package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Note is an Event for people who look at an object of the namespace, or at the namespace.
type Note struct {
	Namespace string // "" = the cluster's own
	Pod, UID  string // "" = about the namespace
	Reason    string // one word in CamelCase
	Text      string // at most 1,024 bytes
}

// WriteNote makes the Event. The cluster forgets it after an hour, or when it is configured to.
func (c *Cluster) WriteNote(ctx context.Context, n Note) error {
	if c, n.Pod = c.at(n.Pod); n.Namespace != "" {
		c = c.In(n.Namespace)
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: c.Namespace, Name: n.Pod, UID: types.UID(n.UID)}
	if n.Pod == "" {
		about.Kind, about.Name = "Namespace", c.Namespace
	}
	now := metav1.Now()
	api := c.objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(c.Namespace)
	_, err := api.Create(ctx, generic(&corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "lockdrill-", Namespace: c.Namespace},
		InvolvedObject: about, Reason: n.Reason, Message: n.Text, Type: corev1.EventTypeWarning, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: FieldManager}, ReportingController: "lockdrill.dev/runner",
	}), metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("write an event about %s %s: %w", about.Kind, about.Name, err)
	}
	return nil
}
