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
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

// watched prepares a world whose watchdog looks often, and into a /proc of its own.
func watched(t *testing.T, action string) *world {
	w := newWorld(t, "a100-40gb")
	w.opts.Watch.Action, w.opts.Watch.ProcRoot = action, t.TempDir()
	w.opts.Watch.Every, w.opts.Watch.Polls, w.opts.Watch.Grace, w.opts.Watch.ContextMiB = 10*time.Millisecond, 3, 0, 0
	w.kubelet.start()
	return w
}

// startProcess runs a real process that /proc shows in the container of a pod; no
// pod means a process of the host. It returns its PID, and whether it has ended.
func (w *world) startProcess(p *corev1.Pod, container string) (uint32, *atomic.Bool) {
	w.t.Helper()
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := &atomic.Bool{}
	go func() { _ = c.Wait(); ended.Store(true) }()
	w.t.Cleanup(func() { _ = c.Process.Kill() })
	cgroup := "0::/system.slice/foreign.service\n"
	if p != nil {
		cgroup = "0::/kubepods/burstable/pod" + podUID(p) + "/" + w.containerID(p, container) + "\n"
	}
	dir := filepath.Join(w.opts.Watch.ProcRoot, strconv.Itoa(c.Process.Pid))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		w.t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (sleep) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 20", c.Process.Pid, c.Process.Pid)
	for name, text := range map[string]string{"stat": stat, "cgroup": cgroup} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return uint32(c.Process.Pid), ended
}

// podUID is in a real UID's form; the tests' own UIDs are not.
func podUID(p *corev1.Pod) string { return fmt.Sprintf("%032x", p.CreationTimestamp.Unix()) }

// containerID is in the pod's status, by which the process is known.
func (w *world) containerID(p *corev1.Pod, container string) string {
	w.t.Helper()
	now, err := w.client.CoreV1().Pods("ns").Get(context.Background(), p.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range now.Status.ContainerStatuses {
		if s.Name == container {
			return strings.TrimPrefix(s.ContainerID, "containerd://")
		}
	}
	id := fmt.Sprintf("%064x", p.CreationTimestamp.Unix()*100+int64(len(now.Status.ContainerStatuses)))
	now.Status.ContainerStatuses = append(now.Status.ContainerStatuses, corev1.ContainerStatus{Name: container, ContainerID: "containerd://" + id})
	if _, err := w.client.CoreV1().Pods("ns").UpdateStatus(context.Background(), now, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// place admits a pod with 10 GiB of a card.
func (w *world) place(name string, gpu int) *corev1.Pod {
	w.t.Helper()
	p := w.bind(name, want{"main", memory, 10, []int{gpu}})
	w.mustAdmit(p)
	w.agree(p, "main")
	return p
}

// event waits for an event whose message holds the text.
func (w *world) event(reason, text string) {
	w.t.Helper()
	eventually(w.t, 5*time.Second, "event "+reason+": "+text, func() bool {
		list, err := w.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return true
			}
		}
		return false
	})
}

func (w *world) level(level string) {
	w.t.Helper()
	eventually(w.t, 5*time.Second, "isolation level "+level, func() bool {
		n, _ := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		return n.Labels[v1alpha1.LabelGPUIsolation] == level
	})
}

// inventory on the node, as soon as there is one.
func (w *world) inventory() (v v1alpha1.Inventory) {
	w.t.Helper()
	eventually(w.t, 5*time.Second, "an inventory", func() bool {
		n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		v, err = v1alpha1.DecodeInventory(n.Annotations[v1alpha1.AnnotationGPUs])
		return err == nil
	})
	return v
}

// TestTheLargestProcessIsKilled: of the container that exceeds its limit, and of no
// other; a static binary gets past an interceptor, not past this.
func TestTheLargestProcessIsKilled(t *testing.T) {
	w := watched(t, "kill")
	w.run()
	w.level("watch")
	greedy, modest := w.place("greedy", 1), w.place("modest", 1)
	small, smallEnded := w.startProcess(greedy, "main")
	large, largeEnded := w.startProcess(greedy, "main")
	neighbour, neighbourEnded := w.startProcess(modest, "main")
	host, hostEnded := w.startProcess(nil, "")
	w.machine.SetProcesses(1,
		nvml.SimulatedProcess{PID: small, UsedMiB: 4000}, nvml.SimulatedProcess{PID: large, UsedMiB: 7000},
		nvml.SimulatedProcess{PID: neighbour, UsedMiB: 10240}, nvml.SimulatedProcess{PID: host, UsedMiB: 12000})
	eventually(t, 5*time.Second, "the end of the largest process", largeEnded.Load)
	w.event("GPUMemoryExceeded", fmt.Sprintf("container main uses 11000 MiB of GPU %s and may use 10240 MiB, for 3 looks in a row: its largest process (PID %d of the node, 7000 MiB) is killed", w.gpus[1].UUID, large))
	w.machine.SetProcesses(1, nvml.SimulatedProcess{PID: small, UsedMiB: 4000}, nvml.SimulatedProcess{PID: neighbour, UsedMiB: 10240})
	time.Sleep(100 * time.Millisecond)
	if smallEnded.Load() || neighbourEnded.Load() || hostEnded.Load() {
		t.Errorf("ended: small %v, neighbour %v, host %v", smallEnded.Load(), neighbourEnded.Load(), hostEnded.Load())
	}
}

// TestEviction: by the Eviction API, for exactly this pod; a disruption budget's no
// is told.
func TestEviction(t *testing.T) {
	w := watched(t, "evict")
	var asked atomic.Int64
	w.client.PrependReactor("create", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		if asked.Add(1) == 1 {
			return true, nil, apierrors.NewTooManyRequests("not now", 1)
		}
		return true, nil, nil
	})
	w.run()
	p := w.place("greedy", 1)
	pid, ended := w.startProcess(p, "main")
	w.machine.SetProcesses(1, nvml.SimulatedProcess{PID: pid, UsedMiB: 10241})
	w.event("GPUMemoryExceeded", "the pod is evicted")
	w.event("GPUMemoryExceeded", "could not be evicted: a PodDisruptionBudget protects it")
	eventually(t, 5*time.Second, "a second try", func() bool { return asked.Load() > 1 })
	if ended.Load() {
		t.Error("the process was killed")
	}
}

