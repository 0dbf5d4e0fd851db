// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// maxAnswerBytes for a full node; gRPC's default is 4 MiB.
const maxAnswerBytes = 16 << 20

// PodResources is a client of the kubelet's API of that name.
type PodResources struct {
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
}

// DialPodResources prepares a client for the socket. It connects at the first
// call, and again after the kubelet has restarted.
func DialPodResources(socket string) (*PodResources, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)))
	if err != nil {
		return nil, fmt.Errorf("preparing the PodResources client for %s: %w", socket, err)
	}
	return &PodResources{conn: conn, client: podresources.NewPodResourcesListerClient(conn)}, nil
}

// Close ends the connection.
func (p *PodResources) Close() error { return p.conn.Close() }

// List asks who holds what.
func (p *PodResources) List(ctx context.Context) (State, error) {
	answer, err := p.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return State{}, fmt.Errorf("asking the kubelet's PodResources: %w", err)
	}
	var s State
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for resource, ids := range merge(c.GetDevices()) {
				s.Held = append(s.Held, Held{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName(), Resource: resource, IDs: ids})
			}
		}
	}
	slices.SortFunc(s.Held, func(a, b Held) int {
		return slices.Compare([]string{a.Namespace, a.Pod, a.Container, a.Resource}, []string{b.Namespace, b.Pod, b.Container, b.Resource})
	})
	return s, nil
}

// Devices asks which devices the kubelet counts as healthy.
func (p *PodResources) Devices(ctx context.Context) (map[string][]string, error) {
	answer, err := p.client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet's PodResources for its devices: %w", err)
	}
	return merge(answer.GetDevices()), nil
}

// merge joins the entries of one resource: the kubelet lists one for each NUMA
// node.
func merge(devices []*podresources.ContainerDevices) map[string][]string {
	out := map[string][]string{}
	for _, d := range devices {
		out[d.GetResourceName()] = append(out[d.GetResourceName()], d.GetDeviceIds()...)
	}
	for resource, ids := range out {
		out[resource] = distinct(ids)
	}
	return out
}
