// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// agreeing are accounts of one pod with half a GPU that agree.
func agreeing() Accounts {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		v1alpha1.AnnotationGPUs: `{"v":1,"gpus":[{"uuid":"GPU-a","id":"aa","index":0,"model":"A100","memoryMiB":40960,"numa":-1,"healthy":true,"resources":[]}]}`,
	}}}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{
			v1alpha1.AnnotationGPUAssignment: `{"v":1,"uid":"u","node":"n1","containers":[{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"GPU-a","units":2,"milliGPU":20,"memoryMiB":819}]}]}`,
		}},
		Spec: corev1.PodSpec{NodeName: "n1"},
	}
	return Accounts{
		Pods: []corev1.Pod{pod}, Nodes: []corev1.Node{node},
		Ledger: kube.Dump{
			Nodes: []kube.DumpNode{{Name: "n1", GPUs: []kube.DumpGPU{{ID: "GPU-a", Milli: 20, MemoryMiB: 819, OfMiB: 40960}}}},
			Pods: []kube.DumpPod{{
				Namespace: "ns", Name: "p", UID: "u", State: "bound", Node: "n1",
				GPUs: []kube.DumpUse{{Claim: "main", GPU: "GPU-a", Milli: 20, MemoryMiB: 819}},
			}},
		},
		Kubelets: map[string][]Devices{"n1": {{Namespace: "ns", Pod: "p", Container: "main", Resource: "fairslice.io/gpu-slice", IDs: []string{"aa-0", "aa-1"}}}},
	}
}

func TestEachDifferenceIsFound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(*Accounts)
		want   string // "" for no difference
	}{
		{"accounts that agree", func(*Accounts) {}, ""},
		{"pod lost by the ledger", func(a *Accounts) { a.Ledger.Pods = nil }, "the ledger has lost pod ns/p"},
		{"pod gone from the API server", func(a *Accounts) { a.Pods, a.Kubelets = nil, nil }, "the ledger keeps pod ns/p"},
		{"other node in the ledger", func(a *Accounts) { a.Ledger.Pods[0].Node = "n2" }, `the ledger has pod ns/p on "n2"`},
		{"other share in the ledger", func(a *Accounts) { a.Ledger.Pods[0].GPUs[0].Milli = 10 }, "the ledger says 10/1000"},
		{"bind never settled", func(a *Accounts) { a.Ledger.Pods[0].State = "assumed" }, "still assumed"},
		{"card overbooked in the ledger", func(a *Accounts) { a.Ledger.Nodes[0].GPUs[0].Milli = 1020 }, "booked twice in the ledger"},
		{"card overbooked by assignments", func(a *Accounts) {
			a.Pods[0].Annotations[v1alpha1.AnnotationGPUAssignment] = strings.Replace(a.Pods[0].Annotations[v1alpha1.AnnotationGPUAssignment], `"memoryMiB":819`, `"memoryMiB":50000`, 1)
		}, "is booked twice: assignments hold"},
		{"assignment of another pod", func(a *Accounts) { a.Pods[0].UID = "v" }, "has the assignment of UID u"},
		{"kubelet gave another GPU", func(a *Accounts) { a.Kubelets["n1"][0].IDs = []string{"bb-0", "bb-1"} }, "its annotation says 0"},
		{"kubelet gave fewer units", func(a *Accounts) { a.Kubelets["n1"][0].IDs = []string{"aa-0"} }, "gave ns/p container main 1 units"},
		{"kubelet gave a device twice", func(a *Accounts) { a.Kubelets["n1"] = append(a.Kubelets["n1"], a.Kubelets["n1"][0]) }, "gave device fairslice.io/gpu-slice aa-0"},
		{"container that the annotation does not name", func(a *Accounts) { a.Kubelets["n1"][0].Container = "side" }, "which its annotation does not name"},
		{"ended pod holds nothing", func(a *Accounts) {
			a.Pods[0].Status.Phase = corev1.PodSucceeded
			a.Ledger.Pods[0].State, a.Kubelets = "released", nil
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := agreeing()
			tc.damage(&a)
			got := strings.Join(Compare(a), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q in it", got, tc.want)
			}
		})
	}
}
