// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin"
	"github.com/fairslice/fairslice/deviceplugin/cdispec"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

const small = "nvidia.com/mig-1g.5gb"

// newMIGWorld is a node with the simulated GPUs.
func newMIGWorld(t *testing.T, strategy, gpus string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpus.yaml")
	if err := os.WriteFile(file, []byte("name: MIG\ngpus:\n"+gpus), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, file)
	w.opts.MIG.Strategy = strategy
	w.kubelet.start()
	return w
}

// serve starts the plugin and waits until the kubelet knows the resources.
func (w *world) serve(resources ...string) *world {
	w.t.Helper()
	w.launch()
	eventually(w.t, 5*time.Second, "registration of "+strings.Join(resources, ", "), func() bool {
		return !slices.ContainsFunc(resources, func(r string) bool { return w.kubelet.healthy(r) < 0 })
	})
	return w
}

// offers are the healthy devices by resource.
func (w *world) offers() map[string]int {
	w.kubelet.mu.Lock()
	var names []string
	for name := range w.kubelet.plugins {
		names = append(names, name)
	}
	w.kubelet.mu.Unlock()
	out := map[string]int{}
	for _, name := range names {
		out[name] = w.kubelet.healthy(name)
	}
	return out
}

// TestMIGContainer: a container gets its instance by its UUID; the annotation and
// the metrics say which one; nobody else gets it; after a restart all is as before.
func TestMIGContainer(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 2, 3g.20gb: 1}}\n- {base: a100-sxm4-40gb}")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.opts.MetricsAddr = l.Addr().String()
	_ = l.Close()
	w.opts.DeviceLists = []string{"envvar", "cdi"}
	w.serve(whole, small, "nvidia.com/mig-3g.20gb")
	uuids := map[string]bool{}
	for _, i := range w.gpus[0].Instances {
		uuids[i.UUID] = i.Profile == "1g.5gb"
	}
	seen := map[string]bool{}
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b"} {
		p := w.bind(name, want{"main", small, 1, nil})
		w.mustAdmit(p)
		env, err := w.kubelet.startContainer(p, "main")
		if err != nil {
			t.Fatal(err)
		}
		uuid := env["NVIDIA_VISIBLE_DEVICES"]
		if !uuids[uuid] || seen[uuid] || env["FAIRSLICE_GPU_UUIDS"] != uuid || env["FAIRSLICE_GPU_MEMORY_MIB"] != "4864" || env["FAIRSLICE_GPU_MILLI"] != "142" || env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] != "" {
			t.Errorf("environment of %s: %v", name, env)
		}
		seen[uuid] = true
		eventually(t, 5*time.Second, "the annotation of "+name, func() bool { return slices.Equal(w.annotated(p, "main"), []string{uuid}) })
		pods = append(pods, p)
	}
	if err := w.kubelet.admit(w.bind("c", want{"main", small, 1, nil})); err == nil {
		t.Error("a third container got one of two instances")
	}
	if got := w.kubelet.healthy(slice); got != 100 {
		t.Errorf("%d slices of the GPU that is not in MIG mode, want 100", got)
	}
	w.metrics(fmt.Sprintf(`fairslice_container_gpu_isolation{UUID="%s",container="main",gpu="0",level="mig",modelName="NVIDIA A100-SXM4-40GB",namespace="ns",pod="a"} 1`, w.annotated(pods[0], "main")[0]))
	w.stop()
	w.serve(whole, small)
	eventually(t, 5*time.Second, "the instances are still taken after a restart", func() bool {
		return w.kubelet.admit(w.bind(fmt.Sprint("d", w.serial), want{"main", small, 1, nil})) != nil
	})
	w.finish(pods[0])
	e := w.bind("e", want{"main", small, 1, nil})
	eventually(t, 5*time.Second, "a freed instance", func() bool { return w.kubelet.admit(e) == nil })
}

// metrics waits for a line.
func (w *world) metrics(line string) {
	w.t.Helper()
	eventually(w.t, 5*time.Second, line, func() bool {
		answer, err := http.Get("http://" + w.opts.MetricsAddr + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(raw), line+"\n")
	})
}

// TestTwoProfilesInOneContainer: a container may hold instances of two profiles; the
// annotation tells each, and is written once.
func TestTwoProfilesInOneContainer(t *testing.T) {
	const large = "nvidia.com/mig-3g.20gb"
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 1, 3g.20gb: 1}}")
	w.serve(small, large)
	p := w.pod("a", want{"main", small, 1, nil}, want{"other", large, 1, nil})
	maps.Copy(p.Spec.Containers[0].Resources.Limits, p.Spec.Containers[1].Resources.Limits)
	p.Spec.Containers = p.Spec.Containers[:1]
	p, err := w.client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.mustAdmit(p)
	eventually(t, 5*time.Second, "both instances in the annotation", func() bool { return len(w.annotated(p, "main")) == 2 })
	writes := func() (n int) {
		for _, a := range w.client.Actions() {
			if a.Matches("patch", "pods") {
				n++
			}
		}
		return n
	}
	before := writes()
	time.Sleep(500 * time.Millisecond) // several comparisons with the kubelet
	if after := writes(); after != before {
		t.Errorf("the annotation was written %d times more", after-before)
	}
}

