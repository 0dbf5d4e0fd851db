// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import "slices"

// fill measures what would be left over if tasks kept arriving at the node
// until none fits: the mean over fixed sequences of arrivals. The sequences are
// the same for every node, so that differences between nodes are not noise, and
// stratified: at each step, the sequences together see the classes in
// proportion. Tasks without GPU count for half, as they have other places to
// go.
type fill struct {
	sequences [][]arrival
	// leastDemand and leastCPU of any task with GPU: below them nothing fits.
	leastDemand int64
	leastCPU    int64
	room        []int32
}

const (
	fillSequences = 64
	fillSteps     = 60
	fillSeed      = 7
	// Weights in halves.
	withGPU, withoutGPU = 2, 1
)

// arrival is a task in the form that the inner loop reads.
type arrival struct {
	cpu, memory, demand int64
	models              Models
	milli               int32
	gpus                int32
}

func newFill(classes []Class) *fill {
	v := &fill{leastDemand: Whole, leastCPU: 1 << 62}
	ends := make([]int64, len(classes))
	var total int64
	for i := range classes {
		c := &classes[i]
		if c.GPUs > 0 {
			total += withGPU * c.Weight
			v.leastDemand, v.leastCPU = min(v.leastDemand, c.Demand()), min(v.leastCPU, c.CPUMilli)
		} else {
			total += withoutGPU * c.Weight
		}
		ends[i] = total
	}
	if total == 0 {
		return v
	}
	random := NewRandom(fillSeed)
	v.sequences = make([][]arrival, fillSequences)
	strata := make([]int64, fillSequences)
	for i := range strata {
		strata[i] = int64(i)
	}
	for range fillSteps {
		random.Shuffle(len(strata), func(i, j int) { strata[i], strata[j] = strata[j], strata[i] })
		for s := range v.sequences {
			low, high := total*strata[s]/fillSequences, total*(strata[s]+1)/fillSequences
			at := low + int64(random.Below(uint64(max(high-low, 1))))
			i, _ := slices.BinarySearchFunc(ends, at, func(end, at int64) int {
				if end > at {
					return 1
				}
				return -1
			})
			v.sequences[s] = append(v.sequences[s], newArrival(&classes[i].Task))
		}
	}
	return v
}

func newArrival(t *Task) arrival {
	a := arrival{t.CPUMilli, t.MemoryMiB, t.Demand(), t.Models, t.Milli, int32(t.GPUs)}
	if a.models == 0 {
		a.models = ^Models(0)
	}
	return a
}

func (v *fill) of(n *Node, free int64, whole int) int64 {
	if len(v.sequences) == 0 || free < v.leastDemand || n.CPUMilli < v.leastCPU {
		return free * scale
	}
	var left int64
	for _, sequence := range v.sequences {
		left += v.leftOver(n, free, whole, sequence)
	}
	return left * (scale / fillSequences)
}

// leftOver runs one sequence on a copy of the node. A share goes to the fullest
// GPU that takes it.
func (v *fill) leftOver(n *Node, free int64, whole int, sequence []arrival) int64 {
	v.room = append(v.room[:0], n.Free...)
	room, cpu, memory, model := v.room, n.CPUMilli, n.MemoryMiB, Models(1)<<uint(n.Model)
	for i := range sequence {
		a := &sequence[i]
		if a.cpu > cpu || a.demand > free || a.memory > memory {
			continue
		}
		switch {
		case a.gpus == 0:
		case a.models&model == 0:
			continue
		case a.milli == Whole:
			if whole < int(a.gpus) {
				continue
			}
			whole -= int(a.gpus)
			takeWhole(room, int(a.gpus))
		default:
			g := fullest(room, a.milli)
			if g < 0 {
				continue
			}
			if room[g] == Whole {
				whole--
			}
			room[g] -= a.milli
		}
		cpu, memory, free = cpu-a.cpu, memory-a.memory, free-a.demand
		if free < v.leastDemand || cpu < v.leastCPU {
			break
		}
	}
	return free
}

func takeWhole(room []int32, count int) {
	for g := range room {
		if room[g] == Whole {
			room[g] = 0
			if count--; count == 0 {
				return
			}
		}
	}
}

// fullest is the GPU with the least room that is enough, −1 if there is none.
func fullest(room []int32, milli int32) int {
	best, least := -1, int32(Whole+1)
	for g, f := range room {
		if f >= milli && f < least {
			best, least = g, f
		}
	}
	return best
}
