// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

const (
	realNode = "real"
	realPod  = "in-container"
)

// startRealNode adds a node with a kubelet, containerd and the device plugin,
// which serves a simulated machine of GPUs, and the pod that runs there.
func startRealNode(ctx context.Context, s *stack.Stack) (item, error) {
	if os.Geteuid() != 0 {
		return item{}, fmt.Errorf("it needs root")
	}
	step("starting a real node: containerd, kubelet and the device plugin with 8 simulated A100 (about 10 s)")
	if _, err := s.StartRealNode(ctx, stack.RealNodeOptions{Kubelet: bed.KubeletOptions{Name: realNode}}); err != nil {
		return item{}, err
	}
	p := stack.Pod(realPod, stack.Queue("vision"), stack.Slice(25), stack.OnNode(corev1.LabelHostname, realNode))
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].Image = bed.BusyboxImage
	p.Spec.Containers[0].Command = []string{"sh", "-c", "env; exec sleep 86400"}
	return item{pod: p, shows: "a real container on its slice", expect: runs}, nil
}

// showRealNode prints what the container on the real node was told.
func showRealNode(ctx context.Context, s *stack.Stack, v view) {
	if state, _, _ := v.state(realPod); state != runs {
		return
	}
	stream, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(realPod, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		fmt.Println("read the container's log:", err)
		return
	}
	defer stream.Close()
	raw, err := io.ReadAll(stream)
	if err != nil {
		fmt.Println("read the container's log:", err)
		return
	}
	fmt.Printf("\nWhat the container of pod %s sees on node %s:\n", realPod, realNode)
	lines := strings.Split(string(raw), "\n")
	sort.Strings(lines)
	for _, line := range lines {
		for _, prefix := range []string{"NVIDIA_", "CUDA_", "FAIRSLICE_"} {
			if strings.HasPrefix(line, prefix) {
				fmt.Println("  " + line)
			}
		}
	}
}

func folder(path string) string { return filepath.Dir(path) }
