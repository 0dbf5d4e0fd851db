// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// PodOption changes a pod under construction.
type PodOption func(*corev1.Pod)

// Pod returns a pod of namespace default with one container that asks for 100m
// of CPU.
func Pod(name string, options ...PodOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox", ImagePullPolicy: corev1.PullNever,
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
					Limits:   corev1.ResourceList{},
				},
			}},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Queue puts the pod into a queue.
func Queue(name string) PodOption {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelQueue] = name }
}

// Gang makes the pod a member of a PodGroup.
func Gang(name string) PodOption {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = name }
}

// Whole asks for n whole GPUs.
func Whole(n int) PodOption { return ask(v1alpha1.ResourceWholeGPU, n) }

// Slice asks for n hundredths of a GPU.
func Slice(n int) PodOption { return ask(v1alpha1.ResourceGPUSlice, n) }

// MemoryGiB asks for n GiB of a GPU's memory.
func MemoryGiB(n int) PodOption { return ask(v1alpha1.ResourceGPUMemory, n) }

func ask(name string, n int) PodOption {
	return func(p *corev1.Pod) {
		r := &p.Spec.Containers[0].Resources
		r.Limits[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		r.Requests[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
}

// OverGPUs spreads the request over n GPUs.
func OverGPUs(n int) PodOption {
	return func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationGPUCount] = fmt.Sprint(n) }
}

// OnNode selects nodes by a label.
func OnNode(label, value string) PodOption {
	return func(p *corev1.Pod) {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[label] = value
	}
}

// Annotate sets an annotation.
func Annotate(key, value string) PodOption {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// CreateQueue creates a queue; spec has the fields of QueueSpec.
func (s *Stack) CreateQueue(ctx context.Context, name string, spec map[string]any) error {
	_, err := s.Dynamic.Resource(v1alpha1.QueueResource).Create(ctx, object("Queue", "", name, spec), metav1.CreateOptions{})
	return err
}

// CreatePodGroup creates a PodGroup in namespace default.
func (s *Stack) CreatePodGroup(ctx context.Context, name string, spec map[string]any) error {
	_, err := s.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).
		Create(ctx, object("PodGroup", metav1.NamespaceDefault, name, spec), metav1.CreateOptions{})
	return err
}

// CreatePod creates the pod and returns it as the API server made it.
func (s *Stack) CreatePod(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	return s.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
}

func object(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(v1alpha1.Group + "/v1alpha1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}
