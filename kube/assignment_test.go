// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// drawPod draws a pod with up to three init containers, sidecars among them,
// and three others, each of which may ask for GPU.
func drawPod(t *rapid.T) *corev1.Pod {
	pod := podOf("p", args{}, time.Unix(1_800_000_000, 0))
	pod.Spec.Containers = nil
	count := rapid.SampledFrom([]string{"", "", "2"}).Draw(t, "gpu-count")
	if count != "" {
		pod.Annotations[v1alpha1.AnnotationGPUCount] = count
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init") {
		c := drawContainer(t, fmt.Sprintf("i%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "main") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, fmt.Sprintf("c%d", i)))
	}
	return pod
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{Name: name}
	limit := func(name string, n int) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): *resource.NewQuantity(int64(n), resource.DecimalSI)}
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		limit(v1alpha1.ResourceWholeGPU, rapid.IntRange(1, 3).Draw(t, "gpus"))
	case 2:
		limit(v1alpha1.ResourceGPUSlice, 2*rapid.IntRange(1, 50).Draw(t, "slices"))
	case 3:
		limit(v1alpha1.ResourceGPUMemory, 2*rapid.IntRange(1, 20).Draw(t, "gib"))
	}
	return c
}

// drawHeld gives every claim GPUs, as a plan on cards of 40960 MiB would.
func drawHeld(t *rapid.T, claims []model.GPUClaim) []model.HeldGPU {
	var held []model.HeldGPU
	for _, c := range claims {
		first := rapid.IntRange(0, 4).Draw(t, "first GPU")
		for i := range c.Count {
			h := model.HeldGPU{Claim: c.Name, GPU: fmt.Sprintf("g%d", first+i), Milli: milliPerGPU, MemoryMiB: gpuMiB}
			switch c.Kind {
			case model.GPUSlice:
				h.Milli, h.MemoryMiB = c.Milli, model.MemoryOfMilli(c.Milli, gpuMiB)
			case model.GPUMemory:
				h.Milli, h.MemoryMiB = model.MilliOfMemory(c.MemoryMiB, gpuMiB), c.MemoryMiB
			}
			held = append(held, h)
		}
	}
	return held
}

// TestAssignmentSurvivesTheAPIServer: what a pod was given is what a new leader
// reads back from its annotation. Only rounding to whole thousandths may differ,
// by less than one for each container.
func TestAssignmentSurvivesTheAPIServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := DefaultConfig()
		f := config.factsOf(drawPod(t))
		if f.invalid != nil || len(f.pod.Claims) == 0 {
			t.Skip("asks for nothing")
		}
		held := drawHeld(t, f.pod.Claims)
		text, err := encodeAssignment(f, "n1", held, true)
		if err != nil {
			t.Fatal(err)
		}
		f.assignment, f.node = text, "n1"
		back, err := decodeAssignment(f)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(back) != len(held) {
			t.Fatalf("held %v, read back %v from %s", held, back, text)
		}
		for i := range held {
			a, b := held[i], back[i]
			slack := int64(len(f.parts)) * 100 // a part of one unit scales to the claim's hundred
			if a.Claim != b.Claim || a.GPU != b.GPU || a.Milli-b.Milli > slack || b.Milli > a.Milli ||
				a.MemoryMiB-b.MemoryMiB > slack || b.MemoryMiB > a.MemoryMiB {
				t.Fatalf("held %v, read back %v from %s", held, back, text)
			}
		}
	})
}

// TestAssignmentOfUnknownGPUs: on a node without our plugin nobody knows which
// GPUs the kubelet hands out.
func TestAssignmentOfUnknownGPUs(t *testing.T) {
	config := DefaultConfig()
	f := config.factsOf(podOf("p", args{"gpu": "2"}, time.Now()))
	held := []model.HeldGPU{{Claim: "main", GPU: "gpu-0000", Milli: 1000}, {Claim: "main", GPU: "gpu-0001", Milli: 1000}}
	text, err := encodeAssignment(f, "n1", held, false)
	if err != nil || strings.Contains(text, "gpu-0000") {
		t.Fatalf("assignment is %s, error %v, want no GPU named", text, err)
	}
	f.assignment, f.node = text, "n1"
	if back, err := decodeAssignment(f); back != nil || err != nil {
		t.Errorf("read back %v, error %v, want neither", back, err)
	}
}

// TestCorrectedAssignment: the kubelet kept the containers of one claim on
// different GPUs; each GPU is charged for what runs there.
func TestCorrectedAssignment(t *testing.T) {
	config := DefaultConfig()
	pod := podOf("p", args{}, time.Now())
	limit := func(n int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPUSlice: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: limit(50)}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: limit(20)}}
	f := config.factsOf(pod)
	f.node = "n1"
	f.assignment = `{"v":1,"uid":"p","node":"n1","containers":[` +
		`{"name":"i","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"a","units":50,"milliGPU":500,"memoryMiB":500}]},` +
		`{"name":"c","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"b","units":20,"milliGPU":200,"memoryMiB":200}]}]}`
	got, err := decodeAssignment(f)
	want := []model.HeldGPU{
		{Claim: "i", GPU: "a", Milli: 500, MemoryMiB: 500},
		{Claim: "i", GPU: "b", Milli: 200, MemoryMiB: 200},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
}

