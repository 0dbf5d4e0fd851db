// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/test/bed"
)

// TestSchedulersAskAboutQueuedPods runs the stock kube-scheduler with each
// shipped configuration, address and certificates apart, against an extender
// that notes who is asked about.
func TestSchedulersAskAboutQueuedPods(t *testing.T) {
	ctx := t.Context()
	asked := &notingExtender{pods: map[string][]string{}}
	web := httptest.NewServer(asked)
	t.Cleanup(web.Close)
	if err := server.cluster.AddSimulatedNodes(ctx, bed.SimulatedNode{Name: "worker", Allocatable: corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("8"), "fairslice.io/gpu-slice": resource.MustParse("800"), "fairslice.io/gpu-memory": resource.MustParse("320"),
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, "node", "worker") })

	for _, setUp := range []struct{ name, folder, scheduler string }{
		{"the cluster's own scheduler", "default", "default-scheduler"},
		{"a second scheduler", "second", "fairslice-scheduler"},
	} {
		t.Run(setUp.name, func(t *testing.T) {
			config := schedulerConfig(t, setUp.folder, web.URL)
			if err := server.cluster.StartScheduler(ctx, bed.Scheduler{Name: setUp.folder, Config: config}); err != nil {
				t.Fatal(err)
			}
			if setUp.folder == "second" {
				installSecondScheduler(t)
			}
			for _, c := range []struct {
				name   string
				labels map[string]string
				limits corev1.ResourceList
				queued bool
			}{
				{"free", nil, nil, false},
				{"of-a-queue", map[string]string{"fairslice.io/queue": "vision"}, nil, true},
				{"slice", nil, corev1.ResourceList{"fairslice.io/gpu-slice": resource.MustParse("25")}, true},
				{"whole", nil, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, true},
				{"memory", nil, corev1.ResourceList{"fairslice.io/gpu-memory": resource.MustParse("4")}, true},
			} {
				name := setUp.folder + "-" + c.name
				pod := awaitNode(ctx, t, name, c.labels, c.limits)
				if c.queued && pod.Spec.SchedulerName != setUp.scheduler {
					t.Errorf("pod %s is for scheduler %s, want %s", name, pod.Spec.SchedulerName, setUp.scheduler)
				}
				var want []string
				if c.queued {
					want = []string{"filter", "bind"} // one node needs no score
				}
				if got := asked.about(name); !slices.Equal(got, want) {
					t.Errorf("about pod %s the extender was asked %v, want %v", name, got, want)
				}
			}
		})
	}
}

// schedulerConfig is the shipped file with another address.
func schedulerConfig(t *testing.T, folder, url string) string {
	raw, err := os.ReadFile("../../manifests/scheduler/" + folder + "/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.UnmarshalStrict(raw, &config); err != nil {
		t.Fatal(err)
	}
	extender := config["extenders"].([]any)[0].(map[string]any)
	extender["urlPrefix"], extender["enableHTTPS"] = url, false
	delete(extender, "tlsConfig")
	delete(config, "leaderElection")
	delete(config, "clientConnection")
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// installSecondScheduler applies what belongs to the second set-up and waits
// until queued pods are routed to it; afterwards it takes the routing away.
func installSecondScheduler(t *testing.T) {
	ctx := t.Context()
	if _, err := server.cluster.Kubectl(ctx, "apply", "--server-side", "-k", "../../manifests/scheduler/second"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.cluster.Kubectl(context.WithoutCancel(ctx), "delete", "-k", "../../manifests/scheduler/second", "--wait=false"); err != nil {
			t.Error(err)
		}
		// The transcripts expect the cluster without routing.
		if err := server.waitFor(context.WithoutCancel(ctx), "the end of routing", func() error { return routed(context.WithoutCancel(ctx), false) }); err != nil {
			t.Error(err)
		}
	})
	if err := server.waitFor(ctx, "routing", func() error { return routed(ctx, true) }); err != nil {
		t.Fatal(err)
	}
	got := can(ctx, t, "system:serviceaccount:fairslice-system:fairslice-scheduler", strings.Join([]string{
		"create pods/binding", "update leases.coordination.k8s.io in fairslice-system named fairslice-scheduler",
	}, "\n"))
	if strings.Contains(got, "no ") {
		t.Errorf("the second scheduler lacks rights:\n%s", got)
	}
}

func routed(ctx context.Context, want bool) error {
	pod, err := server.core().CoreV1().Pods("plain").Create(ctx, simplePod("probe", map[string]string{"fairslice.io/queue": "vision"}, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && (pod.Spec.SchedulerName == "fairslice-scheduler") != want {
		return fmt.Errorf("a probe is for scheduler %s", pod.Spec.SchedulerName)
	}
	return err
}

func simplePod(name string, labels map[string]string, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "plain", Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"kubernetes.io/hostname": "worker"},
			Containers:   []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Limits: limits}}},
		},
	}
}

// awaitNode creates a pod, returns it when it is bound, and removes it.
func awaitNode(ctx context.Context, t *testing.T, name string, labels map[string]string, limits corev1.ResourceList) *corev1.Pod {
	pods := server.core().CoreV1().Pods("plain")
	if _, err := pods.Create(ctx, simplePod(name, labels, limits), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer remove(t, "pod", name)
	var pod *corev1.Pod
	err := server.waitFor(ctx, "pod "+name, func() (err error) {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("it has no node: %v", pod.Status.Conditions)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func remove(t *testing.T, kind, name string) {
	ctx := context.WithoutCancel(t.Context())
	if _, err := server.cluster.Kubectl(ctx, "delete", kind, name, "-n", "plain", "--force", "--grace-period=0"); err != nil {
		t.Error(err)
	}
}

// notingExtender agrees to everything, binds what it is told to, and remembers
// the verbs that each pod was the subject of.
type notingExtender struct {
	mu   sync.Mutex
	pods map[string][]string
}

func (e *notingExtender) about(pod string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[pod]
}

func (e *notingExtender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := strings.TrimPrefix(r.URL.Path, "/")
	var answer any
	var pod string
	switch verb {
	case "bind":
		var args extenderv1.ExtenderBindingArgs
		_ = json.NewDecoder(r.Body).Decode(&args)
		result := extenderv1.ExtenderBindingResult{}
		if err := server.core().CoreV1().Pods(args.PodNamespace).Bind(r.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: args.PodName, UID: args.PodUID}, Target: corev1.ObjectReference{Kind: "Node", Name: args.Node},
		}, metav1.CreateOptions{}); err != nil {
			result.Error = err.Error()
		}
		pod, answer = args.PodName, result
	default:
		var args extenderv1.ExtenderArgs
		_ = json.NewDecoder(r.Body).Decode(&args)
		pod, answer = args.Pod.Name, extenderv1.HostPriorityList{}
		if verb == "filter" {
			answer = extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames, FailedNodes: extenderv1.FailedNodesMap{}}
		}
	}
	e.mu.Lock()
	e.pods[pod] = append(e.pods[pod], verb)
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
