// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fairslice/fairslice/deviceplugin/kubelet"
)

// fakeKubelet speaks the real protocols on real sockets, with the device manager's
// behaviour of kubelet 1.37: default message limits, one admission at a time,
// devices in random order, preferred allocation, re-use of init containers'
// devices, a checkpoint after each container, no deallocation.
type fakeKubelet struct {
	v1beta1.UnimplementedRegistrationServer
	podresources.UnimplementedPodResourcesListerServer
	t             *testing.T
	dir, podsSock string

	admission sync.Mutex // one pod at a time
	mu        sync.Mutex
	servers   []*grpc.Server
	plugins   map[string]*pluginConn // by resource
	paths     map[string]bool        // socket paths connected now
	held      map[heldKey]*heldValue
	gone      map[string]bool // pods that are no longer active
	refuse    int             // registrations to refuse
	// noCheckpoint keeps the file from being written.
	noCheckpoint bool
}

type heldKey struct{ uid, container, resource string }

type heldValue struct {
	namespace, pod string
	init           bool
	ids            []string
	answer         *v1beta1.ContainerAllocateResponse
}

type pluginConn struct {
	client  v1beta1.DevicePluginClient
	options *v1beta1.DevicePluginOptions
	devices map[string]string // health by ID
	updates int
	cancel  context.CancelFunc
}

func newFakeKubelet(t *testing.T) *fakeKubelet {
	// Socket paths have at most 107 bytes; t.TempDir is too long for some names.
	dir, err := os.MkdirTemp("", "fsk")
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKubelet{
		t: t, dir: dir, podsSock: filepath.Join(dir, "pods", "kubelet.sock"),
		held: map[heldKey]*heldValue{}, gone: map[string]bool{},
	}
	if err := os.MkdirAll(filepath.Dir(k.podsSock), 0o750); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.stop()
		_ = os.RemoveAll(dir)
	})
	return k
}

// start deletes all sockets of the directory, as the kubelet does, and listens.
func (k *fakeKubelet) start() {
	k.t.Helper()
	old, _ := filepath.Glob(filepath.Join(k.dir, "*.sock"))
	for _, s := range old {
		_ = os.Remove(s)
	}
	_ = os.Remove(k.podsSock)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plugins, k.paths = map[string]*pluginConn{}, map[string]bool{}
	for _, socket := range []string{k.podsSock, filepath.Join(k.dir, "kubelet.sock")} {
		l, err := net.Listen("unix", socket)
		if err != nil {
			k.t.Fatal(err)
		}
		g := grpc.NewServer()
		v1beta1.RegisterRegistrationServer(g, k)
		podresources.RegisterPodResourcesListerServer(g, k)
		go func() { _ = g.Serve(l) }()
		k.servers = append(k.servers, g)
	}
}

func (k *fakeKubelet) stop() {
	k.mu.Lock()
	servers, plugins := k.servers, k.plugins
	k.servers, k.plugins = nil, nil
	k.mu.Unlock()
	for _, p := range plugins {
		p.cancel()
	}
	for _, s := range servers {
		s.Stop()
	}
}

func (k *fakeKubelet) Register(_ context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse > 0 {
		k.refuse--
		return nil, errors.New("not now")
	}
	socket := filepath.Join(k.dir, r.GetEndpoint())
	if k.paths[socket] {
		return nil, fmt.Errorf("device plugin already connected: %s", socket)
	}
	k.paths[socket] = true
	go k.connect(r.GetResourceName(), socket)
	return &v1beta1.Empty{}, nil
}