// TestMIGHealth: a card's XID takes all of its instances and no other's; one that is
// destroyed takes itself; all come back.
func TestMIGHealth(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {count: 2, base: a100-sxm4-40gb, mig: {1g.5gb: 3}}")
	w.opts.RescanEvery = time.Hour
	w.serve(small)
	w.machine.RaiseXID(0, 79)
	eventually(t, 5*time.Second, "the other card's instances alone", func() bool { return w.kubelet.healthy(small) == 3 })
	for _, g := range w.inventory().GPUs {
		if g.Card == w.gpus[1].UUID && !g.Healthy {
			t.Errorf("an instance of the card that is well: %+v", g)
		}
	}
	eventually(t, 5*time.Second, "recovery", func() bool { return w.kubelet.healthy(small) == 6 })
	w.machine.DestroyInstance(1, 2, true)
	eventually(t, 5*time.Second, "one instance less", func() bool { return w.kubelet.healthy(small) == 5 })
	eventually(t, 5*time.Second, "the reason in the inventory", func() bool {
		return slices.ContainsFunc(w.inventory().GPUs, func(g v1alpha1.InventoryGPU) bool {
			return g.UUID == w.gpus[1].Instances[2].UUID && strings.Contains(g.Reason, "does not answer")
		})
	})
	w.machine.DestroyInstance(1, 2, false)
	eventually(t, 5*time.Second, "recovery", func() bool { return w.kubelet.healthy(small) == 6 })
}

// TestMIGCordon: a card's index stands for its instances.
func TestMIGCordon(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {count: 2, base: a100-sxm4-40gb, mig: {1g.5gb: 3}}")
	w.serve(small)
	n := w.node()
	n.Annotations[v1alpha1.AnnotationCordonedGPUs] = "1," + w.gpus[0].Instances[0].UUID
	if _, err := w.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "two instances left", func() bool { return w.kubelet.healthy(small) == 2 })
}

// TestNewInstanceEndsThePlugin, so that its next start serves it.
func TestNewInstanceEndsThePlugin(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 3}}")
	w.machine.DestroyInstance(0, 1, true)
	w.opts.RescanEvery = 50 * time.Millisecond
	w.serve(small)
	if got := w.kubelet.healthy(small); got != 2 {
		t.Errorf("%d instances, want 2", got)
	}
	w.machine.DestroyInstance(0, 1, false)
	select {
	case err := <-w.ended:
		w.kill = nil
		if !errors.Is(err, deviceplugin.ErrGPUsChanged) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the new instance goes unnoticed")
	}
}

// TestForeignMIGDevices: another plugin's devices under a profile's resource are
// seen before they are handed out twice.
func TestForeignMIGDevices(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 3}}")
	w.kubelet.mu.Lock()
	w.kubelet.plugins[small] = &pluginConn{devices: map[string]string{w.gpus[0].Instances[0].UUID: "Healthy"}, cancel: func() {}}
	w.kubelet.mu.Unlock()
	err := deviceplugin.Run(t.Context(), w.opts)
	if err == nil || !strings.Contains(err.Error(), "another device plugin serves "+small+" on node n1") || !strings.Contains(err.Error(), "option mig-resource-prefix or mig-strategy") {
		t.Errorf("error %v", err)
	}
}

// TestMIGInCDI: an instance needs its card's device node and those of its two
// capabilities.
func TestMIGInCDI(t *testing.T) {
	proc := t.TempDir()
	minors := filepath.Join(proc, "driver/nvidia-caps/mig-minors")
	if err := os.MkdirAll(filepath.Dir(minors), 0o750); err != nil {
		t.Fatal(err)
	}
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {3g.20gb: 1, 1g.5gb: 1}}")
	w.opts.Library, w.opts.DeviceLists, w.opts.Watch.ProcRoot, w.opts.DevRoot = real{w.machine}, []string{"cdi"}, proc, t.TempDir()
	w.opts.Isolation.Levels = []string{"none"}
	if err := os.WriteFile(minors, []byte("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := deviceplugin.Run(t.Context(), w.opts)
	if err == nil || !strings.Contains(err.Error(), "the driver lists no capability gpu0/gi2/ci0/access") {
		t.Fatalf("error %v", err)
	}
	if err := os.WriteFile(minors, []byte("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serve(small)
	raw, err := os.ReadFile(filepath.Join(w.opts.CDIDir, cdispec.FileName))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Devices []struct {
			Name           string
			ContainerEdits struct{ DeviceNodes []struct{ Path string } }
		}
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			got[d.Name] += n.Path + " "
		}
	}
	want := map[string]string{
		w.gpus[0].Instances[0].UUID: "/dev/nvidia0 /dev/nvidia-caps/nvidia-cap12 /dev/nvidia-caps/nvidia-cap13 ",
		w.gpus[0].Instances[1].UUID: "/dev/nvidia0 /dev/nvidia-caps/nvidia-cap21 /dev/nvidia-caps/nvidia-cap22 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
}

// real is a simulation that passes for hardware.
type real struct{ *nvml.Simulation }

func (real) Simulated() bool { return false }
