// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/kubelet"
)

// driverLibrary builds the stand-in of package cgroup; flag -DOLD makes it older than
// R615.
func driverLibrary(t *testing.T, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "nvml.so")
	args := append([]string{"-shared", "-fPIC", "enforce/cgroup/testdata/nvml.c", "-o", out}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	return out
}

// layers gives the world what a node needs for every level but an interceptor.
func layers(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "a100-40gb")
	var uuids []string
	for _, g := range w.gpus {
		uuids = append(uuids, g.UUID)
	}
	t.Setenv("STANDIN_UUIDS", strings.Join(uuids, ","))
	w.opts.StateDir, w.opts.Isolation.CgroupRoot = t.TempDir(), t.TempDir()
	w.opts.Isolation.MPSControl, _ = filepath.Abs("testdata/mps-control.sh")
	if err := os.WriteFile(filepath.Join(w.opts.Isolation.CgroupRoot, "cgroup.controllers"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pids, _ := filepath.Glob(filepath.Join(w.opts.StateDir, "mps/*/pipe/pid"))
		for _, file := range pids {
			raw, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return w
}

func (w *world) interceptor() {
	w.opts.InterceptorDir = w.t.TempDir()
	if err := os.WriteFile(filepath.Join(w.opts.InterceptorDir, "libfairslice.so"), []byte("code"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// given says what a container was given: the CDI devices and mounts of the kubelet's
// cached answer.
func (w *world) given() string {
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	var out []string
	for _, h := range w.kubelet.held {
		for _, d := range h.answer.GetCdiDevices() {
			kind, _, _ := strings.Cut(d.GetName(), "=")
			out = append(out, kind)
		}
		for _, m := range h.answer.GetMounts() {
			out = append(out, m.GetContainerPath())
		}
	}
	return strings.Join(out, " ")
}

const intercepted = "/run/fairslice/libfairslice.so /etc/ld.so.preload /run/fairslice/limits /run/fairslice/usage"

// TestLayerIsChosenByWhatTheNodeCanDo: the first level that works holds containers
// and is published as label and annotation.
func TestLayerIsChosenByWhatTheNodeCanDo(t *testing.T) {
	for _, tc := range []struct {
		name, level, given string
		prepare            func(*world)
	}{
		{"nothing there", "none", "", func(*world) {}},
		{"interceptor", "intercept", intercepted, func(w *world) { w.interceptor() }},
		{"R615", "cgroup", "fairslice.io/limit", func(w *world) { w.opts.NVMLLibrary = driverLibrary(w.t) }},
		{"R615 and interceptor", "cgroup", "fairslice.io/limit " + intercepted, func(w *world) {
			w.opts.NVMLLibrary = driverLibrary(w.t)
			w.interceptor()
		}},
		{"older driver", "intercept", intercepted, func(w *world) {
			w.opts.NVMLLibrary = driverLibrary(w.t, "-DOLD")
			w.interceptor()
		}},
		{"MPS", "mps", "/run/fairslice-mps /dev/shm", func(w *world) { w.opts.Isolation.Levels = []string{"mps"} }},
		{"MPS before interceptor", "mps", "/run/fairslice-mps /dev/shm " + intercepted, func(w *world) {
			w.opts.Isolation.Levels = []string{"cgroup", "mps", "intercept"}
			w.interceptor()
		}},
		{"interceptor forced", "intercept", intercepted, func(w *world) {
			w.opts.NVMLLibrary = driverLibrary(w.t)
			w.opts.Isolation.Levels = []string{"intercept"}
			w.interceptor()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := layers(t)
			w.opts.Watch.Action = "off"
			tc.prepare(w)
			w.kubelet.start()
			w.run()
			eventually(t, 10*time.Second, "level "+tc.level, func() bool {
				n, _ := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
				return n.Labels[v1alpha1.LabelGPUIsolation] == tc.level && n.Annotations[v1alpha1.LabelGPUIsolation] == tc.level
			})
			p := w.bind("a", want{"main", slice, 25, []int{2}})
			w.mustAdmit(p)
			if _, err := w.kubelet.startContainer(p, "main"); err != nil {
				t.Fatal(err)
			}
			if got := w.given(); got != tc.given {
				t.Errorf("the container was given %q, want %q", got, tc.given)
			}
		})
	}
}

// TestForcedLevel: a node that cannot do what it was told to says so and serves
// nothing.
func TestForcedLevel(t *testing.T) {
	for _, tc := range []struct {
		name, refusal string
		prepare       func(*world)
	}{
		{"cgroup on an older driver", "option isolation names cgroup, of which this node can do none: cgroup: the driver does not limit memory by control group", func(w *world) {
			w.opts.Isolation.Levels, w.opts.NVMLLibrary = []string{"cgroup"}, driverLibrary(w.t, "-DOLD")
		}},
		{"cgroup on version 1", "is no control group hierarchy of version 2", func(w *world) {
			w.opts.Isolation.Levels, w.opts.NVMLLibrary = []string{"cgroup"}, driverLibrary(w.t)
			w.opts.Isolation.CgroupRoot = w.t.TempDir()
		}},
		{"MPS without its program", "MPS needs NVIDIA's program", func(w *world) {
			w.opts.Isolation.Levels, w.opts.Isolation.MPSControl = []string{"mps"}, "/nowhere"
		}},
		{"interceptor without a library", "option interceptor-dir is empty", func(w *world) { w.opts.Isolation.Levels = []string{"intercept"} }},
		{"no such level", `option isolation has "strong", must be of cgroup, mps, intercept, none`, func(w *world) { w.opts.Isolation.Levels = []string{"strong"} }},
		{"no level", "option isolation is empty", func(w *world) { w.opts.Isolation.Levels = nil }},
		{"relative state", `option state-dir is "state", must be an absolute path`, func(w *world) { w.opts.StateDir = "state" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := layers(t)
			tc.prepare(w)
			w.launch()
			select {
			case err := <-w.ended:
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("Run ended with %v, want %q", err, tc.refusal)
				}
			case <-time.After(10 * time.Second):
				t.Error("Run goes on")
			}
			w.kill()
			w.kill = nil
		})
	}
}

// TestDeclaredProcesses: under MPS a pod's share is divided by its annotation, and a
// value that is none refuses the pod with one sentence.
func TestDeclaredProcesses(t *testing.T) {
	w := layers(t)
	w.opts.Isolation.Levels = []string{"mps"}
	w.kubelet.start()
	w.run()
	for _, tc := range []struct{ name, value, memory, refusal string }{
		{"four", "4", "0=2560M", ""},
		{"none", "", "0=10240M", ""},
		{"bad", "many", "", `annotation fairslice.io/gpu-processes is "many", must be a whole number from 1 to 48`},
	} {
		p := w.pod(tc.name, want{"main", slice, 25, []int{1}})
		if tc.value != "" {
			p.Annotations[v1alpha1.AnnotationGPUProcesses] = tc.value
		}
		if _, err := w.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := w.kubelet.admit(p)
		if (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
			t.Errorf("%s: admission %v, want refusal %q", tc.name, err, tc.refusal)
		}
		if err != nil {
			continue
		}
		if env, err := w.kubelet.startContainer(p, "main"); err != nil || env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] != tc.memory {
			t.Errorf("%s: limit %q, error %v; want %q", tc.name, env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], err, tc.memory)
		}
	}
}

// TestLimitsSurviveASilentKubelet: a plugin that starts before the kubelet knows of no
// container, and must not take that for their end: the kubelet does not ask again.
func TestLimitsSurviveASilentKubelet(t *testing.T) {
	w := layers(t)
	w.opts.NVMLLibrary = driverLibrary(t)
	w.kubelet.start()
	w.run()
	p := w.bind("a", want{"main", slice, 25, []int{2}})
	w.mustAdmit(p)
	records, _ := filepath.Glob(filepath.Join(w.opts.StateDir, "cgroup/*.json"))
	if len(records) != 1 {
		t.Fatalf("records %v", records)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(records[0], past, past); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.kubelet.stop()
	checkpoint := filepath.Join(w.kubelet.dir, kubelet.CheckpointFile)
	saved, err := os.ReadFile(checkpoint)
	if err != nil || os.Remove(checkpoint) != nil {
		t.Fatal("no checkpoint to take away:", err)
	}
	w.launch()
	time.Sleep(10 * w.opts.ReconcileEvery)
	if _, err := os.Stat(records[0]); err != nil {
		t.Error("a limit was forgotten while the kubelet was away:", err)
	}
	if err := os.WriteFile(checkpoint, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubelet.start()
	eventually(t, 5*time.Second, "registration", w.registered)
	if _, err := w.kubelet.startContainer(p, "main"); err != nil {
		t.Error(err)
	}
}

// TestStackedLevelsAreMetrics: a container that two layers hold has a sample of each, and
// one account.
func TestStackedLevelsAreMetrics(t *testing.T) {
	w := layers(t)
	w.opts.NVMLLibrary = driverLibrary(t)
	w.interceptor()
	w.opts.Watch.Action, w.opts.Watch.Every = "kill", 10*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.opts.MetricsAddr = l.Addr().String()
	_ = l.Close()
	w.kubelet.start()
	w.run()
	w.place("a", 1)
	labels := fmt.Sprintf(`{UUID="%s",container="main",gpu="1",%smodelName="NVIDIA A100-PCIE-40GB",namespace="ns",pod="a"} `, w.gpus[1].UUID, "%s")
	const prefix = "fairslice_container_gpu_"
	want := []string{prefix + "memory_charged_mib" + fmt.Sprintf(labels, "") + "0"}
	for _, level := range []string{"cgroup", "intercept", "watch"} {
		want = append(want, prefix+"isolation"+fmt.Sprintf(labels, `level="`+level+`",`)+"1")
	}
	eventually(t, 5*time.Second, "samples of every level", func() bool {
		answer, err := http.Get("http://" + w.opts.MetricsAddr + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		text := string(raw)
		for _, line := range want {
			if strings.Count(text, line+"\n") != 1 {
				return false
			}
		}
		return strings.Count(text, "\n"+prefix+"isolation{") == 3
	})
}

// TestMPSDaemonIsLost: the next one runs by itself, and the pods whose processes failed
// with the last are told. A GPU under MPS has no more sharers than clients.
func TestMPSDaemonIsLost(t *testing.T) {
	w := layers(t)
	w.opts.Isolation.Levels = []string{"mps"}
	w.opts.ProbeEvery = 20 * time.Millisecond
	w.kubelet.start()
	w.run()
	if got := w.inventory().GPUs[1].MaxSharers; got != 48 {
		t.Errorf("%d sharers are published, want MPS's 48 clients", got)
	}
	w.place("a", 1)
	file := filepath.Join(w.opts.StateDir, "mps", w.gpus[1].UUID, "pipe/pid")
	pid := func() int {
		raw, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
		return n
	}
	eventually(t, 5*time.Second, "the daemon", func() bool { return pid() != 0 })
	first := pid()
	time.Sleep(100 * time.Millisecond) // until it has its limits
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "another daemon", func() bool { return pid() != 0 && pid() != first })
	w.event("MPSRestarted", "processes of container main that use the GPU have failed")
}