// TestForgedAssignments: an annotation of another pod or node, or with other
// amounts than the pod asks for, is refused with a sentence.
func TestForgedAssignments(t *testing.T) {
	good := `{"v":1,"uid":"p","node":"n1","containers":[{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"a","units":50,"milliGPU":500,"memoryMiB":500}]}]}`
	config := DefaultConfig()
	f := config.factsOf(podOf("p", args{"slice": "50"}, time.Now()))
	f.node, f.assignment = "n1", good
	if held, err := decodeAssignment(f); err != nil || len(held) != 1 {
		t.Fatalf("the good one gives %v, error %v", held, err)
	}
	for old, forged := range map[string]string{
		`"uid":"p"`:                `"uid":"q"`,
		`"node":"n1"`:              `"node":"n2"`,
		`"units":50`:               `"units":5`,
		`"name":"main"`:            `"name":"other"`,
		`fairslice.io/gpu-slice`:   `nvidia.com/gpu`,
		`"memoryMiB":500`:          `"memoryMiB":9223372036854775807`,
		`"gpus":[{"uuid":"a",`:     `"gpus":[{"uuid":"b","units":50,"milliGPU":0,"memoryMiB":0},{"uuid":"a",`,
		`"v":1`:                    `"v":2`,
		`{"v":1,"uid":"p","node":`: `{"v":1,"uid":"p","more":1,"node":`,
	} {
		f.assignment = strings.Replace(good, old, forged, 1)
		if held, err := decodeAssignment(f); err == nil {
			t.Errorf("%s is read as %v, want an error", f.assignment, held)
		}
	}
}

// FuzzDecodeAssignment: whatever the annotation says, no GPU is charged more
// than it has and nothing panics.
func FuzzDecodeAssignment(f *testing.F) {
	f.Add(`{"v":1,"uid":"p","node":"n1","containers":[{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"a","units":25,"milliGPU":250,"memoryMiB":10240}]}]}`, uint8(1))
	f.Add(`{"v":1,"uid":"p","node":"n1","containers":[]}`, uint8(0))
	f.Add(``, uint8(3))
	config := DefaultConfig()
	kinds := []args{{"slice": "25"}, {"slice": "50", "count": "2"}, {"gpu": "2"}, {"mem": "20"}}
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		facts := config.factsOf(podOf("p", kinds[int(kind)%len(kinds)], time.Unix(0, 0)))
		facts.node, facts.assignment = "n1", text
		held, err := decodeAssignment(facts)
		if err != nil && held != nil {
			t.Fatalf("both %v and %v", held, err)
		}
		for _, h := range held {
			if h.Milli < 0 || h.Milli > milliPerGPU || h.MemoryMiB < 0 || h.MemoryMiB > maxMemoryGiB*mibPerGiB*slicesPerGPU {
				t.Fatalf("%s gives %+v", text, h)
			}
		}
	})
}

// FuzzPod: a pod with any annotations, labels and amounts is translated without
// a panic, and what is wrong with it is one sentence that names it.
func FuzzPod(f *testing.F) {
	f.Add("2", "pack", "mig", "true", "50", int64(50))
	f.Add("NaN", "", "none", "yes", "9Ei", int64(-1))
	config := DefaultConfig()
	f.Fuzz(func(t *testing.T, count, placement, isolation, preemptible, quantity string, units int64) {
		pod := podOf("p", args{}, time.Unix(0, 0))
		pod.Annotations = map[string]string{
			v1alpha1.AnnotationGPUCount: count, v1alpha1.AnnotationGPUPlacement: placement, v1alpha1.AnnotationMinIsolation: isolation,
		}
		pod.Labels = map[string]string{v1alpha1.LabelPreemptible: preemptible}
		limits := corev1.ResourceList{v1alpha1.ResourceGPUSlice: *resource.NewQuantity(units, resource.DecimalSI)}
		if q, err := resource.ParseQuantity(quantity); err == nil {
			limits[corev1.ResourceMemory] = q
			limits["nvidia.com/mig-1g.10gb"] = q
		}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits}}}
		facts := config.factsOf(pod)
		if facts.invalid != nil && !strings.HasPrefix(facts.invalid.Message, "pod default/p: ") {
			t.Fatalf("the reason is %q", facts.invalid.Message)
		}
		for name, n := range facts.pod.Request {
			if n < 0 || int64(n) > largest {
				t.Fatalf("%s is %d", name, n)
			}
		}
	})
}

// FuzzNode: whatever a node's annotation says, its other resources stay usable.
func FuzzNode(f *testing.F) {
	f.Add(inventoryOf("n1", 2, gpuMiB, 1), "81920")
	f.Add("{", "-1")
	config := DefaultConfig()
	f.Fuzz(func(t *testing.T, annotation, memory string) {
		n := nodeOf("n1")
		n.ObjectMeta = metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{v1alpha1.AnnotationGPUs: annotation}, Labels: map[string]string{labelNVIDIAMemoryMiB: memory}}
		facts := config.nodeFactsOf(n)
		if (facts.trouble == "") != facts.identified {
			t.Fatalf("identified is %v with trouble %q", facts.identified, facts.trouble)
		}
		if facts.node.Allocatable[model.ResourceCPU] != 64000 {
			t.Fatalf("the node has %v", facts.node.Allocatable)
		}
		if err := model.NewCluster(model.DefaultSettings()).SetNode(facts.node); err != nil {
			t.Fatalf("the model refuses what was read as good: %v", err)
		}
	})
}
