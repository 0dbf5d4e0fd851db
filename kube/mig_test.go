// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// TestMIG plays the commands of TestLedger with nodes whose GPUs are in MIG mode:
//
//	mignode n1 instances=(1g.5gb=4,3g.20gb=1) [whole=1] [single] [healthy=2] [offers=4]
//	    a node of our device plugin: instances on one card, GPUs without MIG beside;
//	    the first so many instances are healthy; the kubelet offers so many of each
//	migpod p [uid=u] queue=q instances=(1g.5gb=1) [isolation=mig] [node=n1] [holds=<UUID>]
//	charged             what each queue holds
func TestMIG(t *testing.T) {
	datadriven.Walk(t, "testdata/mig", func(t *testing.T, path string) {
		p := migPlayer{newPlayer()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := p.play(d)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

type migPlayer struct{ *player }

func (p migPlayer) play(d *datadriven.TestData) (string, error) {
	name, a := argsOf(d)
	switch d.Cmd {
	case "mignode":
		return "", p.migNode(name, a)
	case "migpod":
		pod := podOf(name, a, p.time)
		for profile, n := range profiles(a) {
			c := &pod.Spec.Containers[0]
			q := *resource.NewQuantity(int64(n), resource.DecimalSI)
			c.Resources.Requests[corev1.ResourceName("nvidia.com/mig-"+profile)], c.Resources.Limits[corev1.ResourceName("nvidia.com/mig-"+profile)] = q, q
			if a.has("holds") {
				text, err := v1alpha1.Assignment{PodUID: string(pod.UID), Node: a["node"], Containers: []v1alpha1.ContainerAssignment{{
					Name: "main", Resource: "nvidia.com/mig-" + profile, GPUs: []v1alpha1.AssignedGPU{{UUID: a["holds"], Units: 1, MilliGPU: 142, MemoryMiB: 4864}},
				}}}.Encode()
				if err != nil {
					return "", err
				}
				pod.Annotations[v1alpha1.AnnotationGPUAssignment] = text
			}
		}
		if a.has("isolation") {
			pod.Annotations[v1alpha1.AnnotationMinIsolation] = a["isolation"]
		}
		p.pods[string(pod.UID)] = pod
		p.ledger.SetPod(pod)
		return p.holdings(), nil
	case "charged":
		var out strings.Builder
		for _, q := range p.ledger.Queues() {
			fmt.Fprintf(&out, "%s holds %d thousandths of a GPU\n", q.Object.Name, q.Report.Allocated[model.ResourceGPU])
		}
		return out.String(), nil
	}
	return p.player.play(d)
}

// profiles are how many instances of each profile are named.
func profiles(a args) map[string]int {
	out := map[string]int{}
	for part := range strings.SplitSeq(a["instances"], ",") {
		profile, n, _ := strings.Cut(part, "=")
		out[profile], _ = strconv.Atoi(n)
	}
	return out
}

func (p migPlayer) migNode(name string, a args) error {
	n := nodeOf(name)
	v, err := v1alpha1.DecodeInventory(inventoryOf(name, a.number("whole", 0), 40960, a.number("whole", 0)))
	if err != nil {
		return err
	}
	setCount(n.Status.Allocatable, v1alpha1.ResourceWholeGPU, a.number("whole", 0))
	setCount(n.Status.Allocatable, v1alpha1.ResourceGPUSlice, 100*a.number("whole", 0))
	made := 0
	for part := range strings.SplitSeq(a["instances"], ",") {
		profile, count, _ := strings.Cut(part, "=")
		number, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		r, model := "nvidia.com/mig-"+profile, "A100"
		if a.has("single") {
			r, model = v1alpha1.ResourceWholeGPU, "A100-MIG-"+profile
		}
		setCount(n.Status.Allocatable, r, a.number("offers", number))
		for range number {
			made++
			v.GPUs = append(v.GPUs, v1alpha1.InventoryGPU{
				UUID: fmt.Sprintf("MIG-%s-%d", name, made), ID: fmt.Sprintf("mig%d", made), MIG: profile, Card: name + "-card", Model: model, MemoryMiB: 4864,
				NUMANode: -1, Healthy: made <= a.number("healthy", 99), Resources: []string{r},
			})
		}
	}
	text, err := v.Encode()
	if err != nil {
		return err
	}
	n.Annotations = map[string]string{v1alpha1.AnnotationGPUs: text}
	level := v1alpha1.IsolationMIG
	if a.has("whole") {
		level = v1alpha1.IsolationNone
	}
	n.Labels[v1alpha1.LabelGPUIsolation] = level
	// NVIDIA's label says less than the inventory, and must not contradict it.
	n.Labels[labelNVIDIAMIGStrategy] = "mixed"
	p.ledger.SetNode(n)
	return nil
}