// connect uses gRPC's default limits, like the kubelet.
func (k *fakeKubelet) connect(resource, socket string) {
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		k.t.Error(err)
		cancel()
		return
	}
	defer conn.Close()
	client := v1beta1.NewDevicePluginClient(conn)
	options, err := client.GetDevicePluginOptions(ctx, &v1beta1.Empty{})
	if err != nil {
		cancel()
		return
	}
	p := &pluginConn{client: client, options: options, cancel: cancel}
	stream, err := client.ListAndWatch(ctx, &v1beta1.Empty{})
	for err == nil {
		var list *v1beta1.ListAndWatchResponse
		if list, err = stream.Recv(); err != nil {
			break
		}
		k.mu.Lock()
		p.devices = map[string]string{}
		for _, d := range list.GetDevices() {
			p.devices[d.GetID()] = d.GetHealth()
		}
		p.updates++
		if k.plugins != nil {
			k.plugins[resource] = p
		}
		k.writeCheckpoint()
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.paths, socket)
	if k.plugins[resource] == p {
		for id := range p.devices {
			p.devices[id] = v1beta1.Unhealthy
		}
	}
}

// count of healthy devices of a resource, −1 before registration.
func (k *fakeKubelet) healthy(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	if p == nil {
		return -1
	}
	n := 0
	for _, h := range p.devices {
		if h == v1beta1.Healthy {
			n++
		}
	}
	return n
}

// admit allocates for all containers of a pod; an error means that the pod fails
// with UnexpectedAdmissionError and is never tried again.
func (k *fakeKubelet) admit(p *corev1.Pod) error {
	k.admission.Lock()
	defer k.admission.Unlock()
	reuse := map[string]map[string]bool{}
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		isInit := i < len(p.Spec.InitContainers)
		if err := k.admitContainer(p, &c, isInit, reuse); err != nil {
			k.mu.Lock()
			k.gone[string(p.UID)] = true
			k.mu.Unlock()
			return fmt.Errorf("UnexpectedAdmissionError: %w", err)
		}
	}
	return nil
}

func (k *fakeKubelet) admitContainer(p *corev1.Pod, c *corev1.Container, isInit bool, reuse map[string]map[string]bool) error {
	for resource, q := range c.Resources.Limits {
		k.mu.Lock()
		conn := k.plugins[string(resource)]
		k.mu.Unlock()
		if conn == nil {
			continue
		}
		key := heldKey{string(p.UID), c.Name, string(resource)}
		ids, err := k.devicesFor(conn, key, int(q.Value()), reuse[string(resource)])
		if err != nil {
			return err
		}
		if ids == nil {
			continue // it holds them from before
		}
		answer, err := conn.client.Allocate(context.Background(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}}})
		if err != nil {
			return fmt.Errorf("allocate failed due to %w, which is unexpected", err)
		}
		k.mu.Lock()
		k.held[key] = &heldValue{p.Namespace, p.Name, isInit, ids, answer.GetContainerResponses()[0]}
		k.writeCheckpoint()
		k.mu.Unlock()
		if isInit {
			if reuse[string(resource)] == nil {
				reuse[string(resource)] = map[string]bool{}
			}
			for _, id := range ids {
				reuse[string(resource)][id] = true
			}
		}
	}
	return nil
}

