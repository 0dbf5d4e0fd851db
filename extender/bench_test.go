// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

const (
	benchNodes = 1000
	benchGPUs  = 8 // of each node
)

// benchLedger is a real ledger of 1000 nodes with 8 GPUs each and one queue.
func benchLedger(b *testing.B) (*kube.Ledger, []string) {
	b.Helper()
	ledger := kube.NewLedger(kube.DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	var names []string
	for i := range benchNodes {
		name := fmt.Sprintf("node-%04d", i)
		names = append(names, name)
		ledger.SetNode(benchNode(b, name))
	}
	ledger.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	return ledger, names
}

func benchNode(b *testing.B, name string) *corev1.Node {
	b.Helper()
	inventory := v1alpha1.Inventory{}
	for i := range benchGPUs {
		id := fmt.Sprintf("%s-%d", name, i)
		inventory.GPUs = append(inventory.GPUs, v1alpha1.InventoryGPU{
			UUID: "GPU-" + id, ID: id, Index: i, Model: "A100", MemoryMiB: 40960, NUMANode: -1, Healthy: true,
			Resources: []string{v1alpha1.ResourceWholeGPU, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory},
		})
	}
	text, err := inventory.Encode()
	if err != nil {
		b.Fatal(err)
	}
	units := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationGPUs: text}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				"cpu": units(64), "memory": units(512 << 30), "pods": units(110),
				v1alpha1.ResourceWholeGPU: units(benchGPUs), v1alpha1.ResourceGPUSlice: units(100 * benchGPUs),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func benchPod(i int) *corev1.Pod {
	quarter := corev1.ResourceList{v1alpha1.ResourceGPUSlice: resource.MustParse("25")}
	name := fmt.Sprintf("pod-%d", i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.LabelQueue: "team"},
			CreationTimestamp: metav1.Unix(int64(i), 0),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.example/team/image:1", Resources: corev1.ResourceRequirements{Requests: quarter, Limits: quarter},
			Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 200)}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// BenchmarkFilterAndBind is the data path of one planned pod over HTTP:
// kube-scheduler sends 1000 nodes to filter and then binds. Both calls must stay
// under 2 ms at the 99th percentile.
func BenchmarkFilterAndBind(b *testing.B) {
	ledger, names := benchLedger(b)
	api := newFakeAPI()
	s, err := New(Options{Ledger: ledger, Binder: api, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	ledger.Decide()
	var filters, binds []time.Duration
	for i := 0; b.Loop(); i++ {
		pod := benchPod(i)
		body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
		if err != nil {
			b.Fatal(err)
		}
		ledger.SetPod(pod)
		ledger.Decide()
		var kept struct{ NodeNames []string }
		filters = append(filters, timedPost(b, srv.URL+"/filter", string(body), &kept))
		if len(kept.NodeNames) != 1 {
			b.Fatalf("pod %d: filter kept %d nodes, want the planned one", i, len(kept.NodeNames))
		}
		var result extenderv1.ExtenderBindingResult
		args := fmt.Sprintf(`{"PodName":%q,"PodNamespace":"ns","PodUID":%q,"Node":%q}`, pod.Name, pod.UID, kept.NodeNames[0])
		binds = append(binds, timedPost(b, srv.URL+"/bind", args, &result))
		if result.Error != "" || api.bound[string(pod.UID)] == "" {
			b.Fatalf("pod %d was not bound: %s", i, result.Error)
		}
	}
	for _, m := range []struct {
		name  string
		times []time.Duration
	}{{"filter", filters}, {"bind", binds}} {
		slices.Sort(m.times)
		p50, p99 := m.times[len(m.times)/2], m.times[len(m.times)*99/100]
		b.ReportMetric(float64(p50.Microseconds()), m.name+"-p50-µs")
		b.ReportMetric(float64(p99.Microseconds()), m.name+"-p99-µs")
		if len(m.times) >= 100 && p99 > 2*time.Millisecond {
			b.Errorf("%s: p50 is %s and p99 %s of %d calls, must be under 2 ms", m.name, p50, p99, len(m.times))
		}
	}
}

func timedPost(b *testing.B, url, body string, into any) time.Duration {
	b.Helper()
	started := time.Now()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	took := time.Since(started)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		b.Fatalf("%s: %v", raw, err)
	}
	return took
}
