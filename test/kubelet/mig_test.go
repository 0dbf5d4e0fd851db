// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/check"
	"github.com/fairslice/fairslice/test/stack"
)

// migMachine has a card cut in five, and one that is not in MIG mode.
const migMachine = `name: a card in MIG mode beside one that is not
faultsFile: %s
gpus:
- base: a100-sxm4-40gb
  mig: {3g.20gb: 1, 1g.5gb: 2}
- base: a100-sxm4-40gb
`

const (
	small = "nvidia.com/mig-1g.5gb"
	large = "nvidia.com/mig-3g.20gb"
)

// migNode adds a real node with GPUs of the machine for the time of the test, and
// returns it with the file that loses GPUs.
func (f fixture) migNode(name string) (*stack.RealNode, string) {
	f.t.Helper()
	dir := f.t.TempDir()
	profile, faults := filepath.Join(dir, "machine.yaml"), filepath.Join(dir, "faults.yaml")
	f.must(os.WriteFile(profile, fmt.Appendf(nil, migMachine, faults), 0o600))
	f.t.Cleanup(func() { f.removeNode(name) })
	n, err := f.StartRealNode(f.ctx, stack.RealNodeOptions{
		Kubelet: bed.KubeletOptions{Name: name}, Profile: profile,
		PluginFlags: []string{"--mig-strategy=mixed", "--probe-every=200ms", "--probation=1s", "--isolation=none", "--watch=off", "--metrics-addr="},
	})
	f.must(err)
	return n, faults
}

// instances asks for instances of a profile.
func instances(profile string, n int64) stack.PodOption {
	return func(p *corev1.Pod) {
		q := *resource.NewQuantity(n, resource.DecimalSI)
		c := &p.Spec.Containers[0]
		if c.Resources.Limits == nil {
			c.Resources.Limits, c.Resources.Requests = corev1.ResourceList{}, corev1.ResourceList{}
		}
		c.Resources.Limits[corev1.ResourceName(profile)], c.Resources.Requests[corev1.ResourceName(profile)] = q, q
	}
}

// TestContainerGetsItsMIGInstance: kubelet, annotation and environment name the same
// instance of the profile that was asked for; nobody shares it; the queue is charged
// its part of a card; a pod that demands the level mig runs there, though the node
// has a GPU beside that nothing holds.
func TestContainerGetsItsMIGInstance(t *testing.T) {
	f := use(t)
	n, _ := f.migNode("mig")
	here := stack.OnNode(corev1.LabelHostname, n.Name)
	f.create(
		pod("a", sleeper, instances(small, 1), here),
		pod("b", sleeper, instances(small, 1), here, stack.Annotate(v1alpha1.AnnotationMinIsolation, v1alpha1.IsolationMIG)),
		pod("c", sleeper, instances(large, 1), here),
		pod("d", sleeper, stack.Slice(40), here),
	)
	f.eventuallyIs(90*time.Second, corev1.PodRunning, "a", "b", "c", "d")
	source := check.Source{Client: f.Client, Ledger: f.LedgerDump, PodResources: map[string]string{n.Name: n.PodResourcesSocket(), node.Name: node.PodResourcesSocket()}}
	f.must(source.Settled(f.ctx, 30*time.Second))
	object, err := f.Client.CoreV1().Nodes().Get(f.ctx, n.Name, metav1.GetOptions{})
	f.must(err)
	inventory, err := v1alpha1.DecodeInventory(object.Annotations[v1alpha1.AnnotationGPUs])
	f.must(err)
	ids := f.given(n)
	seen := map[string]bool{}
	for name, want := range map[string]string{"a": "1g.5gb", "b": "1g.5gb", "c": "3g.20gb", "d": ""} {
		f.told(name, "main")
		uuid := f.assignment(name, "main").GPUs[0].UUID
		at := slices.IndexFunc(inventory.GPUs, func(g v1alpha1.InventoryGPU) bool { return g.UUID == uuid })
		if at < 0 || inventory.GPUs[at].MIG != want || seen[uuid] {
			t.Errorf("%s holds %s, want an instance of %q of its own: %+v", name, uuid, want, inventory.GPUs)
			continue
		}
		seen[uuid] = true
		if got := ids[name]; len(got) == 0 || !strings.HasPrefix(got[0], inventory.GPUs[at].ID) {
			t.Errorf("the kubelet gave %s %v, its annotation names %s (%s)", name, got, uuid, inventory.GPUs[at].ID)
		}
	}
	// 142 + 142 + 428 + 400 thousandths of a GPU.
	f.eventually(30*time.Second, func() string {
		q, err := f.Dynamic.Resource(v1alpha1.QueueResource).Get(f.ctx, "team", metav1.GetOptions{})
		f.must(err)
		status, _ := q.Object["status"].(map[string]any)
		allocated, _ := status["allocated"].(map[string]any)
		if got := fmt.Sprint(allocated["gpu"]); got != "1112m" {
			return "the queue holds " + got + " GPUs, want 1112m"
		}
		return ""
	})
	f.create(pod("e", sleeper, instances(small, 1), here))
	f.eventually(30*time.Second, func() string {
		if p := f.get("e"); p.Spec.NodeName != "" || waiting(p) == "" {
			return fmt.Sprintf("a third pod is on node %q and waits for %q", p.Spec.NodeName, waiting(p))
		}
		return ""
	})
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "e")
	f.told("e", "main")
}

