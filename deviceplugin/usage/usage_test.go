// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

const gib = uint64(1) << 30

func owner(pod, container string) match.Owner {
	return match.Owner{PodUID: "uid-" + pod, Namespace: "ns", Pod: pod, Container: container}
}

func grant(o match.Owner, k pool.Kind, uuid string, units, mib int64) match.Allocation {
	return match.Allocation{Owner: o, Kind: k, Confirmed: true, Shares: []pool.Share{{GPU: pool.GPU{UUID: uuid}, Units: units, MilliGPU: 10 * units, MemoryMiB: mib}}}
}

func process(pid uint32, container string, bytes uint64) Process {
	return Process{Process: hostproc.Process{PID: pid, Start: uint64(pid), Container: hostproc.Container{ID: container}}, UsedBytes: bytes}
}

// byName knows containers "pod/container".
func byName(c hostproc.Container) (match.Owner, bool) {
	pod, container, found := strings.Cut(c.ID, "/")
	return owner(pod, container), found
}

// TestOneSamplePerContainer is row D 70, the three mistakes of dcgm-exporter #307,
// #587 and #725: one value copied to every pod, pods missing, one sample per device.
func TestOneSamplePerContainer(t *testing.T) {
	held := []match.Allocation{
		grant(owner("a", "main"), pool.Memory, "g", 4, 4096),
		grant(owner("b", "main"), pool.Slice, "g", 25, 10240),
		grant(owner("c", "idle"), pool.Memory, "g", 1, 1024),
		grant(owner("d", "main"), pool.Memory, "other", 1, 1024),
	}
	unknown := process(4, "", 0)
	unknown.Unknown = true
	card := Attribute("g", held, []Process{process(1, "a/main", 3*gib), process(2, "b/main", 5*gib), process(3, "", gib), unknown}, byName)
	var got []string
	for _, s := range card.Samples {
		bytes, unknown := s.UsedBytes()
		got = append(got, fmt.Sprintf("%s %d of %d, %d unknown", s.Owner.Pod, bytes/gib, s.LimitBytes/gib, unknown))
	}
	bytes, flagged := card.ForeignBytes()
	got = append(got, fmt.Sprintf("other %d, %d unknown", bytes/gib, flagged))
	want := "a 3 of 4, 0 unknown; b 5 of 10, 0 unknown; c 0 of 1, 0 unknown; other 1, 1 unknown"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// TestTwoResourcesAndProcesses: still one sample.
func TestTwoResourcesAndProcesses(t *testing.T) {
	held := []match.Allocation{
		grant(owner("a", "main"), pool.Memory, "g", 4, 4096), grant(owner("a", "main"), pool.Slice, "g", 10, 4096),
		grant(owner("a", "side"), pool.Memory, "g", 1, 1024),
	}
	flagged := process(8, "a/main", 0)
	flagged.Unknown = true
	card := Attribute("g", held, []Process{process(9, "a/main", gib), process(7, "a/main", gib), process(6, "a/side", gib), flagged}, byName)
	if len(card.Samples) != 2 || len(card.Foreign) != 0 {
		t.Fatalf("%+v", card)
	}
	s := card.Samples[0]
	if bytes, unknown := s.UsedBytes(); bytes != 2*gib || unknown != 1 || s.LimitBytes != 8*gib || s.MilliGPU != 140 || len(s.Asked) != 2 || s.ContainerID != "a/main" {
		t.Errorf("%+v", s)
	}
}

// TestNotGiven: a container that uses a card which it was not given is foreign
// there, by name; and a guess of the owner is none.
func TestNotGiven(t *testing.T) {
	guess := grant(owner("b", "main"), pool.Memory, "g", 1, 1024)
	guess.Confirmed = false
	card := Attribute("g", []match.Allocation{grant(owner("a", "main"), pool.Memory, "other", 1, 1024), guess}, []Process{process(1, "a/main", gib), process(2, "b/main", gib)}, byName)
	if len(card.Samples) != 0 || len(card.Foreign) != 2 || card.Foreign[0].Owner != owner("a", "main") {
		t.Errorf("%+v", card)
	}
}

// TestNothingIsLostOrDoubled is rule U1 over any table of processes.
func TestNothingIsLostOrDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var held []match.Allocation
		for i := range rapid.IntRange(0, 6).Draw(t, "grants") {
			pod := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pod")
			uuid := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "gpu")
			held = append(held, grant(owner(pod, "main"), pool.Kind(i%3), uuid, 1, 1024))
		}
		var all []Process
		var total uint64
		unknown := 0
		for i := range rapid.IntRange(0, 8).Draw(t, "processes") {
			p := process(uint32(i+1), rapid.SampledFrom([]string{"a/main", "b/main", "c/main", "z/main", ""}).Draw(t, "in"), uint64(rapid.IntRange(0, 1000).Draw(t, "bytes")))
			p.Unknown = rapid.Bool().Draw(t, "unknown")
			if p.Unknown {
				unknown++
			}
			total += p.UsedBytes
			all = append(all, p)
		}
		card := Attribute("g", held, all, byName)
		bytes, flagged := card.ForeignBytes()
		seen := map[match.Owner]bool{}
		for _, s := range card.Samples {
			if seen[s.Owner] {
				t.Fatalf("two samples of %v", s.Owner)
			}
			seen[s.Owner] = true
			b, u := s.UsedBytes()
			bytes, flagged = bytes+b, flagged+u
		}
		if bytes != total || flagged != unknown {
			t.Fatalf("%d bytes and %d unknown of %d and %d", bytes, flagged, total, unknown)
		}
	})
}

func TestDirectory(t *testing.T) {
	d := NewDirectory()
	pod := func(name string, containers []string, running map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}}
		for _, c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
			if id := running[c]; id != "" {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c, ContainerID: id})
			}
		}
		return p
	}
	static := pod("static", []string{"main"}, nil)
	static.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	d.Upsert(pod("one", []string{"main"}, nil))
	d.Upsert(pod("two", []string{"main", "side"}, map[string]string{"side": "containerd://s1"}))
	d.Upsert(static)
	check := func(uid, id string, want match.Owner) {
		t.Helper()
		if got, known := d.Owner(hostproc.Container{PodUID: uid, ID: id}); got != want || known != (want != match.Owner{}) {
			t.Errorf("container %s of pod %s: %v, want %v", id, uid, got, want)
		}
	}
	check("uid-two", "s1", owner("two", "side"))
	check("", "s1", owner("two", "side")) // the reader shares the pod's cgroup
	check("uid-one", "x", owner("one", "main"))
	check("uid-two", "x", match.Owner{}) // which of the two?
	check("hash", "x", owner("static", "main"))
	check("uid-one", "", match.Owner{}) // beside the containers
	check("", "", match.Owner{})
	d.Upsert(pod("two", []string{"main", "side"}, map[string]string{"side": "containerd://s2"}))
	check("uid-two", "s1", match.Owner{})
	check("uid-two", "s2", owner("two", "side"))
	d.Delete("uid-two")
	check("uid-two", "s2", match.Owner{})
	d.Delete("uid-static")
	check("hash", "x", match.Owner{})
}
