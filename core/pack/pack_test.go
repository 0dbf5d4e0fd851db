// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The first numbers that the generator's authors' C code gives for the seed.
func TestRandomIsSplitMix64(t *testing.T) {
	r := NewRandom(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := r.Next(); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

func TestBelowIsEven(t *testing.T) {
	r := NewRandom(1)
	var counts [6]int
	for range 60_000 {
		counts[r.Below(6)]++
	}
	for n, count := range counts {
		if count < 9_500 || count > 10_500 {
			t.Errorf("%d came %d times of 60,000", n, count)
		}
	}
}

func excerpt(t testing.TB) *Trace {
	t.Helper()
	nodes, err := os.Open("testdata/nodes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	tasks, err := os.Open("testdata/tasks.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	trace, err := ReadTrace(nodes, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestReadTraceNamesFileLineAndColumn(t *testing.T) {
	const nodes, tasks = "cpu_milli,memory_mib,gpu,model\n1000,1,2,T4\n", "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,500\n"
	for _, tc := range []struct{ nodes, tasks, want string }{
		{"", tasks, "nodes: the file is empty"},
		{"cpu_milli,gpu\n", tasks, "nodes: column memory_mib is missing; the header has cpu_milli, gpu"},
		{"cpu_milli,memory_mib,gpu\n1,1,x\n", tasks, `nodes line 2: gpu is "x"; allowed: whole numbers from 0 to 1024`},
		{nodes, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,1001\n", `tasks line 2: gpu_milli is "1001"; allowed: whole numbers from 0 to 1000`},
		{nodes, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,0\n", "tasks line 2: gpu_milli is 0 for a task with a GPU"},
		{nodes, "cpu_milli,memory_mib,num_gpu,gpu_milli\n-1,1,1,1\n", `tasks line 2: cpu_milli is "-1"`},
		{nodes, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1\n", "tasks: record on line 2: wrong number of fields"},
	} {
		_, err := ReadTrace(strings.NewReader(tc.nodes), strings.NewReader(tc.tasks))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
	trace, err := ReadTrace(strings.NewReader(nodes), strings.NewReader(tasks))
	if err != nil || trace.Capacity() != 2000 || trace.Tasks[0].Milli != 500 || trace.Tasks[0].Models != 0 {
		t.Errorf("%+v, %v", trace, err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add("cpu_milli,memory_mib,gpu,model\n1000,1,2,T4\n", "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1,1,1,500,T4|P100\n")
	f.Fuzz(func(t *testing.T, nodes, tasks string) {
		trace, err := ReadTrace(strings.NewReader(nodes), strings.NewReader(tasks))
		if err != nil {
			return
		}
		for i := range trace.Tasks {
			if k := &trace.Tasks[i]; k.GPUs > 0 && (k.Milli < 1 || k.Milli > Whole) || k.CPUMilli < 0 {
				t.Errorf("%+v", k)
			}
		}
	})
}

func TestArrivalsAreShuffledRepeatedAndEnoughForTheDemand(t *testing.T) {
	trace := excerpt(t)
	one, err := trace.Arrivals(1, 130)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := trace.Arrivals(1, 130)
	other, _ := trace.Arrivals(2, 130)
	if !slices.Equal(one, same) || slices.Equal(one, other) {
		t.Error("a seed must mean the same order always, and another seed another order")
	}
	var demand int64
	for i := range one {
		demand += one[i].Demand()
	}
	last := one[len(one)-1].Demand()
	if goal := trace.Capacity() * 130 / 100; demand < goal || demand-last >= goal {
		t.Errorf("demand is %d, want just over %d", demand, goal)
	}
}

// genNode and genTask are small, so that tasks often just fit or just do not.
func genNode(t *rapid.T) Node {
	n := Node{
		Model: rapid.IntRange(0, 2).Draw(t, "model"), CPUMilli: rapid.Int64Range(0, 40).Draw(t, "cpu") * 1000,
		MemoryMiB: rapid.Int64Range(1, 64).Draw(t, "memory") * 1024,
	}
	for range rapid.IntRange(0, 4).Draw(t, "gpus") {
		n.Free = append(n.Free, Whole)
	}
	return n
}

func genTask(t *rapid.T) Task {
	task := Task{CPUMilli: rapid.Int64Range(0, 12).Draw(t, "cpu") * 1000, MemoryMiB: rapid.Int64Range(0, 8).Draw(t, "memory") * 1024}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
	case 1:
		task.GPUs, task.Milli = rapid.IntRange(1, 4).Draw(t, "count"), Whole
	default:
		task.GPUs, task.Milli = 1, int32(rapid.IntRange(1, 99).Draw(t, "milli")*10)
	}
	if task.GPUs > 0 && rapid.Bool().Draw(t, "constrained") {
		task.Models = Models(rapid.IntRange(1, 7).Draw(t, "models"))
	}
	return task
}

func cloneNodes(nodes []Node) []Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Free = slices.Clone(nodes[i].Free)
	}
	return out
}

// What a cluster remembers must never change its choice: a cluster that
// remembers nothing, made from the same nodes, chooses the same.
func TestRememberedCostsChooseLikeFreshOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(Policies).Draw(t, "policy")
		nodes := rapid.SliceOfN(rapid.Custom(genNode), 1, 5).Draw(t, "nodes")
		kinds := rapid.SliceOfN(rapid.Custom(genTask), 1, 4).Draw(t, "kinds")
		classes := Classes(kinds)
		c := NewCluster(policy, classes, cloneNodes(nodes), 3)
		type live struct {
			task Task
			node int
			gpus []int
		}
		var running []live
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(running) > 0 && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				c.Give(&running[i].task, running[i].node, running[i].gpus)
				running = slices.Delete(running, i, i+1)
				continue
			}
			task := rapid.SampledFrom(kinds).Draw(t, "task")
			fresh := NewCluster(policy, classes, cloneNodes(c.Nodes), 3)
			// Scarcity is that of the empty cluster.
			fresh.scorer = NewScorer(policy, classes, nodes)
			wantNode, wantGPUs, wantOK := fresh.Place(&task)
			node, gpus, ok := c.Place(&task)
			if ok != wantOK || node != wantNode || !slices.Equal(gpus, wantGPUs) {
				t.Fatalf("chose node %d GPUs %v %v, fresh %d %v %v", node, gpus, ok, wantNode, wantGPUs, wantOK)
			}
			if ok {
				running = append(running, live{task, node, gpus})
			}
		}
		for _, r := range running {
			c.Give(&r.task, r.node, r.gpus)
		}
		for i := range nodes {
			if c.Nodes[i].CPUMilli != nodes[i].CPUMilli || !slices.Equal(c.Nodes[i].Free, nodes[i].Free) {
				t.Fatalf("node %d is not as it was: %+v", i, c.Nodes[i])
			}
		}
	})
}

// Nothing is declined: a task is dropped only if no node has room for it. Replay
// itself verifies that nothing is lost and no node overcommitted.
func TestReplayDropsOnlyWhatFitsNowhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(genNode), 1, 5).Draw(t, "nodes")
		tasks := rapid.SliceOfN(rapid.Custom(genTask), 1, 30).Draw(t, "tasks")
		c := NewCluster(rapid.SampledFrom(Policies).Draw(t, "policy"), Classes(tasks), cloneNodes(nodes), 3)
		for i := range tasks {
			fits := false
			for n := range c.Nodes {
				c.Nodes[n].choices(&tasks[i], func([]int) { fits = true })
			}
			if _, _, ok := c.Place(&tasks[i]); ok != fits {
				t.Fatalf("task %+v: placed %v, fits %v", tasks[i], ok, fits)
			}
		}
	})
}

// A search for room that fails leaves no trace, and one that succeeds moves at
// most what it may.
func TestMakeRoomKeepsEverythingRunning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := &Trace{
			Nodes: rapid.SliceOfN(rapid.Custom(genNode), 1, 5).Draw(t, "nodes"),
			Tasks: rapid.SliceOfN(rapid.Custom(genTask), 1, 30).Draw(t, "tasks"), Models: []string{"a", "b", "c"},
		}
		o := Options{Policy: ExpectedFill, ArrivePercent: 130, Seed: 1}
		if _, err := trace.Arrivals(1, 130); err != nil {
			return
		}
		plain, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Consolidate, o.MaxMoves = true, 2
		moved, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		if moved.Moves > 2*moved.Arrived || plain.Moves != 0 {
			t.Fatalf("%d moves for %d arrivals", moved.Moves, moved.Arrived)
		}
	})
}
