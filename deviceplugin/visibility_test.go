// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVolumeMounts: GPUs are named by mounts that a pod cannot make itself.
func TestVolumeMounts(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.opts.DeviceLists = []string{"volume-mounts"}
	w.kubelet.start()
	w.run()
	p := w.bind("a", want{"main", whole, 1, []int{1, 2}})
	w.mustAdmit(p)
	env, err := w.kubelet.startContainer(p, "main")
	if err != nil || env["NVIDIA_VISIBLE_DEVICES"] != "/var/run/nvidia-container-devices" {
		t.Errorf("environment %v, error %v", env, err)
	}
	got := map[string]string{}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	for _, v := range w.kubelet.held {
		for _, m := range v.answer.GetMounts() {
			got[m.GetContainerPath()] = m.GetHostPath()
		}
	}
	for _, i := range []int{1, 2} {
		if at := "/var/run/nvidia-container-devices/" + w.gpus[i].UUID; got[at] != "/dev/null" {
			t.Errorf("mounts %v, want %s", got, at)
		}
	}
	if len(got) != 2 {
		t.Errorf("mounts %v, want two", got)
	}
}

// TestToolkitThatLetsContainersChoose is told by an event on the node; a strict one
// and one that is not there are not.
func TestToolkitThatLetsContainersChoose(t *testing.T) {
	w := newWorld(t, "a100-40gb")
	w.opts.ToolkitConfig = filepath.Join(t.TempDir(), "config.toml")
	w.kubelet.start()
	w.opts.DeviceLists = []string{"volume-mounts"}
	w.run() // without a file
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(w.opts.ToolkitConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.run()
	}
	write("accept-nvidia-visible-devices-as-volume-mounts = true\naccept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
	time.Sleep(300 * time.Millisecond)
	list, err := w.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "GPUVisibility" {
			t.Errorf("a strict toolkit and mounts, and an event: %s", e.Message)
		}
	}
	write("")
	w.event("GPUVisibility", "volume-mounts, because NVIDIA's container toolkit does not accept mounts")
	w.opts.DeviceLists = []string{"envvar"}
	w.stop()
	w.run()
	w.event("GPUVisibility", "containers can reach GPUs that they were not given")
}