// devicesFor chooses as the device manager does.
func (k *fakeKubelet) devicesFor(conn *pluginConn, key heldKey, needed int, reuse map[string]bool) ([]string, error) {
	k.mu.Lock()
	k.collectGarbage()
	used := map[string]bool{}
	for other, v := range k.held {
		for _, id := range v.ids {
			used[id] = used[id] || other.resource == key.resource
		}
	}
	have := k.held[key]
	healthy := map[string]bool{}
	for id, h := range conn.devices {
		healthy[id] = h == v1beta1.Healthy
	}
	k.mu.Unlock()
	if have != nil {
		return nil, nil
	}
	chosen := map[string]bool{}
	for id := range reuse {
		if len(chosen) < needed {
			chosen[id] = true
		}
	}
	if len(chosen) == needed {
		return slices.Collect(maps.Keys(chosen)), nil
	}
	var available []string
	for id, ok := range healthy {
		if ok && !used[id] {
			available = append(available, id)
		}
	}
	if len(available) < needed-len(chosen) {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", key.resource, needed, len(available))
	}
	must := slices.Collect(maps.Keys(chosen))
	preferred, err := conn.client.GetPreferredAllocation(context.Background(), &v1beta1.PreferredAllocationRequest{
		ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: slices.Concat(available, must), MustIncludeDeviceIDs: must, AllocationSize: int32(needed),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("preferred allocation: %w", err)
	}
	for _, id := range slices.Concat(preferred.GetContainerResponses()[0].GetDeviceIDs(), available) {
		if len(chosen) < needed && slices.Contains(available, id) {
			chosen[id] = true
		}
	}
	return slices.Collect(maps.Keys(chosen)), nil
}

// collectGarbage frees what pods held that are no longer active: only here, at the
// next admission.
func (k *fakeKubelet) collectGarbage() {
	for key := range k.held {
		if k.gone[key.uid] {
			delete(k.held, key)
		}
	}
}

// end tells the kubelet that the pod's containers have ended.
func (k *fakeKubelet) end(p *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[string(p.UID)] = true
}

// startContainer calls PreStartContainer and returns the container's environment.
func (k *fakeKubelet) startContainer(p *corev1.Pod, container string) (map[string]string, error) {
	env := map[string]string{}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, v := range k.held {
		if key.uid != string(p.UID) || key.container != container {
			continue
		}
		conn := k.plugins[key.resource]
		if conn == nil {
			return nil, fmt.Errorf("no plugin for %s", key.resource)
		}
		k.mu.Unlock() // the plugin may ask PodResources meanwhile
		_, err := conn.client.PreStartContainer(context.Background(), &v1beta1.PreStartContainerRequest{DevicesIds: v.ids})
		k.mu.Lock()
		if err != nil {
			return nil, err
		}
		maps.Copy(env, v.answer.GetEnvs())
	}
	return env, nil
}

// writeCheckpoint must be called with the lock held.
func (k *fakeKubelet) writeCheckpoint() {
	if k.noCheckpoint {
		return
	}
	type entry struct {
		PodUID, ContainerName, ResourceName string
		DeviceIDs                           map[string][]string
	}
	var c struct {
		Data struct {
			PodDeviceEntries  []entry
			RegisteredDevices map[string][]string
		}
		Checksum uint64
	}
	for key, v := range k.held {
		c.Data.PodDeviceEntries = append(c.Data.PodDeviceEntries, entry{key.uid, key.container, key.resource, map[string][]string{"-1": v.ids}})
	}
	raw, err := json.Marshal(c)
	if err != nil {
		k.t.Error(err)
		return
	}
	tmp := filepath.Join(k.dir, ".checkpoint")
	if err := os.WriteFile(tmp, raw, 0o600); err == nil {
		err = os.Rename(tmp, filepath.Join(k.dir, kubelet.CheckpointFile))
		if err != nil {
			k.t.Error(err)
		}
	}
}

// List leaves plain init containers out.
func (k *fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.collectGarbage()
	out := &podresources.ListPodResourcesResponse{}
	for key, v := range k.held {
		if !v.init {
			out.PodResources = append(out.PodResources, &podresources.PodResources{Name: v.pod, Namespace: v.namespace, Containers: []*podresources.ContainerResources{{
				Name: key.container, Devices: []*podresources.ContainerDevices{{ResourceName: key.resource, DeviceIds: v.ids}},
			}}})
		}
	}
	return out, nil
}

func (k *fakeKubelet) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &podresources.AllocatableResourcesResponse{}
	for resource, p := range k.plugins {
		d := &podresources.ContainerDevices{ResourceName: resource}
		for id, h := range p.devices {
			if h == v1beta1.Healthy {
				d.DeviceIds = append(d.DeviceIds, id)
			}
		}
		out.Devices = append(out.Devices, d)
	}
	return out, nil
}

// ids of a container, by PodResources' view of the world: what it really holds.
func (k *fakeKubelet) ids(p *corev1.Pod, container string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, v := range k.held {
		if key.uid == string(p.UID) && key.container == container {
			return v.ids
		}
	}
	return nil
}

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
