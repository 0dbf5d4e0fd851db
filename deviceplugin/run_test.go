// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin"
)

// TestASliceReachesItsContainer is the road itself: labels and inventory on the
// node, the planned GPU in the container with its limits, the neighbours' view.
func TestASliceReachesItsContainer(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	eventually(t, 5*time.Second, "labels", func() bool {
		n, _ := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		return n.Labels[v1alpha1.LabelGPUCount] == "4" && n.Labels[v1alpha1.LabelGPUModel] == "NVIDIA-A100-PCIE-40GB" && n.Labels[v1alpha1.LabelGPUMemory] == "40960"
	})
	n, _ := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	v, err := v1alpha1.DecodeInventory(n.Annotations[v1alpha1.AnnotationGPUs])
	if err != nil || len(v.GPUs) != 4 || v.GPUs[2].UUID != w.gpus[2].UUID || !v.GPUs[2].Healthy || len(v.GPUs[2].Resources) != 3 {
		t.Errorf("inventory %+v, error %v", v, err)
	}
	p := w.bind("a", want{"main", slice, 25, []int{2}})
	w.mustAdmit(p)
	env := w.agree(p, "main")
	for name, value := range map[string]string{
		"NVIDIA_VISIBLE_DEVICES": w.gpus[2].UUID, "FAIRSLICE_GPU_UUIDS": w.gpus[2].UUID, "FAIRSLICE_GPU_MEMORY_MIB": "10240", "FAIRSLICE_GPU_MILLI": "250",
		"FAIRSLICE_GPU_RESOURCE": slice, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10240M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
	} {
		if env[name] != value {
			t.Errorf("%s=%s, want %s", name, env[name], value)
		}
	}
	eventually(t, 5*time.Second, "3 whole GPUs and 150 GiB left", func() bool {
		return w.kubelet.healthy(whole) == 3 && w.kubelet.healthy(memory) == 150 && w.kubelet.healthy(slice) == 400
	})
}

// TestEveryWayToAsk: several containers with different shares, several GPUs, GiB,
// whole cards; each gets its own.
func TestEveryWayToAsk(t *testing.T) {
	w := newWorld(t, "dgx-a100")
	w.kubelet.start()
	w.run()
	p := w.bind("p", want{"init-data", memory, 4, []int{0}}, want{"a", memory, 4, []int{0}}, want{"b", memory, 6, []int{1}}, want{"c", whole, 1, []int{2, 3}}, want{"d", slice, 25, []int{4, 5}}, want{"e", slice, 100, []int{6, 7}})
	w.mustAdmit(p)
	for _, c := range []string{"init-data", "a", "b", "c", "d", "e"} {
		w.agree(p, c)
	}
	env, _ := w.kubelet.startContainer(p, "d")
	if env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] != "0=10240M,1=10240M" || env["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" {
		t.Errorf("two quarters: %v", env)
	}
	env, _ = w.kubelet.startContainer(p, "c")
	if _, limited := env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]; limited || env["FAIRSLICE_GPU_MILLI"] != "1000,1000" {
		t.Errorf("whole GPUs: %v", env)
	}
}

// TestHalfCards is the 32 half-card pods on 16 cards, at once, admitted in
// another order than bound, with the plugin killed in the middle (D 25, D 63, K8S
// #119248).
func TestHalfCards(t *testing.T) {
	for _, checkpoint := range []bool{true, false} {
		t.Run(fmt.Sprintf("checkpoint %t", checkpoint), func(t *testing.T) {
			w := newWorld(t, "dgx-h100")
			w.kubelet.noCheckpoint = !checkpoint
			w.kubelet.start()
			w.run()
			var pods []*corev1.Pod
			for i := range 16 {
				pods = append(pods, w.bind(fmt.Sprint("p", i), want{"main", slice, 50, []int{i / 2}}))
			}
			for i := range pods {
				if i == 7 {
					w.stop()
					eventually(t, 5*time.Second, "the kubelet notices", func() bool { return w.kubelet.healthy(slice) == 0 })
					w.run()
					eventually(t, 5*time.Second, "devices after the restart", func() bool { return w.kubelet.healthy(slice) == 800 })
				}
				w.mustAdmit(pods[(i*5+3)%16])
			}
			perGPU := map[string]int{}
			for _, p := range pods {
				perGPU[w.agree(p, "main")["FAIRSLICE_GPU_UUIDS"]]++
			}
			for _, g := range w.gpus {
				if perGPU[g.UUID] != 2 {
					t.Errorf("%d pods on %s, want 2", perGPU[g.UUID], g.UUID)
				}
			}
			eventually(t, 5*time.Second, "no room left", func() bool { return w.kubelet.healthy(whole) == 0 && w.kubelet.healthy(memory) == 0 })
		})
	}
}

