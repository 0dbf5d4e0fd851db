// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"fmt"
	"slices"
)

// Points are the shares of the GPU capacity, in percent, at whose arrival a
// replay reports.
var Points = []int{80, 90, 95, 100, 110, 120, 130}

// Options of a replay.
type Options struct {
	Policy Policy
	// ArrivePercent of the GPU capacity arrives in all; 130 in the paper.
	ArrivePercent int64
	Seed          uint64
	// Learn makes the policy know only the classes seen so far, in place of the
	// trace's mix.
	Learn bool
	// Consolidate moves running tasks for one that does not fit.
	Consolidate bool
	// MaxMoves for one task; 0 means the default.
	MaxMoves int
}

// Outcome of a replay.
type Outcome struct {
	Seed uint64
	// AllocatedPPM is the allocated share of all GPU capacity, in millionths,
	// by Points that were reached; MovesAt the moves until then.
	AllocatedPPM map[int]int64
	MovesAt      map[int]int
	Arrived      int
	Dropped      int
	Moves        int
}

// placed is a running task.
type placed struct {
	task Task
	node int
	gpus []int
}

// run is the state of a replay.
type run struct {
	cluster  *Cluster
	options  Options
	maxMoves int
	// running tasks by node.
	running [][]*placed
	// slack are nodes with CPU left; failed remembers at which count of changes
	// no room could be made for a class.
	slack   []int
	changes int
	failed  map[Task]int
}

// Replay lets the tasks arrive one by one. Each stays for ever once placed, and
// is dropped if it does not fit at its arrival.
func Replay(t *Trace, o Options) (*Outcome, error) {
	arrivals, err := t.Arrivals(o.Seed, o.ArrivePercent)
	if err != nil {
		return nil, err
	}
	nodes := slices.Clone(t.Nodes)
	for i := range nodes {
		nodes[i].Free = slices.Clone(t.Nodes[i].Free)
	}
	var expected []Class
	if !o.Learn {
		expected = Classes(t.Tasks)
	}
	r := &run{
		cluster: NewCluster(o.Policy, expected, nodes, len(t.Models)), options: o,
		maxMoves: o.MaxMoves, running: make([][]*placed, len(nodes)), failed: map[Task]int{},
	}
	if r.maxMoves == 0 {
		r.maxMoves = defaultMaxMoves
	}
	return r.replay(arrivals, t.Capacity())
}

func (r *run) replay(arrivals []Task, capacity int64) (*Outcome, error) {
	out := &Outcome{Seed: r.options.Seed, AllocatedPPM: map[int]int64{}, MovesAt: map[int]int{}, Arrived: len(arrivals)}
	var demand, allocated int64
	learnAt := firstLesson
	for i := range arrivals {
		task := &arrivals[i]
		if r.options.Learn && i == learnAt {
			r.cluster.Expect(r.options.Policy, Classes(arrivals[:i]))
			learnAt *= 2
		}
		demand += task.Demand()
		moves, ok := r.admit(task)
		if ok {
			allocated += task.Demand()
			out.Moves += moves
		} else {
			out.Dropped++
		}
		for _, point := range Points {
			if _, done := out.AllocatedPPM[point]; !done && demand*100 >= int64(point)*capacity {
				out.AllocatedPPM[point] = allocated * 1_000_000 / capacity
				out.MovesAt[point] = out.Moves
			}
		}
	}
	return out, r.verify(allocated, capacity)
}

// firstLesson is after how many arrivals a learning policy first counts what it
// saw; then whenever the number has doubled.
const firstLesson = 64

// admit places a task, moving others if that is allowed and needed.
func (r *run) admit(task *Task) (moves int, ok bool) {
	node, gpus, ok := r.cluster.Place(task)
	if !ok && r.options.Consolidate {
		node, gpus, moves, ok = r.makeRoom(task)
	}
	if !ok {
		return 0, false
	}
	r.changes++
	r.running[node] = append(r.running[node], &placed{*task, node, gpus})
	return moves, true
}

// verify counts again from what runs: nothing is lost, nothing runs twice, no
// node is overcommitted.
func (r *run) verify(allocated, capacity int64) error {
	var running, free int64
	for i := range r.cluster.Nodes {
		n := &r.cluster.Nodes[i]
		left, _ := n.free()
		free += left
		for _, p := range r.running[i] {
			running += p.task.Demand()
		}
		if n.CPUMilli < 0 || n.MemoryMiB < 0 || slices.ContainsFunc(n.Free, func(f int32) bool { return f < 0 || f > Whole }) {
			return fmt.Errorf("node %d is overcommitted: a bug", i)
		}
	}
	if running != allocated || free+running != capacity {
		return fmt.Errorf("%d thousandths allocated, %d running, %d free of %d: a bug", allocated, running, free, capacity)
	}
	return nil
}

// MedianPPM is the median of the allocated shares at a point, in millionths (of
// an even number, the mean of the middle two), and false if no seed reached it.
func MedianPPM(outcomes []*Outcome, point int) (int64, bool) {
	var values []int64
	for _, o := range outcomes {
		if v, ok := o.AllocatedPPM[point]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}
