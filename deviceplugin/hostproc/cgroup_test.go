// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package hostproc

import (
	"regexp"
	"strings"
	"testing"
)

const (
	uid   = "0f7b3d4e-8a51-4c53-9d0e-6a2f1c9b7e10"
	under = "0f7b3d4e_8a51_4c53_9d0e_6a2f1c9b7e10"
	other = "11111111-2222-3333-4444-555555555555"
	hash  = "3a9c1de0ff5b4c718d2e90ab7c6d5e4f"
)

var (
	id      = strings.Repeat("c0ffee42", 8)
	nodeID  = strings.Repeat("deadbeef", 8)
	inPod   = Container{PodUID: uid, ID: id}
	nowhere Container
)

func TestParseCgroup(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       Container
	}{
		{"v2, systemd, containerd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", inPod},
		{"v2, systemd, CRI-O", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice/crio-" + id + ".scope\n", inPod},
		{"v2, systemd, CRI-O, own cgroup inside", "0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + id + ".scope/container\n", inPod},
		{"v2, systemd, Docker", "0::/kubepods.slice/kubepods-pod" + under + ".slice/docker-" + id + ".scope\n", inPod},
		{"v2, cgroupfs, containerd", "0::/kubepods/burstable/pod" + uid + "/" + id + "\n", inPod},
		{"v2, cgroupfs, guaranteed", "0::/kubepods/pod" + uid + "/" + id + "\n", inPod},
		{"v2, cgroupfs, CRI-O", "0::/kubepods/besteffort/pod" + uid + "/crio-" + id + "\n", inPod},
		{"kubelet by systemd, containerd not", "0::/system.slice/containerd.service/kubepods-burstable-pod" + under + ".slice:cri-containerd:" + id + "\n", inPod},
		{"v1, cgroupfs", "12:memory:/kubepods/burstable/pod" + uid + "/" + id + "\n11:cpu,cpuacct:/kubepods/burstable/pod" + uid + "/" + id + "\n1:name=systemd:/kubepods/burstable/pod" + uid + "/" + id + "\n", inPod},
		{"v1, systemd", "9:devices:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", inPod},
		{"hybrid, v2 empty", "1:name=systemd:/kubepods/pod" + uid + "/" + id + "\n0::/\n", inPod},
		{"some hierarchies end at the pod", "5:rdma:/\n4:pids:/kubepods/pod" + uid + "\n3:cpu:/kubepods/pod" + uid + "/" + id + "\n", inPod},
		{"static pod", "0::/kubepods/burstable/pod" + hash + "/" + id + "\n", Container{PodUID: hash, ID: id}},
		{"static pod, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + id + ".scope\n", Container{PodUID: hash, ID: id}},
		{"reader in its own namespace, systemd", "0::/../../kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", inPod},
		{"reader in its own namespace, cgroupfs", "0::/../../pod" + uid + "/" + id + "\n", inPod},
		{"same pod as the reader", "0::/../cri-containerd-" + id + ".scope\n", Container{ID: id}},
		{"kind", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", inPod},
		{"kind, seen from the host", "0::/system.slice/docker-" + nodeID + ".scope/kubelet/kubepods/burstable/pod" + uid + "/" + id + "\n", inPod},
		{"a container that makes cgroups", "0::/kubepods/pod" + uid + "/" + id + "/kubepods/pod" + other + "/" + nodeID + "\n", inPod},
		{"the same by systemd names", "0::/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope/kubepods-pod" + strings.ReplaceAll(other, "-", "_") + ".slice\n", inPod},
		{"CRI-O's monitor is not the container", "0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-conmon-" + id + ".scope\n", Container{PodUID: uid}},
		{"Docker without Kubernetes", "0::/system.slice/docker-" + id + ".scope\n", Container{ID: id}},
		{"a service of the host", "0::/system.slice/nvidia-persistenced.service\n", nowhere},
		{"a shell", "0::/user.slice/user-0.slice/session-3.scope\n", nowhere},
		{"a UID that is too short", "0::/kubepods/pod0f7b3d4e/" + id[:40] + "\n", nowhere},
		{"a word that begins with pod", "0::/podman.slice/podcast\n", nowhere},
		{"colons in a path", "0::/a:b/kubepods/pod" + uid + "/" + id + "\n", inPod},
		{"no line feed", "0::/kubepods/pod" + uid + "/" + id, inPod},
		{"nothing", "", nowhere},
		{"garbage", "::\n:\n\x00\n7\n", nowhere},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ParseCgroup(tc.text); got != tc.want {
				t.Errorf("%s\n  got  %+v\n  want %+v", tc.text, got, tc.want)
			}
		})
	}
}

var (
	uidForm = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})?$`)
	idForm  = regexp.MustCompile(`^([0-9a-f]{64})?$`)
)

// FuzzParseCgroup: whatever the text, the answer has the form of a UID and an ID,
// both are in the text, and what a container adds below itself changes nothing.
func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n")
	f.Add("1:name=systemd:/kubepods/pod" + uid + "/crio-" + id + "\n0::/\n")
	f.Add("::::")
	f.Fuzz(func(t *testing.T, text string) {
		c := ParseCgroup(text)
		if !uidForm.MatchString(c.PodUID) || !idForm.MatchString(c.ID) {
			t.Fatalf("%q gives %+v", text, c)
		}
		if !strings.Contains(text, c.ID) || !strings.Contains(strings.ReplaceAll(text, "_", "-"), c.PodUID) {
			t.Fatalf("%q does not hold %+v", text, c)
		}
		below := "0::/kubepods/pod" + uid + "/" + id + "/" + strings.NewReplacer("\n", "", "\r", "").Replace(text)
		if got := ParseCgroup(below); got != inPod {
			t.Fatalf("%q gives %+v: a container has named another", below, got)
		}
	})
}