// given are the devices that the kubelet recorded, by pod.
func (f fixture) given(n *stack.RealNode) map[string][]string {
	f.t.Helper()
	conn, err := grpc.NewClient("unix://"+n.PodResourcesSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	f.must(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	f.must(err)
	out := map[string][]string{}
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				out[p.Name] = append(out[p.Name], d.DeviceIds...)
			}
		}
	}
	return out
}

// TestHealthInPodStatus: a GPU that falls off the bus is told in the status of the
// containers that hold parts of it or its MIG instances, by the kubelet, which has the
// gate ResourceHealthStatus on by default; the others stay healthy; it comes back.
func TestHealthInPodStatus(t *testing.T) {
	f := use(t)
	n, faults := f.migNode("sick")
	here := stack.OnNode(corev1.LabelHostname, n.Name)
	f.create(
		pod("slice", sleeper, stack.Slice(2), here),
		pod("instance", sleeper, instances(small, 1), here),
	)
	f.eventuallyIs(90*time.Second, corev1.PodRunning, "slice", "instance")
	f.healthIs("slice", v1alpha1.ResourceGPUSlice, 2, corev1.ResourceHealthStatusHealthy)
	f.healthIs("instance", small, 1, corev1.ResourceHealthStatusHealthy)
	f.must(os.WriteFile(faults, []byte("[0]"), 0o600)) // the card in MIG mode
	f.healthIs("instance", small, 1, corev1.ResourceHealthStatusUnhealthy)
	f.healthIs("slice", v1alpha1.ResourceGPUSlice, 2, corev1.ResourceHealthStatusHealthy)
	f.must(os.WriteFile(faults, []byte("[1]"), 0o600))
	f.healthIs("slice", v1alpha1.ResourceGPUSlice, 2, corev1.ResourceHealthStatusUnhealthy)
	f.healthIs("instance", small, 1, corev1.ResourceHealthStatusHealthy)
	f.must(os.WriteFile(faults, []byte("[]"), 0o600))
	f.healthIs("slice", v1alpha1.ResourceGPUSlice, 2, corev1.ResourceHealthStatusHealthy)
	for _, name := range []string{"slice", "instance"} {
		if p := f.get(name); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%s did not run on: %s, %d restarts", name, p.Status.Phase, p.Status.ContainerStatuses[0].RestartCount)
		}
	}
}

// healthIs waits until the container's status tells so many devices of the resource,
// all of that health.
func (f fixture) healthIs(name, resource string, devices int, health corev1.ResourceHealthStatus) {
	f.t.Helper()
	f.eventually(60*time.Second, func() string {
		var told []corev1.ResourceStatus
		for _, c := range f.get(name).Status.ContainerStatuses {
			told = append(told, c.AllocatedResourcesStatus...)
		}
		for _, r := range told {
			if string(r.Name) != resource || len(r.Resources) != devices {
				continue
			}
			if !slices.ContainsFunc(r.Resources, func(h corev1.ResourceHealth) bool { return h.Health != health }) {
				return ""
			}
		}
		return fmt.Sprintf("%s: allocatedResourcesStatus is %+v, want %d devices of %s %s", name, told, devices, resource, health)
	})
}
