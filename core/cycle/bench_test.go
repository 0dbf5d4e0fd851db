// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// The benchmarks time one decision. Their clusters are built outside of the
// timed part, and each checks that the decision was made.

// fixture is a cluster of nodes with 8 GPUs each and queues with equal quotas.
type fixture struct {
	tb    testing.TB
	c     *model.Cluster
	nodes int
	pods  int
	age   int64
}

func newFixture(tb testing.TB, nodes int, queues ...model.Queue) *fixture {
	f := &fixture{tb: tb, c: model.NewCluster(model.DefaultSettings()), nodes: nodes}
	f.c.SetNow(1_000_000_000_000)
	for i := range nodes {
		n := model.Node{Name: nodeName(i), Ready: true, Allocatable: model.Quantities{
			model.ResourceCPU: 128_000, model.ResourceMemory: 1 << 40, model.ResourcePods: 110,
		}}
		for g := range 8 {
			n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(g), Model: "H200", MemoryMiB: 141_000, Healthy: true, Shareable: true})
		}
		f.ok(f.c.SetNode(n))
	}
	for _, q := range queues {
		f.ok(f.c.SetQueue(q))
	}
	return f
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

func (f *fixture) ok(err error) {
	f.tb.Helper()
	if err != nil {
		f.tb.Fatal(err)
	}
}

// leaf is a queue below root with a quota of whole GPUs and weight 1.
func leaf(name string, gpus int) model.Queue {
	return model.Queue{
		Name: name, Parent: "root", Priority: 100, PreemptMinRuntime: -1, ReclaimMinRuntime: -1,
		Quota:           model.Quantities{model.ResourceGPU: amount.Amount(1000 * gpus)},
		OverQuotaWeight: model.Quantities{model.ResourceGPU: 1},
	}
}

func root() model.Queue {
	return model.Queue{
		Name: "root", Priority: 100, PreemptMinRuntime: -1, ReclaimMinRuntime: -1,
		Quota: model.Quantities{model.ResourceGPU: amount.Unlimited},
	}
}

// gang adds a workload of pods with whole GPUs; node is where pod i runs, ""
// for waiting ones.
func (f *fixture) gang(queue string, pods, gpus int, node func(i int) string) string {
	f.age++
	key := fmt.Sprintf("ns/%s-%06d", queue, f.age)
	f.ok(f.c.SetWorkload(model.Workload{
		Key: key, Queue: queue, Priority: 50, Preemptible: true, MinMember: pods,
		CreatedAt: f.age, StaleGrace: -1, Recreated: true,
	}))
	for i := range pods {
		f.pods++
		p := model.Pod{
			UID: fmt.Sprintf("%s-%d", key, i), Name: fmt.Sprintf("%s-%d", key, i), Workload: key, CreatedAt: f.age,
			Request: model.Quantities{model.ResourceCPU: 1000, model.ResourceMemory: 1 << 30},
			Claims:  []model.GPUClaim{{Name: "main", Kind: model.WholeGPU, Count: gpus}},
		}
		if n := node(i); n != "" {
			p.State, p.Node = model.Bound, n
		}
		f.ok(f.c.SetPod(p))
	}
	return key
}

func waits(int) string { return "" }

// fill runs one-GPU workloads of a queue on every GPU.
func (f *fixture) fill(queue string) {
	for i := range f.nodes {
		for range 8 {
			f.gang(queue, 1, 1, func(int) string { return nodeName(i) })
		}
	}
}

// decide runs the benchmark and hands the plan to check.
func (f *fixture) decide(b *testing.B, check func(p cycle.Plan) error) {
	b.Helper()
	f.c.Settle()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if err := check(cycle.Decide(f.c)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

// cpuTime is what this process has used of the processors, which, unlike the
// clock, says something on a machine that others use as well.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func exactly(placed, evicted int) func(cycle.Plan) error {
	return func(p cycle.Plan) error {
		if len(p.Placements) != placed || len(p.Evictions) != evicted {
			return fmt.Errorf("%d placed and %d evicted, want %d and %d", len(p.Placements), len(p.Evictions), placed, evicted)
		}
		return nil
	}
}

func BenchmarkAllocate100Nodes500Jobs(b *testing.B) {
	f := newFixture(b, 100, root(), leaf("a", 400), leaf("b", 400))
	for i := range 500 {
		f.gang([]string{"a", "b"}[i%2], 1, 1, waits)
	}
	f.decide(b, exactly(500, 0))
}

func BenchmarkReclaimWholeNodes(b *testing.B) {
	for _, nodes := range []int{100, 200, 500, 1000, 5000} {
		for _, part := range []int{2, 10} {
			b.Run(fmt.Sprintf("nodes=%d/job=%d", nodes, nodes/part), func(b *testing.B) {
				f := newFixture(b, nodes, root(), leaf("a", 4*nodes), leaf("b", 4*nodes))
				f.fill("a")
				f.gang("b", nodes/part, 8, waits)
				f.decide(b, exactly(nodes/part, 8*nodes/part))
			})
		}
	}
}

func BenchmarkHopelessJob(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f := newFixture(b, nodes, root(), leaf("a", 4*nodes), leaf("b", 4*nodes))
			for i := range nodes {
				for g := range 8 {
					key := f.gang("a", 1, 1, func(int) string { return nodeName(i) })
					if g == 0 {
						w, _ := f.c.Workload(key)
						w.Preemptible = false
						f.ok(f.c.SetWorkload(w))
					}
				}
			}
			f.gang("b", 10, 8, waits)
			f.decide(b, exactly(0, 0))
		})
	}
}

