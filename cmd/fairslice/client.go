// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// reader reads a cluster for the commands that people use.
type reader struct {
	core      kubernetes.Interface
	objects   dynamic.Interface
	namespace string
}

// readerFlags are --kubeconfig and --context as in kubectl, and --namespace where it
// is about one pod.
type readerFlags struct{ kubeconfig, context, namespace string }

func (f *readerFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig file; default $KUBECONFIG, then ~/.kube/config")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig to use")
}

func (f *readerFlags) reader() (*reader, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	r := &reader{namespace: f.namespace}
	if r.namespace == "" {
		if r.namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	if r.core, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	r.objects, err = dynamic.NewForConfig(config)
	return r, err
}

func (r *reader) queues(ctx context.Context) ([]v1alpha1.Queue, error) {
	return list[v1alpha1.Queue](ctx, r.objects.Resource(v1alpha1.QueueResource), v1alpha1.QueueResource)
}

func list[T any](ctx context.Context, from dynamic.ResourceInterface, of schema.GroupVersionResource) ([]T, error) {
	found, err := from.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", of.Resource, err)
	}
	out := make([]T, len(found.Items))
	for i, item := range found.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &out[i]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", of.Resource, item.GetName(), err)
		}
	}
	return out, nil
}
