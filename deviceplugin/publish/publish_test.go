// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/match"
)

func inventory(sizes ...int64) v1alpha1.Inventory {
	var v v1alpha1.Inventory
	for i, m := range sizes {
		model := "NVIDIA-A100"
		if m < 20000 {
			model = "Tesla-T4"
		}
		id := string(rune('a' + i))
		v.GPUs = append(v.GPUs, v1alpha1.InventoryGPU{UUID: "GPU-" + id, ID: id, Index: i, Model: model, MemoryMiB: m, Healthy: true})
	}
	return v
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sizes []int64
		want  map[string]string
	}{
		{"none", nil, map[string]string{v1alpha1.LabelGPUCount: "0", v1alpha1.LabelGPUIsolation: "none"}},
		{"equal", []int64{40960, 40960}, map[string]string{
			v1alpha1.LabelGPUCount: "2", v1alpha1.LabelGPUIsolation: "none", v1alpha1.LabelGPUModel: "NVIDIA-A100", v1alpha1.LabelGPUMemory: "40960",
		}},
		{"mixed", []int64{40960, 15360, 40960}, map[string]string{
			v1alpha1.LabelGPUCount: "3", v1alpha1.LabelGPUIsolation: "none", v1alpha1.LabelGPUModel: "mixed", v1alpha1.LabelGPUMemory: "15360",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _, err := Keys(NodeState{Inventory: inventory(tc.sizes...), Isolation: "none"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLabelValue(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "NVIDIA-A100-SXM4-40GB", "": "unknown", "  ": "unknown", "Größe": "Gr--e",
		strings.Repeat("x", 70): strings.Repeat("x", 63), strings.Repeat("x", 62) + " y": strings.Repeat("x", 62),
	} {
		if got := LabelValue(in); got != want {
			t.Errorf("LabelValue(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("NVIDIA H100 80GB HBM3")
	f.Fuzz(func(t *testing.T, in string) {
		if errs := validation.IsValidLabelValue(LabelValue(in)); errs != nil {
			t.Errorf("LabelValue(%q): %v", in, errs)
		}
	})
}

// TestNodeWritesOnlyWhatDiffers: one patch for the first state, none for the same,
// one for each growth of room (D 48, HAMi #1368).
func TestNodeWritesOnlyWhatDiffers(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"theirs": "stays"}}})
	state := NodeState{Inventory: inventory(40960), Isolation: "none", Grown: 5}
	n := &Node{Client: client, Name: "n1", Log: slog.New(slog.DiscardHandler), State: func() NodeState { return state }}
	patches := func() (count int) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" {
				count++
			}
		}
		return count
	}
	for _, step := range []struct {
		name  string
		grown int64
		want  int
	}{{"first", 5, 1}, {"same", 5, 1}, {"grows", 6, 2}, {"same again", 6, 2}, {"grows twice", 8, 3}} {
		state.Grown = step.grown
		if err := n.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := patches(); got != step.want {
			t.Errorf("%s: %d patches so far, want %d", step.name, got, step.want)
		}
	}
	node, _ := client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if node.Labels["theirs"] != "stays" || node.Annotations[v1alpha1.AnnotationGPURoom] == "" {
		t.Errorf("node metadata: %+v", node.ObjectMeta)
	}
	if _, err := v1alpha1.DecodeInventory(node.Annotations[v1alpha1.AnnotationGPUs]); err != nil {
		t.Error(err)
	}
}

// TestPodsCorrectOnce: the patch names the pod's UID; a refusal is tried again with
// a pause, a success is not repeated while the informer lags.
func TestPodsCorrectOnce(t *testing.T) {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u1"}})
	refuse := true
	var bodies []string
	client.PrependReactor("patch", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		bodies = append(bodies, string(a.(k8stesting.PatchAction).GetPatch()))
		if refuse {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	c := match.Correction{PodUID: "u1", Namespace: "ns", Pod: "a", Assignment: v1alpha1.Assignment{PodUID: "u1", Node: "n1"}}
	p := &Pods{Client: client, Log: slog.New(slog.DiscardHandler), Corrections: func() []match.Correction { return []match.Correction{c} }, tried: map[string]attempt{}}
	if wait := p.step(t.Context()); wait > maxPause || len(bodies) != 1 {
		t.Errorf("%d patches, next look in %v", len(bodies), wait)
	}
	p.step(t.Context()) // not due yet
	if len(bodies) != 1 {
		t.Errorf("%d patches before the pause was over", len(bodies))
	}
	refuse, p.tried = false, map[string]attempt{}
	p.step(t.Context())
	p.step(t.Context())
	if len(bodies) != 2 || p.Written() != 1 {
		t.Errorf("%d patches, %d written", len(bodies), p.Written())
	}
	var body struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal([]byte(bodies[1]), &body); err != nil || body.Metadata.UID != "u1" {
		t.Errorf("patch %s, error %v", bodies[1], err)
	}
}

// TestPodsPause: how soon a correction is sent again, by the API server's answer.
func TestPodsPause(t *testing.T) {
	pods := corev1.Resource("pods")
	for name, tc := range map[string]struct {
		answer error
		least  time.Duration
		most   time.Duration
	}{
		"away":              {errors.New("connection refused"), 0, maxPause},
		"written by others": {apierrors.NewConflict(pods, "a", errors.New("the object has been modified")), 0, maxPause},
		"pod gone":          {apierrors.NewNotFound(pods, "a"), reread - time.Second, reread},
		"another pod":       {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a", nil), reread - time.Second, reread},
		"taken":             {nil, reread - time.Second, reread},
	} {
		client := fake.NewClientset()
		client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, tc.answer })
		c := match.Correction{PodUID: "u1", Namespace: "ns", Pod: "a", Assignment: v1alpha1.Assignment{PodUID: "u1", Node: "n1"}}
		p := &Pods{Client: client, Log: slog.New(slog.DiscardHandler), Corrections: func() []match.Correction { return []match.Correction{c} }, tried: map[string]attempt{}}
		if wait := p.step(t.Context()); wait < tc.least || wait > tc.most {
			t.Errorf("%s: next look in %v, want %v to %v", name, wait, tc.least, tc.most)
		}
	}
}

// TestRefusedCorrectionIsTold: nobody else would say that an annotation stays wrong.
func TestRefusedCorrectionIsTold(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		err := apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("a policy denied the request"))
		err.ErrStatus.Reason = metav1.StatusReasonInvalid // as a ValidatingAdmissionPolicy does
		return true, nil, err
	})
	var log strings.Builder
	c := match.Correction{PodUID: "u1", Namespace: "ns", Pod: "a", Assignment: v1alpha1.Assignment{PodUID: "u1", Node: "n1"}}
	p := &Pods{Client: client, Log: slog.New(slog.NewTextHandler(&log, nil)), Corrections: func() []match.Correction { return []match.Correction{c} }, tried: map[string]attempt{}}
	p.step(t.Context())
	if !strings.Contains(log.String(), "a policy denied the request") {
		t.Errorf("log %q", log.String())
	}
}
