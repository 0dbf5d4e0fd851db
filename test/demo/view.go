// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// view is what the API server says of the pods at one moment.
type view map[string]corev1.Pod

func look(ctx context.Context, s *stack.Stack) (view, error) {
	list, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	v := view{}
	for _, p := range list.Items {
		v[p.Name] = p
	}
	return v, nil
}

// state tells what became of a pod and, when it waits, why.
func (v view) state(name string) (state outcome, where, why string) {
	p, exists := v[name]
	switch {
	case !exists:
		return "", "", ""
	case p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded:
		return runs, p.Spec.NodeName, ""
	case p.Spec.NodeName != "":
		return "", p.Spec.NodeName, "starting"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionWaiting && c.Status == corev1.ConditionTrue {
			return waits, "", c.Message
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return waits, "", c.Message
		}
	}
	return "", "", "created"
}
