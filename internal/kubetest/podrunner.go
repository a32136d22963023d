package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podRunner is one pod on the node, from its binding until both its object and its process are gone.
type podRunner struct {
	node    *node
	changed chan struct{} // one slot: look again
	ip      string        // the pod's own, of loopback: a process that binds it (status.podIP) is told from those of other pods

	mu   sync.Mutex
	pod  *corev1.Pod // as last seen
	gone bool        // its object
	life *Life       // the newest; nil = none yet
	last *Life       // the one before
}

func (s *podRunner) notify(pod *corev1.Pod, gone bool) {
	s.mu.Lock()
	s.pod, s.gone = pod, s.gone || gone
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *podRunner) look() (pod *corev1.Pod, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pod, s.gone
}

func (s *podRunner) lives() (life, last *Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life, s.last
}

// over reports whether no container of this pod will run again.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// longEnough is a life after which the next one follows at once.
const longEnough = time.Second

// pause is before the next life after so many short ones: a program that cannot start must not occupy the machine.
func pause(short int) time.Duration {
	if short < 2 {
		return 0
	}
	return min(5*time.Second, 50*time.Millisecond<<min(short, 10))
}

// keep gives the pod one life after another until it is to end.
func (s *podRunner) keep(ctx context.Context) {
	for n, short := int32(0), 0; ; n++ {
		pod, gone := s.look()
		if gone || pod.DeletionTimestamp != nil {
			break
		}
		pod = pod.DeepCopy()
		pod.Status.PodIP = s.ip
		l := s.node.live(ctx, pod, n)
		s.mu.Lock()
		s.life, s.last = l, s.life
		s.mu.Unlock()
		s.report(ctx)
		s.attend(ctx, l)
		again := pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && l.exit != 0
		pod, gone = s.look()
		if gone || ctx.Err() != nil {
			return
		}
		s.report(ctx)
		if !again || pod.DeletionTimestamp != nil {
			break
		}
		if short++; l.ended.Sub(l.started) > longEnough {
			short = 0
		}
		s.until(ctx, time.After(pause(short)))
	}
	s.until(ctx, nil)
	s.remove(ctx)
}

// until waits for the pod's deletion, or for early where it is not nil.
func (s *podRunner) until(ctx context.Context, early <-chan time.Time) {
	for {
		if pod, gone := s.look(); gone || pod.DeletionTimestamp != nil {
			return
		}
		select {
		case <-s.changed:
		case <-early:
			return
		case <-ctx.Done():
			return
		}
	}
}

// attend returns when the life is over. It ends it as a kubelet does: SIGTERM when the pod is to end, SIGKILL when its grace is over;
// where the object is gone at once there is still a grace.
func (s *podRunner) attend(ctx context.Context, l *Life) {
	var kill <-chan time.Time
	var held <-chan struct{}
	var forced bool
	grace := int64(-1) // that it was told of; it may be shortened
	for {
		var more <-chan struct{}
		if !l.ready {
			if l.ready, more = l.log.says(s.node.ReadyAt); l.ready {
				s.report(ctx)
			}
		}
		switch pod, gone := s.look(); {
		case gone && !forced:
			grace, forced = 0, true
			l.terminate()
			kill = time.After(forceGrace)
		case !gone && pod.DeletionTimestamp != nil && (grace < 0 || *pod.DeletionGracePeriodSeconds < grace):
			grace = *pod.DeletionGracePeriodSeconds
			l.terminate()
			kill = time.After(max(forceGrace, time.Duration(grace)*time.Second))
		}
		select {
		case <-l.over:
			return
		case <-s.changed:
		case <-more:
		case <-kill:
			if held = s.node.holding(); held == nil {
				l.kill()
			}
		case <-held:
			held = nil
			l.kill()
		case <-ctx.Done():
			l.kill()
			<-l.over
			return
		}
	}
}

// remove ends the object of a pod whose process is over.
func (s *podRunner) remove(ctx context.Context) {
	pod, gone := s.look()
	if gone || ctx.Err() != nil {
		return
	}
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	none := int64(0)
	err := s.node.client.CoreV1().Pods(pod.Namespace).Delete(call, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	s.complain(ctx, "remove", err)
}

// report writes the pod's status as it is now.
func (s *podRunner) report(ctx context.Context) {
	life, last := s.lives()
	pod, _ := s.look()
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status(pod, life, last)})
	if err == nil {
		_, err = s.node.client.CoreV1().Pods(pod.Namespace).Patch(call, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	s.complain(ctx, "report", err)
}

// complain fails the test on an error that is none of the ways in which a pod may be gone by now.
func (s *podRunner) complain(ctx context.Context, what string, err error) {
	another := apierrors.IsConflict(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid")
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !another {
		pod, _ := s.look()
		s.node.t.Errorf("fake node: %s pod %s: %v", what, pod.Name, err)
	}
}

// status is what a kubelet would say of a pod in that life.
func status(pod *corev1.Pod, life, last *Life) corev1.PodStatus {
	ended := life.isOver()
	st := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "127.0.0.1", PodIP: life.Pod.Status.PodIP, PodIPs: []corev1.PodIP{{IP: life.Pod.Status.PodIP}}}
	start := metav1.NewTime(pod.CreationTimestamp.Time)
	st.StartTime = &start
	ready := corev1.ConditionTrue
	if ended || !life.ready {
		ready = corev1.ConditionFalse
	}
	if ended {
		again := pod.Spec.RestartPolicy != corev1.RestartPolicyNever && !(pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && life.exit == 0)
		switch {
		case again && pod.DeletionTimestamp == nil:
		case life.exit == 0:
			st.Phase = corev1.PodSucceeded
		default:
			st.Phase = corev1.PodFailed
		}
	}
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized} {
		st.Conditions = append(st.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: start})
	}
	for _, c := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		st.Conditions = append(st.Conditions, corev1.PodCondition{Type: c, Status: ready, LastTransitionTime: metav1.Now()})
	}
	for i, c := range pod.Spec.Containers {
		k := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: life.ID, Ready: ready == corev1.ConditionTrue, Started: new(!ended), RestartCount: life.number, State: life.state()}
		if i > 0 {
			k.ContainerID = fmt.Sprintf("%s-%d", life.ID, i)
		}
		if last != nil {
			k.LastTerminationState = last.state()
		}
		st.ContainerStatuses = append(st.ContainerStatuses, k)
	}
	return st
}
