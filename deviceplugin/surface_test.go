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
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fairslice/fairslice/deviceplugin/cdispec"
	"github.com/fairslice/fairslice/deviceplugin/kubelet"
)

// TestCDI: by CDI a container gets names, and NVIDIA's runtime is told to add
// nothing beside them.
func TestCDI(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.opts.DeviceLists = []string{"cdi", "nvidia-cdi"}
	w.kubelet.start()
	w.run()
	if _, err := os.Stat(filepath.Join(w.opts.CDIDir, cdispec.FileName)); err != nil {
		t.Error(err)
	}
	p := w.bind("a", want{"main", slice, 25, []int{1}})
	w.mustAdmit(p)
	env, err := w.kubelet.startContainer(p, "main")
	if err != nil || env["NVIDIA_VISIBLE_DEVICES"] != "void" || env["FAIRSLICE_GPU_UUIDS"] != w.gpus[1].UUID {
		t.Errorf("environment %v, error %v", env, err)
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	for _, v := range w.kubelet.held {
		var names []string
		for _, d := range v.answer.GetCdiDevices() {
			names = append(names, d.GetName())
		}
		if got, want := strings.Join(names, " "), "fairslice.io/gpu="+w.gpus[1].UUID+" nvidia.com/gpu="+w.gpus[1].UUID; got != want {
			t.Errorf("CDI devices %s, want %s", got, want)
		}
	}
}

// TestMetrics: what is held, with DCGM's labels, and the counters.
func TestMetrics(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.opts.MetricsAddr = l.Addr().String()
	_ = l.Close()
	w.kubelet.start()
	w.run()
	p := w.bind("a", want{"main", memory, 20, []int{1}})
	w.mustAdmit(p)
	w.agree(p, "main")
	_ = w.kubelet.admit(w.pod("never", want{"main", slice, 7, nil}))
	var text string
	eventually(t, 5*time.Second, "metrics", func() bool {
		answer, err := http.Get("http://" + w.opts.MetricsAddr + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		text = string(raw)
		return answer.StatusCode == http.StatusOK
	})
	uuid := w.gpus[1].UUID
	for _, line := range []string{
		fmt.Sprintf(`fairslice_gpu_devices_held{UUID="%s",resource="fairslice.io/gpu-memory"} 20`, uuid),
		fmt.Sprintf(`fairslice_gpu_devices_room{UUID="%s",resource="fairslice.io/gpu-slice"} 50`, uuid),
		fmt.Sprintf(`fairslice_gpu_devices_room{UUID="%s",resource="nvidia.com/gpu"} 0`, uuid),
		fmt.Sprintf(`fairslice_gpu_health{UUID="%s",state="healthy"} 1`, uuid),
		fmt.Sprintf(`fairslice_container_gpu_memory_limit_mib{UUID="%s",container="main",gpu="1",modelName="NVIDIA A100-PCIE-40GB",namespace="ns",pod="a"} 20480`, uuid),
		`fairslice_allocations_refused_total 1`,
		`fairslice_registrations_total{resource="nvidia.com/gpu"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
}

// TestSeveralContainersInOneCall guards D 34: all get theirs, or none does.
func TestSeveralContainersInOneCall(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.start()
	w.run()
	w.bind("p", want{"a", memory, 2, []int{0}}, want{"b", memory, 3, []int{0}})
	w.kubelet.mu.Lock()
	client := w.kubelet.plugins[memory].client
	w.kubelet.mu.Unlock()
	short := w.gpus[0].UUID[len("GPU-") : len("GPU-")+8]
	call := func(second ...string) (*v1beta1.AllocateResponse, error) {
		return client.Allocate(context.Background(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{
			{DevicesIds: []string{short + "-0", short + "-1"}}, {DevicesIds: second},
		}})
	}
	if _, err := call("nonsense"); err == nil || !strings.Contains(err.Error(), `device "nonsense" belongs to no GPU`) {
		t.Errorf("err = %v", err)
	}
	answer, err := call(short+"-2", short+"-3", short+"-4")
	if err != nil {
		t.Fatalf("after a refused call: %v", err)
	}
	for i, mib := range []string{"2048", "3072"} {
		if got := answer.GetContainerResponses()[i].GetEnvs()["FAIRSLICE_GPU_MEMORY_MIB"]; got != mib {
			t.Errorf("container %d has %s MiB, want %s", i, got, mib)
		}
	}
	for _, bad := range []*v1beta1.AllocateRequest{{}, {ContainerRequests: []*v1beta1.ContainerAllocateRequest{{}}}} {
		if _, err := client.Allocate(context.Background(), bad); len(bad.GetContainerRequests()) > 0 && err == nil {
			t.Error("a request for no device was granted")
		}
	}
}

// TestCheckpointIsGarbage: the kubelet's file is damaged; its API answers instead.
func TestCheckpointIsGarbage(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.kubelet.noCheckpoint = true
	if err := os.WriteFile(filepath.Join(w.kubelet.dir, kubelet.CheckpointFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubelet.start()
	w.run()
	p := w.bind("a", want{"main", slice, 25, []int{1}})
	w.mustAdmit(p)
	w.agree(p, "main")
	w.stop()
	w.run()
	eventually(t, 5*time.Second, "the slice is still taken after a restart", func() bool { return w.kubelet.healthy(whole) == 3 })
}
