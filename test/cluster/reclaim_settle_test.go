// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	lists "slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/sim"
	"github.com/fairslice/fairslice/test/stack"
)

// tenant is one of the queues that compete for the cluster.
type tenant struct {
	name                string
	quota, weight, pods int
}

// tenants are 40 queues whose 2000 pods ask for twice what there is.
func tenants() (out []tenant) {
	for i := range 40 {
		out = append(out, tenant{
			name:  fmt.Sprintf("q%02d", i),
			quota: []int{0, 10, 15, 25}[i%4], weight: 1 + i%3, pods: 30 + i + i%2,
		})
	}
	return out
}

const settleNodes, gpusPerNode = 500, 2

// simulated asks `fairslice simulate` for each queue's share and what it gets of
// the same cluster. Queues are given in the order of the API server, which
// decides who gets the odd GPU.
func (f fixture) simulated(all []tenant) map[string]int {
	f.t.Helper()
	age := f.queueOrder()
	var nodes, queues, workloads []any
	for i := range settleNodes {
		nodes = append(nodes, map[string]any{"name": fmt.Sprintf("n%03d", i), "gpus": gpusPerNode, "gpuMemoryMiB": 40960, "cpuMilli": 64000, "memoryMiB": 512 * 1024})
	}
	for _, q := range all {
		queues = append(queues, map[string]any{
			"name": q.name, "creationOrder": age[q.name], "quota": gpus(q.quota),
			"overQuotaWeight": map[string]any{"gpu": q.weight, "cpuMilli": 1, "memoryMiB": 1},
		})
		for i := range q.pods {
			workloads = append(workloads, map[string]any{
				"name": fmt.Sprintf("%s-%d", q.name, i), "queue": q.name, "replicas": 1,
				"request": map[string]any{"gpu": 1, "cpuMilli": 100, "memoryMiB": 0},
			})
		}
	}
	input, err := json.Marshal(map[string]any{
		"nodes": nodes, "queues": queues, "workloads": workloads, "rounds": map[string]any{"mode": "full", "until": 10, "after": 0},
	})
	f.must(err)
	command := exec.CommandContext(f.ctx, f.Binary, "simulate", "-f", "-", "-o", "json")
	command.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		f.t.Fatalf("fairslice simulate: %v: %s", err, stderr.String())
	}
	var report sim.Report
	f.must(json.Unmarshal(output, &report))
	shares := map[string]int{}
	for _, q := range report.Rounds[len(report.Rounds)-1].Queues {
		if q.FairShare["gpu"] != q.Allocated["gpu"] {
			f.t.Errorf("in the simulation queue %s holds %d/1000 GPUs of its share of %d/1000", q.Name, q.Allocated["gpu"], q.FairShare["gpu"])
		}
		shares[q.Name] = int(q.FairShare["gpu"] / 1000)
	}
	return shares
}

// queueOrder ranks the queues by creation, then name, as the core does.
func (f fixture) queueOrder() map[string]int {
	f.t.Helper()
	list, err := f.Dynamic.Resource(v1alpha1.QueueResource).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	lists.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
	order := map[string]int{}
	for i, q := range list.Items {
		order[q.GetName()] = i + 1
	}
	return order
}

// TestQueuesSettleToTheirFairShares: half of the queues fill the cluster before
// the other half comes; in the end each holds what the simulation says.
func TestQueuesSettleToTheirFairShares(t *testing.T) {
	var nodes []stack.GPUNode
	for i := range settleNodes {
		nodes = append(nodes, stack.A100(fmt.Sprintf("n%03d", i), gpusPerNode))
	}
	f := use(t, nodes...)
	all := tenants()
	for _, q := range all {
		f.queue(q.name, map[string]any{"quota": gpus(q.quota), "overQuotaWeight": gpus(q.weight)})
	}
	old, young := all[20:], all[:20]
	before := f.settle(old, old)
	seen, refusedBefore := f.evictions(), f.refusals()
	shares := f.settle(young, all)
	needed := 0
	for _, q := range old {
		needed += before[q.name] - shares[q.name]
	}
	// Pods of a queue do not come all at once, and while they come the odd GPU
	// may go from one queue to another: one for each queue. Who was refused a
	// place by kube-scheduler, which learns late that it is free, takes another.
	refused := f.refusals() - refusedBefore
	if n := len(seen.all()); n < needed || n > needed+len(old)+refused {
		t.Errorf("%d pods were evicted, want %d and besides not more than one for each of %d queues and %d refused places", n, needed, len(old), refused)
	}
	f.statusSays(shares)
	f.consistent()
}

// refusals counts the planned nodes that kube-scheduler has refused so far.
func (f fixture) refusals() int {
	f.t.Helper()
	log, err := f.Logs(stack.ControlPlane)
	f.must(err)
	return strings.Count(log, "kube-scheduler refused the planned node")
}

// settle brings the pods of some queues and waits until each of all queues that
// have pods now holds what the simulation gives it, and goes on holding it.
func (f fixture) settle(fresh, all []tenant) (shares map[string]int) {
	f.t.Helper()
	shares = f.simulated(all)
	for _, q := range fresh {
		f.replicas(q.name, q.pods, stack.Queue(q.name), stack.Whole(1))
	}
	want := map[string]int{}
	for _, q := range all {
		want[q.name+"-"] = shares[q.name]
	}
	f.eventuallyRun(10*time.Minute, want)
	f.cycles(10)
	f.eventuallyRun(30*time.Second, want)
	return shares
}

// statusSays checks what the queues themselves show.
func (f fixture) statusSays(shares map[string]int) {
	f.t.Helper()
	f.eventually(15*time.Second, func() string {
		for name, share := range shares {
			q, err := f.Dynamic.Resource(v1alpha1.QueueResource).Get(f.ctx, name, metav1.GetOptions{})
			f.must(err)
			for _, field := range []string{"fairShare", "allocated"} {
				if got, _, _ := unstructured.NestedString(q.Object, "status", field, "gpu"); got != fmt.Sprint(share) {
					return fmt.Sprintf("queue %s shows %s %q GPUs, the simulation says %d", name, field, got, share)
				}
			}
		}
		return ""
	})
}