// TestInformerLags guards D 32 (GDP #19, GSE #228): the kubelet sees the pod before
// we do. It waits, and never succeeds without a GPU.
func TestInformerLags(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	late := w.pod("late", want{"main", slice, 25, []int{1}})
	time.AfterFunc(200*time.Millisecond, func() {
		if _, err := w.client.CoreV1().Pods("ns").Create(context.Background(), late, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	w.mustAdmit(late)
	w.agree(late, "main")

	never := w.pod("never", want{"main", slice, 30, []int{1}})
	begin := time.Now()
	err := w.kubelet.admit(never)
	if err == nil || !strings.Contains(err.Error(), "no pod bound to node n1 waits for 30 fairslice.io/gpu-slice") {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(begin); took > 3*w.opts.InformerWait/2 {
		t.Errorf("the kubelet was held up for %v, once %v is allowed", took, w.opts.InformerWait)
	}
	begin = time.Now()
	if err := w.kubelet.admit(w.pod("never2", want{"main", slice, 30, []int{1}})); err == nil || time.Since(begin) > w.opts.InformerWait/2 {
		t.Errorf("the next of its kind: %v after %v", err, time.Since(begin))
	}
}

// TestAnotherPodOfTheName (D 3, R95): after a gap in the watch a pod that was deleted
// and made again comes as an update. The first one's plan holds nothing any more.
func TestAnotherPodOfTheName(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	w.bind("a", want{"main", slice, 100, []int{1, 2, 3}})
	again := w.pod("a", want{"main", slice, 25, []int{0}})
	if _, err := w.client.CoreV1().Pods("ns").Update(context.Background(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mustAdmit(again)
	w.agree(again, "main")
	next := w.bind("next", want{"main", whole, 1, nil})
	w.mustAdmit(next)
	w.agree(next, "main")
}

// TestOldCheckpoint: the kubelet's writes of its checkpoint can come in the wrong
// order. What a container holds stays its own though the file has lost it.
func TestOldCheckpoint(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	w.mustAdmit(w.bind("first", want{"main", slice, 25, []int{0}}))
	w.kubelet.mu.Lock()
	w.kubelet.noCheckpoint = true // the file stays as it is
	w.kubelet.mu.Unlock()
	p := w.bind("p", want{"main", whole, 1, nil})
	w.mustAdmit(p)
	w.agree(p, "main")
	for range 20 {
		if got := w.kubelet.healthy(slice); got != 300 {
			t.Fatalf("%d slices are offered, want 300: one GPU is given whole", got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestNotPlacedByUs guards D 33 and D 39 (volcano-sh/devices #42, HAMi #790, #71):
// a plain sentence, the server lives, whole GPUs work.
func TestNotPlacedByUs(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	err := w.kubelet.admit(w.bind("byhand", want{"main", slice, 25, nil}))
	if err == nil || !strings.Contains(err.Error(), "pod ns/byhand, container main asks for 25 fairslice.io/gpu-slice and has no GPU planned") {
		t.Errorf("err = %v", err)
	}
	foreign := w.bind("foreign", want{"main", whole, 1, nil})
	w.mustAdmit(foreign)
	w.agree(foreign, "main") // and the control plane learns its GPU
}

// TestInitContainers guards D 62 (K8S #138446) and D 14: devices of an init
// container are used again, counted once, and survive a restart of both sides.
func TestInitContainers(t *testing.T) {
	for _, checkpoint := range []bool{true, false} {
		t.Run(fmt.Sprintf("checkpoint %t", checkpoint), func(t *testing.T) {
			w := newWorld(t, "a100-40gb")
			w.kubelet.noCheckpoint = !checkpoint
			w.kubelet.start()
			w.run()
			p := w.bind("a", want{"init", memory, 12, []int{3}}, want{"main", memory, 6, []int{3}})
			w.mustAdmit(p)
			eventually(t, 5*time.Second, "28 GiB left on the card", func() bool { return w.kubelet.healthy(slice) == 370 })
			if !checkpoint {
				return // after a restart nobody but the checkpoint knows of the init container
			}
			w.stop()
			w.kubelet.stop()
			w.kubelet.start()
			w.run()
			eventually(t, 5*time.Second, "28 GiB left after the restart", func() bool { return w.kubelet.healthy(slice) == 370 })
			w.mustAdmit(p) // the kubelet admits the pods that it knows again
			w.agree(p, "init")
			w.agree(p, "main")
		})
	}
}

// TestKubeletRestarts guards D 61 (K8S #118559, #125579, #133382, #109595): in less
// than a second the devices are back, after two restarts in a row and three refused
// registrations.
func TestKubeletRestarts(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.launch() // the plugin is there before the kubelet
	time.Sleep(50 * time.Millisecond)
	w.kubelet.start()
	eventually(t, 2*time.Second, "first registration", w.registered)
	for _, refuse := range []int{0, 3} {
		w.kubelet.stop()
		w.kubelet.refuse = refuse
		w.kubelet.start()
		time.Sleep(20 * time.Millisecond)
		w.kubelet.stop()
		w.kubelet.start()
		eventually(t, time.Second, fmt.Sprintf("registration after two restarts and %d refusals", refuse), w.registered)
	}
	p := w.bind("a", want{"main", slice, 25, []int{0}})
	w.mustAdmit(p)
	w.agree(p, "main")
}

// TestHealth guards D 64, D 65 and R80 (NDP #189, #234, #1014, #231): an
// application's error changes nothing, a critical one takes all devices of its card
// and no other's, the card comes back after its probation.
func TestHealth(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	running := w.bind("e", want{"main", slice, 25, []int{3}})
	w.mustAdmit(running)
	w.machine.RaiseXID(3, 31)
	w.machine.SetLost(2, true)
	eventually(t, 5*time.Second, "the lost card's devices are unhealthy, no other", func() bool { return w.kubelet.healthy(slice) == 300 })
	w.machine.SetLost(2, false)
	eventually(t, 5*time.Second, "the card is back", func() bool { return w.kubelet.healthy(slice) == 400 })
	w.machine.RaiseXID(3, 79)
	w.machine.SetNeedsReset(3, true)
	eventually(t, 5*time.Second, "all devices of the card, in use or not", func() bool { return w.kubelet.healthy(slice) == 300 })
	eventually(t, 5*time.Second, "an event on the pod whose GPU failed, and on the node", func() bool {
		list, _ := w.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
		told := map[string]bool{}
		for _, e := range list.Items {
			if e.Reason == "GPUUnhealthy" && strings.Contains(e.Message, w.gpus[3].UUID) && strings.Contains(e.Message, "XID 79") {
				told[e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name] = true
			}
		}
		return told["Pod/e"] && told["Node/n1"]
	})
	next := w.bind("next", want{"main", slice, 25, []int{3}})
	w.mustAdmit(next)
	if got := w.agree(next, "main")["FAIRSLICE_GPU_UUIDS"]; got == w.gpus[3].UUID {
		t.Error("a pod was put on the GPU that needs a reset, others have room")
	}
	w.finish(next)
	eventually(t, 5*time.Second, "the three sound cards are free", func() bool { return w.kubelet.healthy(whole) == 3 })
	for i := range 3 {
		w.mustAdmit(w.bind(fmt.Sprint("d", i), want{"main", whole, 1, []int{i}}))
	}
	w.machine.SetNeedsReset(3, false)
	eventually(t, 5*time.Second, "recovery: the card's 100 slices, its own use included", func() bool { return w.kubelet.healthy(slice) == 100 })
}

// TestRoomComesBack: an ended pod's devices return without a restart (R94), and the
// node wakes refused pods up (D 48, HAMi #1368).
func TestRoomComesBack(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	for range 3 {
		p := w.bind("a", want{"main", whole, 1, []int{0, 1, 2, 3}})
		w.mustAdmit(p)
		w.agree(p, "main")
		eventually(t, 5*time.Second, "nothing left", func() bool { return w.kubelet.healthy(slice) == 0 })
		room := w.node().Annotations[v1alpha1.AnnotationGPURoom]
		w.finish(p)
		eventually(t, 5*time.Second, "all is free", func() bool { return w.kubelet.healthy(slice) == 400 && w.kubelet.healthy(whole) == 4 })
		eventually(t, 5*time.Second, "the node tells of new room", func() bool { return w.node().Annotations[v1alpha1.AnnotationGPURoom] != room })
	}
}

// TestRefusedByTheKubeletAfterwards: Allocate said yes, another check of the kubelet
// said no; the devices come back and the next pod of the shape gets its turn (C.1).
func TestRefusedByTheKubeletAfterwards(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	w.bind("waits", want{"main", slice, 100, []int{0}})
	refused := w.bind("refused", want{"main", slice, 100, []int{1}})
	w.mustAdmit(refused)
	w.kubelet.end(refused)
	refused.Status.Phase = corev1.PodFailed
	if _, err := w.client.CoreV1().Pods("ns").UpdateStatus(context.Background(), refused, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waits, _ := w.client.CoreV1().Pods("ns").Get(context.Background(), "waits", metav1.GetOptions{})
	w.mustAdmit(waits)
	w.agree(waits, "main")
	eventually(t, 10*time.Second, "the refused pod's GPU is free", func() bool { return w.kubelet.healthy(whole) == 3 })
}

// TestForeignPlugin guards D 38 (HAMi #736, #829): refuse to start, plainly.
func TestForeignPlugin(t *testing.T) {
	for name, set := range map[string]func(*world){
		"the kubelet lists foreign devices": func(w *world) {
			w.kubelet.start()
			w.kubelet.plugins[whole] = &pluginConn{devices: map[string]string{"GPU-1234::0": "Healthy"}, cancel: func() {}}
		},
		"no kubelet, the node has the resource and no inventory of ours": func(w *world) {
			n := w.node()
			n.Status.Capacity = corev1.ResourceList{whole: resource.MustParse("4")}
			n.Status.Allocatable = n.Status.Capacity
			if _, err := w.client.CoreV1().Nodes().UpdateStatus(context.Background(), n, metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a100-40gb")
			set(w)
			err := deviceplugin.Run(t.Context(), w.opts)
			if err == nil || !strings.Contains(err.Error(), "another device plugin") || !strings.Contains(err.Error(), "option whole-resource") {
				t.Errorf("err = %v", err)
			}
			w.opts.WholeResource = "" // as the sentence says
			w.launch()
			w.kubelet.stop()
			w.kubelet.start()
			eventually(t, 5*time.Second, "slices and GiB are served", func() bool {
				return w.kubelet.healthy(slice) == 400 && w.kubelet.healthy(memory) == 160 && w.kubelet.healthy(whole) == -1
			})
		})
	}
}

// TestLargeMessages guards D 59 and D 60 (GSE #16, #156, VDP #152): the largest
// machine fits the kubelet's 4 MiB, and we take requests above it.
func TestLargeMessages(t *testing.T) {
	w := newWorld(t, "dgx-b200")
	w.kubelet.start()
	w.run()
	if got := w.kubelet.healthy(memory); got != 8*180 {
		t.Errorf("%d GiB, want %d", got, 8*180)
	}
	var available []string
	for i := range 200_000 {
		available = append(available, fmt.Sprintf("GPU-fef8089b-4820-abfc-e83e-94318197576e-_-%d", i))
	}
	w.kubelet.mu.Lock()
	client := w.kubelet.plugins[slice].client
	w.kubelet.mu.Unlock()
	if err := preferred(client, available); err != nil {
		t.Errorf("a request of %d devices: %v", len(available), err)
	}
}

// TestLostAtTheStart guards R80: the cards that answer are served.
func TestLostAtTheStart(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.machine.SetLost(1, true)
	w.kubelet.start()
	w.run()
	if got := w.kubelet.healthy(slice); got != 300 {
		t.Errorf("%d slices of the three cards that answer, want 300", got)
	}
}

// TestNamedGPULostAtTheStart: the same where the option names the GPUs to serve.
func TestNamedGPULostAtTheStart(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.opts.GPUs = []string{w.gpus[0].UUID, w.gpus[1].UUID, "3"}
	w.machine.SetLost(1, true)
	w.kubelet.start()
	w.run()
	if got := w.kubelet.healthy(slice); got != 200 {
		t.Errorf("%d slices of the two cards that answer, want 200", got)
	}
}

func preferred(client v1beta1.DevicePluginClient, available []string) error {
	_, err := client.GetPreferredAllocation(context.Background(), &v1beta1.PreferredAllocationRequest{
		ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: available, AllocationSize: 25}},
	})
	return err
}