// TestReportOnly: the default harms nobody, and promises nothing.
func TestReportOnly(t *testing.T) {
	w := watched(t, "report")
	w.run()
	w.level("none")
	p := w.place("greedy", 1)
	pid, ended := w.startProcess(p, "main")
	w.machine.SetProcesses(1, nvml.SimulatedProcess{PID: pid, UsedMiB: 20000})
	w.event("GPUMemoryExceeded", "nothing is done about it")
	if ended.Load() {
		t.Error("the process was killed")
	}
}

// TestUnknownIsNotJudged, and a driver that lists nothing takes the level back.
func TestUnknownIsNotJudged(t *testing.T) {
	w := watched(t, "kill")
	w.run()
	w.level("watch")
	p := w.place("a", 1)
	pid, ended := w.startProcess(p, "main")
	w.machine.SetProcesses(1, nvml.SimulatedProcess{PID: pid, Unknown: true})
	time.Sleep(150 * time.Millisecond)
	if ended.Load() {
		t.Error("a process of unknown use was killed")
	}
	w.machine.SetUnlisted(2, true)
	w.level("none")
}

// TestUsageMetrics is row D 70 from the driver to the exporter: a's 3 GiB are a's,
// b's 5 GiB are b's, the host's 1 GiB is nobody's, ~0 is flagged.
func TestUsageMetrics(t *testing.T) {
	w := watched(t, "report")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.opts.MetricsAddr = l.Addr().String()
	w.opts.Watch.Polls = 30 // outlasts an informer that lags on a busy machine
	_ = l.Close()
	w.run()
	a, b, c := w.place("a", 1), w.place("b", 1), w.place("c", 1)
	pidA, _ := w.startProcess(a, "main")
	pidB, _ := w.startProcess(b, "main")
	pidC, _ := w.startProcess(c, "main")
	host, _ := w.startProcess(nil, "")
	w.machine.SetProcesses(1,
		nvml.SimulatedProcess{PID: pidA, UsedMiB: 3072, In: []nvml.ListedIn{nvml.Compute, nvml.Graphics, nvml.Detailed}},
		nvml.SimulatedProcess{PID: pidB, UsedMiB: 5120}, nvml.SimulatedProcess{PID: host, UsedMiB: 1024}, nvml.SimulatedProcess{PID: pidC, Unknown: true})
	labels := func(pod string) string {
		return fmt.Sprintf(`UUID="%s",container="main",gpu="1",modelName="NVIDIA A100-PCIE-40GB",namespace="ns",pod="%s"`, w.gpus[1].UUID, pod)
	}
	var text string
	eventually(t, 5*time.Second, "metrics of a, b and c", func() bool {
		answer, err := http.Get("http://" + w.opts.MetricsAddr + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		text = string(raw)
		for _, line := range []string{
			"fairslice_container_gpu_memory_used_mib{" + labels("a") + "} 3072",
			"fairslice_container_gpu_memory_used_mib{" + labels("b") + "} 5120",
			"fairslice_container_gpu_unknown_processes{" + labels("c") + "} 1",
			"fairslice_container_gpu_unknown_processes{" + labels("a") + "} 0",
			fmt.Sprintf(`fairslice_container_gpu_isolation{UUID="%s",container="main",gpu="1",level="none",modelName="NVIDIA A100-PCIE-40GB",namespace="ns",pod="a"} 1`, w.gpus[1].UUID),
			fmt.Sprintf(`fairslice_container_gpu_asked_devices{%s,resource="%s"} 10`, labels("b"), memory),
			fmt.Sprintf(`fairslice_gpu_foreign_memory_mib{UUID="%s"} 1024`, w.gpus[1].UUID),
		} {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}
		return true
	})
	if strings.Contains(text, "fairslice_container_gpu_memory_used_mib{"+labels("c")) {
		t.Error("a figure for c, of which nothing is known")
	}
	if n := strings.Count(text, "fairslice_container_gpu_memory_used_mib{"); n != 2 {
		t.Errorf("%d samples of used memory, want one each for a and b", n)
	}
	w.event("ForeignGPUMemory", fmt.Sprintf("1024 MiB of GPU %s are used by processes that were not given it, most by PID %d of the node, which is in no pod", w.gpus[1].UUID, host))
}

// TestCordon: all devices of the card go, and come back; running containers stay;
// the inventory says why; nonsense in the annotation is told and harms nothing.
func TestCordon(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	w.place("a", 1)
	cordon := func(value string) {
		t.Helper()
		n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations[v1alpha1.AnnotationCordonedGPUs] = value
		if _, err := w.client.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(wholes, slices, gib int) func() bool {
		return func() bool {
			return w.kubelet.healthy(whole) == wholes && w.kubelet.healthy(slice) == slices && w.kubelet.healthy(memory) == gib
		}
	}
	eventually(t, 5*time.Second, "the start", counts(3, 375, 160))
	cordon("3, 9," + w.gpus[1].UUID)
	eventually(t, 5*time.Second, "GPUs 1 and 3 gone", counts(2, 200, 80))
	w.event("GPUCordoned", w.gpus[3].UUID)
	w.event("InvalidGPUCordon", `annotation fairslice.io/cordoned-gpus of node n1 names "9", must name GPUs that the device plugin serves, by UUID or index: 0 (`+w.gpus[0].UUID+")")
	eventually(t, 5*time.Second, "the inventory", func() bool {
		g := w.inventory().GPUs
		return g[3].Cordoned && !g[3].Healthy && strings.Contains(g[3].Reason, "cordoned by annotation") && g[2].Healthy
	})
	// A pod planned there a moment ago moves, its annotation too.
	late := w.bind("late", want{"main", slice, 25, []int{3}})
	w.mustAdmit(late)
	w.agree(late, "main")
	if on := w.annotated(late, "main"); len(on) != 1 || on[0] != w.gpus[0].UUID && on[0] != w.gpus[2].UUID {
		t.Errorf("a pod planned on a cordoned GPU is on %v", on)
	}
	// So does a plugin that starts again.
	w.stop()
	eventually(t, 5*time.Second, "the plugin's end", counts(0, 0, 0))
	w.run()
	eventually(t, 5*time.Second, "the same after a restart", counts(1, 200, 70))
	cordon("")
	eventually(t, 5*time.Second, "all back", counts(2, 375, 150))
	w.event("GPUUncordoned", w.gpus[1].UUID)
}
