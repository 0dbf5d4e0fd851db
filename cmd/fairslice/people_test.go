// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

func fromYAML[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestQueuesAreShownAsATree(t *testing.T) {
	queues := fromYAML[[]v1alpha1.Queue](t, `
- metadata: {name: vision}
  spec: {parent: research, priority: 120, quota: {gpu: 4}, limit: {gpu: "6"}}
  status: {fairShare: {gpu: "5500m"}, allocated: {gpu: "4250m"}, requested: {gpu: "9"}, pending: {pods: 3, workloads: 2}}
- metadata: {name: research}
  spec: {quota: {gpu: unlimited}}
- metadata: {name: orphan}
  spec: {parent: gone}
- metadata: {name: a}
  spec: {parent: b}
- metadata: {name: b}
  spec: {parent: a}
`)
	want := `
QUEUE     PRIORITY  QUOTA      LIMIT  FAIR SHARE  ALLOCATED  REQUESTED  PENDING PODS
orphan    100       0          -      -           -          -          0
research  100       unlimited  -      -           -          -          0
  vision  120       4          6      5.5         4.25       9          3
a         100       0          -      -           -          -          0
  b       100       0          -      -           -          -          0
`
	var got strings.Builder
	if err := writeQueues(&got, queues); err != nil {
		t.Fatal(err)
	}
	if got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}
}

func TestTopShowsWhoHoldsWhichGPU(t *testing.T) {
	node := func(name, annotations string) string {
		return "- metadata: {name: " + name + ", annotations: {" + annotations + "}}\n"
	}
	nodes := fromYAML[[]corev1.Node](t, node("n2", "")+"  status: {allocatable: {nvidia.com/gpu: \"8\"}}\n"+
		node("n1", `fairslice.io/gpus: '{"v":1,"gpus":[{"uuid":"GPU-a","id":"a","index":0,"model":"A100","memoryMiB":40960,"numa":-1,"healthy":true,"resources":[]},{"uuid":"GPU-b","id":"b","index":1,"model":"A100","memoryMiB":40960,"numa":-1,"healthy":false,"resources":[]}]}'`)+
		node("m1", `fairslice.io/gpus: '{"v":1,"gpus":[{"uuid":"MIG-a","id":"a","mig":"1g.5gb","card":"GPU-c","index":0,"model":"A100","memoryMiB":4864,"numa":-1,"healthy":true,"resources":[]},{"uuid":"MIG-b","id":"b","mig":"2g.10gb","card":"GPU-d","index":1,"model":"A100-MIG-2g.10gb","memoryMiB":9856,"numa":-1,"healthy":true,"resources":[]}]}'`)+
		node("n3", `fairslice.io/gpus: 'x'`)+node("cpu-only", ""))
	pods := []corev1.Pod{
		assigned("half", "n1", `{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"GPU-a","units":50,"milliGPU":500,"memoryMiB":20480}]}`),
		assigned("quarter", "n1", `{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"GPU-a","units":25,"milliGPU":250,"memoryMiB":10240}]}`),
		assigned("instance", "m1", `{"name":"main","resource":"nvidia.com/mig-1g.5gb","gpus":[{"uuid":"MIG-a","units":1,"milliGPU":142,"memoryMiB":4864}]}`),
		assigned("foreign", "n2", `{"name":"main","resource":"nvidia.com/gpu","gpus":[{"units":1,"milliGPU":1000,"memoryMiB":0}]}`),
	}
	done := assigned("done", "n1", `{"name":"main","resource":"nvidia.com/gpu","gpus":[{"uuid":"GPU-b","units":1,"milliGPU":1000,"memoryMiB":40960}]}`)
	done.Status.Phase = corev1.PodSucceeded
	var got strings.Builder
	if err := writeGPUs(&got, nodes, append(pods, done)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	for i, want := range []string{
		"NODE GPU MODEL MEMORY IN USE PODS",
		"m1 0 A100 MIG 1g.5gb 4864 MiB ██████████ 100% instance 100%",
		"1 A100 MIG 2g.10gb 9856 MiB ░░░░░░░░░░ 0%",
		"n1 0 A100 40960 MiB ███████░░░ 75% half 50%, quarter 25%",
		"1 A100 40960 MiB ░░░░░░░░░░ 0% UNHEALTHY",
		"n2 8 GPUs whole GPUs only foreign 100%",
		"n3 annotation fairslice.io/gpus: value is not the expected JSON: invalid character 'x' looking for beginning of value",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d\n got %s\nwant %s", i+1, got, want)
		}
	}
}

func assigned(name, node, container string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u", Annotations: map[string]string{
			v1alpha1.AnnotationGPUAssignment: `{"v":1,"uid":"u","node":"` + node + `","containers":[` + container + `]}`,
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

func TestWhyIsOneSentence(t *testing.T) {
	running := assigned("p", "n1", `{"name":"main","resource":"fairslice.io/gpu-slice","gpus":[{"uuid":"GPU-a","units":50,"milliGPU":500,"memoryMiB":20480}]}`)
	waiting := fromYAML[corev1.Pod](t, `
metadata: {name: p, namespace: ns, labels: {fairslice.io/queue: team}}
status: {conditions: [{type: PodScheduled, status: "False", message: "queue team: limit of 6 GPUs reached"}]}`)
	planned := fromYAML[corev1.Pod](t, `
metadata: {name: p, namespace: ns}
status: {nominatedNodeName: n1}`)
	unnamed := fromYAML[corev1.Pod](t, `
metadata: {name: p, namespace: ns}
status: {conditions: [{type: PodScheduled, status: "False", message: "queue default: limit of 6 GPUs reached"}]}`)
	for _, tc := range []struct {
		pod  corev1.Pod
		want string
	}{
		{unnamed, "pod ns/p waits: queue default: limit of 6 GPUs reached\n"},
		{running, "pod ns/p is on node n1; container main holds 50% (20480 MiB) of GPU-a\n"},
		{waiting, "pod ns/p waits in queue team: queue team: limit of 6 GPUs reached\n"},
		{planned, "pod ns/p has its place on node n1 and is about to be bound\n"},
		{fromYAML[corev1.Pod](t, `{metadata: {name: p, namespace: ns}}`), "pod ns/p waits and has not been looked at yet\n"},
		{fromYAML[corev1.Pod](t, `{metadata: {name: p, namespace: ns}, status: {phase: Failed}}`), "pod ns/p has ended: Failed\n"},
	} {
		var got strings.Builder
		if err := writeWhy(&got, &tc.pod, ""); err != nil || got.String() != tc.want {
			t.Errorf("got  %swant %s", got.String(), tc.want)
		}
	}
}

// TestNamespaceIsForOnePod: what shows the whole cluster takes none, and ignores
// none either.
func TestNamespaceIsForOnePod(t *testing.T) {
	for name, want := range map[string]bool{"why": true, "queues": false, "top": false} {
		cmd, _, err := newRootCommand().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if has := cmd.Flags().Lookup("namespace") != nil; has != want {
			t.Errorf("%s has the flag --namespace: %t, want %t", name, has, want)
		}
	}
}
