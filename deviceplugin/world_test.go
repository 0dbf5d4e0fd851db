// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

const (
	whole  = v1alpha1.ResourceWholeGPU
	slice  = v1alpha1.ResourceGPUSlice
	memory = v1alpha1.ResourceGPUMemory
)

// world is one node: API server, kubelet, simulated GPUs and our plugin.
type world struct {
	t       *testing.T
	client  *fake.Clientset
	kubelet *fakeKubelet
	machine *nvml.Simulation
	gpus    []nvml.GPU
	opts    deviceplugin.Options
	kill    context.CancelFunc
	ended   chan error
	serial  int
}

func newWorld(t *testing.T, profile string) *world {
	t.Helper()
	p, err := nvml.LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := nvml.Simulate(p, "n1")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, machine: machine, kubelet: newFakeKubelet(t),
		client: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
	}
	w.gpus, _ = machine.GPUs()
	w.opts = deviceplugin.DefaultOptions()
	w.opts.NodeName, w.opts.Client, w.opts.Library = "n1", w.client, machine
	w.opts.PluginDir, w.opts.PodResourcesSocket = w.kubelet.dir, w.kubelet.podsSock
	w.opts.MetricsAddr, w.opts.CDIDir = "", t.TempDir()
	w.opts.InformerWait, w.opts.ReconcileEvery = 500*time.Millisecond, 100*time.Millisecond
	w.opts.ProbeEvery, w.opts.Probation = 20*time.Millisecond, 200*time.Millisecond
	w.opts.Log = slog.New(slog.DiscardHandler)
	t.Cleanup(w.stop)
	return w
}

// run starts the plugin and waits until the kubelet knows the devices.
func (w *world) run() *world {
	w.t.Helper()
	w.launch()
	eventually(w.t, 5*time.Second, "registration", w.registered)
	return w
}

func (w *world) launch() {
	ctx, kill := context.WithCancel(context.Background())
	w.kill, w.ended = kill, make(chan error, 1)
	go func() { w.ended <- deviceplugin.Run(ctx, w.opts) }()
}

// stop is as good as kill -9: nothing is written or told at the end.
func (w *world) stop() {
	if w.kill == nil {
		return
	}
	w.kill()
	w.kill = nil
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Errorf("Run ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		w.t.Error("Run does not end")
	}
}

func (w *world) registered() bool {
	for _, r := range []string{whole, slice, memory} {
		if w.kubelet.healthy(r) < 0 {
			return false
		}
	}
	return true
}

// want is a container's request with the plan: units on GPUs by index; no GPUs
// means that nothing is planned.
type want struct {
	container, resource string
	units               int64
	gpus                []int
}

// bind puts a pod onto the node as the control plane does: binding and annotation
// in one write.
func (w *world) bind(name string, wants ...want) *corev1.Pod {
	w.t.Helper()
	p := w.pod(name, wants...)
	created, err := w.client.CoreV1().Pods("ns").Create(context.Background(), p, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

func (w *world) pod(name string, wants ...want) *corev1.Pod {
	w.serial++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID(fmt.Sprintf("uid-%s-%d", name, w.serial)), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Unix(int64(1_000_000+w.serial), 0)),
		},
		Spec: corev1.PodSpec{NodeName: "n1"},
	}
	a := v1alpha1.Assignment{PodUID: string(p.UID), Node: "n1"}
	for _, x := range wants {
		total := x.units * int64(max(1, len(x.gpus)))
		c := corev1.Container{Name: x.container, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceName(x.resource): *resource.NewQuantity(total, resource.DecimalSI),
		}}}
		if strings.HasPrefix(x.container, "init") {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		entry := v1alpha1.ContainerAssignment{Name: x.container, Resource: x.resource}
		for _, g := range x.gpus {
			entry.GPUs = append(entry.GPUs, v1alpha1.AssignedGPU{UUID: w.gpus[g].UUID, Units: x.units})
		}
		if len(x.gpus) > 0 {
			a.Containers = append(a.Containers, entry)
		}
	}
	if len(a.Containers) > 0 {
		p.Annotations[v1alpha1.AnnotationGPUAssignment], _ = a.Encode()
	}
	return p
}

// finish ends a pod: in the API, and for the kubelet.
func (w *world) finish(p *corev1.Pod) {
	w.t.Helper()
	w.kubelet.end(p)
	if err := w.client.CoreV1().Pods("ns").Delete(context.Background(), p.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// annotated are the GPUs that a container's annotation names.
func (w *world) annotated(p *corev1.Pod, container string) []string {
	now, err := w.client.CoreV1().Pods("ns").Get(context.Background(), p.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := v1alpha1.DecodeAssignment(now.Annotations[v1alpha1.AnnotationGPUAssignment])
	if err != nil {
		return nil
	}
	var out []string
	for _, c := range a.Containers {
		for _, g := range c.GPUs {
			if c.Name == container {
				out = append(out, g.UUID)
			}
		}
	}
	slices.Sort(out)
	return out
}

// agree checks that environment, annotation and the kubelet's devices name the
// same GPUs, and returns the environment.
func (w *world) agree(p *corev1.Pod, container string) map[string]string {
	w.t.Helper()
	env, err := w.kubelet.startContainer(p, container)
	if err != nil {
		w.t.Fatalf("%s does not start: %v", p.Name, err)
	}
	inside := strings.Split(env["NVIDIA_VISIBLE_DEVICES"], ",")
	slices.Sort(inside)
	var byKubelet []string
	for _, id := range w.kubelet.ids(p, container) {
		short, _, _ := strings.Cut(id, "-")
		for _, g := range w.gpus {
			if strings.HasPrefix(g.UUID, "GPU-"+short) && !slices.Contains(byKubelet, g.UUID) {
				byKubelet = append(byKubelet, g.UUID)
			}
		}
	}
	slices.Sort(byKubelet)
	if !slices.Equal(inside, byKubelet) {
		w.t.Errorf("%s/%s sees %v, the kubelet recorded %v", p.Name, container, inside, byKubelet)
	}
	eventually(w.t, 5*time.Second, p.Name+"'s annotation names "+strings.Join(byKubelet, ","), func() bool {
		return slices.Equal(w.annotated(p, container), byKubelet)
	})
	return env
}

func (w *world) mustAdmit(p *corev1.Pod) {
	w.t.Helper()
	if err := w.kubelet.admit(p); err != nil {
		w.t.Fatalf("%s: %v", p.Name, err)
	}
}

func (w *world) node() *corev1.Node {
	n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
