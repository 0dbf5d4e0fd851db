// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// blocks keep room for tasks of several GPUs. They are rare, and a node that
// one small task has begun takes none of the largest. For each such class the
// ratio of its demand (as in prices) to the room that nodes have for copies of
// it is charged for every copy that a placement makes impossible.
type blocks struct {
	classes []Task
	// demand in 1/scale of all; room in thousandths.
	demand, room []int64
	// copies of each class that each node has room for.
	copies [][]int32
}

// blockPercent is how much a ratio of 1 costs, of the copy's GPUs.
const blockPercent = 10

// loss is a number of copies of one class that a placement makes impossible.
type loss struct {
	class  int32
	copies int32
}

func newBlocks(classes []Class, nodes []Node) *blocks {
	b := &blocks{copies: make([][]int32, len(nodes))}
	var total int64
	for i := range classes {
		total += classes[i].Weight * classes[i].Demand()
	}
	for i := range classes {
		if c := &classes[i]; c.GPUs > 1 {
			b.classes = append(b.classes, c.Task)
			b.demand = append(b.demand, ratio(c.Weight*c.Demand(), total))
		}
	}
	b.room = make([]int64, len(b.classes))
	for i := range nodes {
		b.copies[i] = make([]int32, len(b.classes))
		b.update(i, &nodes[i])
	}
	return b
}

// copiesOf is how many tasks of a class a node has room for.
func copiesOf(t *Task, n *Node, whole int) int32 {
	if !t.Models.Has(n.Model) {
		return 0
	}
	copies := int64(whole / t.GPUs)
	if t.CPUMilli > 0 {
		copies = min(copies, n.CPUMilli/t.CPUMilli)
	}
	if t.MemoryMiB > 0 {
		copies = min(copies, n.MemoryMiB/t.MemoryMiB)
	}
	return int32(copies)
}

// update counts a node again.
func (b *blocks) update(i int, n *Node) {
	_, whole := n.free()
	for c := range b.classes {
		now := copiesOf(&b.classes[c], n, whole)
		b.room[c] += int64(now-b.copies[i][c]) * b.classes[c].Demand()
		b.copies[i][c] = now
	}
}

// losses appends what node i loses if it becomes n.
func (b *blocks) losses(i int, n *Node, to []loss) []loss {
	_, whole := n.free()
	for c := range b.classes {
		if was := b.copies[i][c]; was > 0 {
			if now := copiesOf(&b.classes[c], n, whole); now < was {
				to = append(to, loss{int32(c), was - now})
			}
		}
	}
	return to
}

// charges of one copy of each class, while free thousandths are free in all.
func (b *blocks) charges(free int64, to []int64) []int64 {
	to = to[:0]
	for c := range b.classes {
		price := min(b.demand[c]*free/(b.room[c]+Whole), priceLimit*scale)
		to = append(to, price*blockPercent/100*b.classes[c].Demand())
	}
	return to
}
