// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// Source reads the accounts.
type Source struct {
	Client kubernetes.Interface
	// Ledger reads the control plane's dump.
	Ledger func(ctx context.Context, into any) error
	// PodResources has the kubelets' sockets by node.
	PodResources map[string]string
}

// Settled compares until the accounts agree or the limit is over, and returns
// what still differs.
func (s Source) Settled(ctx context.Context, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		a, err := s.gather(ctx)
		found := Compare(a)
		if err == nil && len(found) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			if err != nil {
				return err
			}
			return fmt.Errorf("the accounts differ in %d places:\n  %s", len(found), strings.Join(found, "\n  "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s Source) gather(ctx context.Context) (Accounts, error) {
	var a Accounts
	pods, err := s.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return a, err
	}
	nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return a, err
	}
	a.Pods, a.Nodes, a.Kubelets = pods.Items, nodes.Items, map[string][]Devices{}
	if err := s.Ledger(ctx, &a.Ledger); err != nil {
		return a, fmt.Errorf("read the ledger: %w", err)
	}
	for node, socket := range s.PodResources {
		if a.Kubelets[node], err = devices(ctx, socket); err != nil {
			return a, fmt.Errorf("read the kubelet of %s: %w", node, err)
		}
	}
	return a, nil
}

// devices lists what a kubelet has handed out of our resources. One container's
// devices may come in several entries, one for each NUMA node.
func devices(ctx context.Context, socket string) ([]Devices, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var out []Devices
	at := map[string]int{}
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				if !ours(d.ResourceName) {
					continue
				}
				key := strings.Join([]string{p.Namespace, p.Name, c.Name, d.ResourceName}, "/")
				i, seen := at[key]
				if !seen {
					i = len(out)
					at[key] = i
					out = append(out, Devices{Namespace: p.Namespace, Pod: p.Name, Container: c.Name, Resource: d.ResourceName})
				}
				out[i].IDs = append(out[i].IDs, d.DeviceIds...)
			}
		}
	}
	return out, nil
}

// Allocatable counts the devices of a resource that a kubelet would hand out.
func Allocatable(ctx context.Context, socket, resource string) (n int, err error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	all, err := podresources.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return 0, err
	}
	for _, d := range all.Devices {
		if d.ResourceName == resource {
			n += len(d.DeviceIds)
		}
	}
	return n, nil
}

func ours(resource string) bool {
	switch resource {
	case v1alpha1.ResourceWholeGPU, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory:
		return true
	}
	return strings.HasPrefix(resource, "nvidia.com/mig-")
}
