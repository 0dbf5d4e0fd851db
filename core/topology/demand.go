// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// demand is what the tasks of a group need together.
type demand struct {
	tasks []*model.LivePod
	// sum is indexed by node resource; whole GPUs in thousandths come last.
	sum []int64
	// shapes are the distinct shapes with their numbers of tasks.
	shapes []shapeCount
}

type shapeCount struct {
	shape *model.Shape
	tasks int
}

func demandOf(c *model.Cluster, tasks []*model.LivePod, width int) demand {
	d := demand{tasks: tasks, sum: make([]int64, width+1)}
	at := map[*model.Shape]int{}
	for _, p := range tasks {
		i, ok := at[p.Shape]
		if !ok {
			i = len(d.shapes)
			at[p.Shape] = i
			d.shapes = append(d.shapes, shapeCount{shape: p.Shape})
		}
		d.shapes[i].tasks++
	}
	for _, sc := range d.shapes {
		for _, need := range sc.shape.Needs {
			d.sum[need.Resource] += need.Amount * int64(sc.tasks)
		}
		d.sum[width] += int64(c.Estimate(sc.shape)[model.AtGPU]) * int64(sc.tasks)
	}
	return d
}

// supply is what a domain has free.
type supply struct {
	sum []int64
	// fits is, per shape of the demand, how many of its tasks fit, each shape
	// counted as if it were alone.
	fits []int
}

func (s *supply) addNode(d *demand, c *model.Cluster, n *model.LiveNode) {
	for i := range n.Cap {
		s.sum[i] += max(0, n.Cap[i]-n.Booked[i])
	}
	s.sum[len(s.sum)-1] += int64(n.WholeFree) * 1000
	for i, sc := range d.shapes {
		if s.fits[i] < sc.tasks && fit.Static(c, sc.shape, n) == fit.Allowed {
			s.fits[i] += fit.Count(sc.shape, n, sc.tasks)
		}
	}
}

func (s *supply) add(o *supply) {
	for i := range s.sum {
		s.sum[i] += o.sum[i]
	}
	for i := range s.fits {
		s.fits[i] += o.fits[i]
	}
}

// room is how many of the tasks fit, as far as counting each shape alone can
// tell.
func (s *supply) room(d *demand) int {
	n := 0
	for i, sc := range d.shapes {
		n += min(s.fits[i], sc.tasks)
	}
	return n
}

// holds says whether the demand may fit.
func (s *supply) holds(d *demand) bool {
	if s.room(d) < len(d.tasks) {
		return false
	}
	if len(d.shapes) == 1 {
		return true
	}
	for i := range d.sum[:len(d.sum)-1] {
		if d.sum[i] > s.sum[i] {
			return false
		}
	}
	return true
}

// load is need over free of the scarcest resource, as an exact ratio. A
// resource that is wanted and has nothing free counts a thousandfold.
type load struct{ need, free amount.Amount }

func (s *supply) load(d *demand) load {
	worst := load{0, 1}
	for i, need := range d.sum {
		if need == 0 || i == model.NodePods {
			continue
		}
		l := load{amount.Amount(need), amount.Amount(s.sum[i])}
		if s.sum[i] <= 0 {
			l = load{1000, 1}
		}
		if worst.compare(l) < 0 {
			worst = l
		}
	}
	return worst
}

func (a load) compare(b load) int { return amount.CompareRatios(a.need, a.free, b.need, b.free) }
