// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// APIBinder writes bindings with a Kubernetes client.
type APIBinder struct{ Pods corev1client.PodsGetter }

// Bind creates the Binding. The API server merges its annotations into the pod
// and refuses it when the UID differs.
func (b APIBinder) Bind(ctx context.Context, pod PodKey, node string, annotations map[string]string) error {
	return b.Pods.Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID), Annotations: annotations,
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// BoundTo reads the pod from the API server, not from a cache.
func (b APIBinder) BoundTo(ctx context.Context, pod PodKey) (string, error) {
	p, err := b.Pods.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", ErrPodGone
	case err != nil:
		return "", fmt.Errorf("read it back: %w", err)
	case string(p.UID) != pod.UID:
		return "", fmt.Errorf("%w: its name is now used by UID %s", ErrPodGone, p.UID)
	}
	return p.Spec.NodeName, nil
}

// temporary says whether the same write may succeed a moment later.
func temporary(err error) bool {
	var network net.Error
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || errors.As(err, &network)
}

// unanswered says whether nobody knows what became of a write: it may have reached
// the API server, or its storage, and land after the pod was read back. Whatever the
// storage says of a binding, a time-out too, the API server reports as a conflict.
func unanswered(err error) bool {
	var network net.Error
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsConflict(err) ||
		errors.As(err, &network) && !errors.Is(err, syscall.ECONNREFUSED)
}