func BenchmarkReclaimManySmall(b *testing.B) {
	for _, nodes := range []int{100, 200, 500} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f := newFixture(b, nodes, root(), leaf("a", 0), leaf("b", 8*nodes))
			f.fill("a")
			for range 8 * nodes {
				f.gang("b", 1, 1, waits)
			}
			f.decide(b, exactly(8*nodes, 8*nodes))
		})
	}
}

func BenchmarkBacklog10000PodsOnto5000Nodes(b *testing.B) {
	f := newFixture(b, 5000, root(), leaf("a", 20_000), leaf("b", 20_000))
	for i := range 10_000 {
		f.gang([]string{"a", "b"}[i%2], 1, 1+i%2, waits)
	}
	f.decide(b, exactly(10_000, 0))
}

func BenchmarkOnePodChanged(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f := newFixture(b, nodes, root(), leaf("a", 4*nodes), leaf("b", 4*nodes))
			f.fill("a")
			key := f.gang("b", 1, 1, waits)
			var last string
			f.c.PodsOf(key, func(p model.Pod) bool { last = p.UID; return true })
			free := "ns/a-000001-0"
			f.c.RemovePod(free)
			cycle.Decide(f.c)
			pod, _ := f.c.Pod(last)
			b.ReportAllocs()
			for b.Loop() {
				f.ok(f.c.SetPod(pod))
				if p := cycle.Decide(f.c); len(p.Placements) != 1 {
					b.Fatalf("%d placed, want 1", len(p.Placements))
				}
			}
		})
	}
}

func BenchmarkWaitingGangs(b *testing.B) {
	for _, gangs := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("gangs=%d", gangs), func(b *testing.B) {
			f := newFixture(b, 100, root(), leaf("a", 800), leaf("b", 0))
			f.fill("a")
			for range gangs {
				f.gang("b", 4, 1, waits)
			}
			f.decide(b, func(p cycle.Plan) error {
				if len(p.Waits) != gangs {
					return fmt.Errorf("%d waits, want %d", len(p.Waits), gangs)
				}
				return nil
			})
		})
	}
}

func BenchmarkConsolidate(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f := newFixture(b, nodes, root(), leaf("a", 8*nodes))
			for i := range nodes {
				for range 7 {
					f.gang("a", 1, 1, func(int) string { return nodeName(i) })
				}
			}
			f.gang("a", 1, 4, waits)
			f.decide(b, exactly(1, 3))
		})
	}
}

// BenchmarkTopologyPreempt is a gang of whole nodes that has to preempt all of
// its room in one zone of 200 nodes.
func BenchmarkTopologyPreempt(b *testing.B) {
	for _, pods := range []int{50, 200} {
		b.Run(fmt.Sprintf("nodes=1000/pods=%d", pods), func(b *testing.B) {
			f := newFixture(b, 1000, root(), leaf("a", 8000))
			f.ok(f.c.SetTopology(model.Topology{Name: "net", Levels: []string{"zone"}}))
			for i := range 1000 {
				n, _ := f.c.Node(nodeName(i))
				n.Labels = map[string]string{"zone": fmt.Sprint(i / 200)}
				f.ok(f.c.SetNode(n))
				f.gang("a", 1, 8, func(int) string { return nodeName(i) })
			}
			key := f.gang("a", pods, 8, waits)
			w, _ := f.c.Workload(key)
			w.Priority, w.Topology = 100, &model.TopologyConstraint{Topology: "net", Required: "zone"}
			f.ok(f.c.SetWorkload(w))
			f.decide(b, exactly(pods, pods))
		})
	}
}

// BenchmarkRestart builds the books of a large cluster and decides once.
func BenchmarkRestart(b *testing.B) {
	for b.Loop() {
		f := newFixture(b, 5000, root(), leaf("a", 40_000))
		for i := range 5000 {
			for range 28 {
				f.share("a", nodeName(i))
			}
		}
		f.gang("a", 1, 1, waits)
		if p := cycle.Decide(f.c); len(p.Placements) != 1 {
			b.Fatalf("%d placed, want 1", len(p.Placements))
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(f)
	}
}

// share adds a running pod with a quarter of a GPU.
func (f *fixture) share(queue, node string) {
	f.age++
	key := fmt.Sprintf("ns/%s-%06d", queue, f.age)
	f.ok(f.c.SetWorkload(model.Workload{Key: key, Queue: queue, Priority: 50, Preemptible: true, MinMember: 1, CreatedAt: f.age, StaleGrace: -1, Recreated: true}))
	f.ok(f.c.SetPod(model.Pod{
		UID: key, Name: key, Workload: key, CreatedAt: f.age, State: model.Bound, Node: node,
		Request: model.Quantities{model.ResourceCPU: 1000, model.ResourceMemory: 1 << 30},
		Claims:  []model.GPUClaim{{Name: "main", Kind: model.GPUSlice, Count: 1, Milli: 250}},
	}))
}
