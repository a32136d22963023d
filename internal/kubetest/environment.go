package kubetest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment resolves the container's variables as a kubelet does; of the downward API it knows the fields of metadata, the node and the pod's IP.
func (n *node) environment(ctx context.Context, pod *corev1.Pod, c corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		var data map[string]string
		var err error
		switch {
		case from.ConfigMapRef != nil:
			data, err = n.configMap(ctx, pod.Namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			data, err = n.secret(ctx, pod.Namespace, from.SecretRef.Name, from.SecretRef.Optional)
		}
		if err != nil {
			return env, err
		}
		for name, value := range data {
			env[from.Prefix+name] = value
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			env[v.Name] = expand(v.Value, env)
			continue
		}
		value, ok, err := n.value(ctx, pod, v.ValueFrom)
		if err != nil {
			return env, fmt.Errorf("%s: %w", v.Name, err)
		}
		if ok {
			env[v.Name] = value
		}
	}
	return env, nil
}

// value of a variable that stands elsewhere; ok is false where it is optional and not there.
func (n *node) value(ctx context.Context, pod *corev1.Pod, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	var data map[string]string
	switch {
	case from.FieldRef != nil:
		value, err = field(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err = n.configMap(ctx, pod.Namespace, r.Name, r.Optional)
		value, ok = data[r.Key]
		ok = ok || !isTrue(r.Optional)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err = n.secret(ctx, pod.Namespace, r.Name, r.Optional)
		value, ok = data[r.Key]
		ok = ok || !isTrue(r.Optional)
	default:
		return "", false, fmt.Errorf("the fake node does not know this source: %v", from)
	}
	return value, ok, err
}

func (n *node) configMap(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	o, err := n.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unless(err, optional)
	}
	return o.Data, nil
}

// unless is the error of what could not be read, unless it is not there and need not be.
func unless(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	return err
}

func isTrue(b *bool) bool { return b != nil && *b }

func (n *node) secret(ctx context.Context, namespace, name string, optional *bool) (map[string]string, error) {
	o, err := n.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unless(err, optional)
	}
	data := map[string]string{}
	for key, value := range o.Data {
		data[key] = string(value)
	}
	return data, nil
}

// field of the downward API.
func field(pod *corev1.Pod, path string) (string, error) {
	name, key, keyed := strings.Cut(strings.TrimSuffix(path, "']"), "['")
	switch {
	case keyed && name == "metadata.labels":
		return pod.Labels[key], nil
	case keyed && name == "metadata.annotations":
		return pod.Annotations[key], nil
	case path == "metadata.name":
		return pod.Name, nil
	case path == "metadata.namespace":
		return pod.Namespace, nil
	case path == "metadata.uid":
		return string(pod.UID), nil
	case path == "spec.nodeName":
		return pod.Spec.NodeName, nil
	case path == "status.podIP":
		return pod.Status.PodIP, nil
	case path == "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	}
	return "", fmt.Errorf("the fake node does not know the field %s", path)
}

// expand replaces $(NAME) by its value; $$ is a dollar, and a name that is not known stays as it is.
func expand(s string, env map[string]string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := env[name]
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			b.WriteString(value)
			s = rest
		default:
			b.WriteByte('$')
			s = after
		}
	}
}
