// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// Cluster places tasks on nodes by a policy. What it works out about a node for
// a class is kept until the node changes, so that a placement costs little more
// than a look at every node.
type Cluster struct {
	Nodes []Node

	scorer *Scorer
	prices *prices
	blocks *blocks
	// version of each node, and its value at that version.
	version []uint32
	worth   []int64
	known   []uint32
	// ends is what each class would cost on each node.
	ends map[Task][]end
	// byModel are the prices of the moment.
	byModel, byBlock []int64
}

// end is the best place on one node at a version of it.
type end struct {
	version uint32
	fits    bool
	cost    int64
	gpus    []int
	losses  []loss
}

// NewCluster takes over the nodes. models is the number of GPU models.
func NewCluster(policy Policy, classes []Class, nodes []Node, models int) *Cluster {
	c := &Cluster{
		Nodes: nodes, version: make([]uint32, len(nodes)), worth: make([]int64, len(nodes)),
		known: make([]uint32, len(nodes)), byModel: make([]int64, models),
	}
	for i := range nodes {
		c.version[i] = 1
	}
	c.Expect(policy, classes)
	return c
}

// Expect replaces the mix of classes that the policy knows.
func (c *Cluster) Expect(policy Policy, classes []Class) {
	c.scorer = NewScorer(policy, classes, c.Nodes)
	if policy != ExpectedFill {
		classes = nil
	}
	c.prices, c.blocks = newPrices(classes), newBlocks(classes, c.Nodes)
	for i := range c.Nodes {
		free, _ := c.Nodes[i].free()
		c.prices.change(c.Nodes[i].Model, free)
		c.known[i] = 0
	}
	c.ends = map[Task][]end{}
}

// Place finds the best place for a task and takes it. It reports false where no
// node fits.
func (c *Cluster) Place(t *Task) (node int, gpus []int, ok bool) {
	return c.placeExcept(t, -1)
}

// placeExcept is Place without one node.
func (c *Cluster) placeExcept(t *Task, except int) (node int, gpus []int, ok bool) {
	node, gpus = c.best(t, except)
	if node < 0 {
		return -1, nil, false
	}
	c.Take(t, node, gpus)
	return node, gpus, true
}

func (c *Cluster) best(t *Task, except int) (int, []int) {
	ends := c.ends[*t]
	if ends == nil {
		ends = make([]end, len(c.Nodes))
		c.ends[*t] = ends
	}
	for model := range c.byModel {
		c.byModel[model] = c.prices.of(model) * t.Demand()
	}
	c.byBlock = c.blocks.charges(c.prices.free, c.byBlock)
	best, least := -1, int64(0)
	for i := range c.Nodes {
		e := &ends[i]
		if e.version != c.version[i] {
			c.work(t, i, e)
		}
		if !e.fits || i == except {
			continue
		}
		cost := e.cost + c.byModel[c.Nodes[i].Model]
		for _, l := range e.losses {
			cost += int64(l.copies) * c.byBlock[l.class]
		}
		if best < 0 || cost < least {
			best, least = i, cost
		}
	}
	if best < 0 {
		return -1, nil
	}
	return best, append([]int(nil), ends[best].gpus...)
}

func (c *Cluster) work(t *Task, i int, e *end) {
	if c.known[i] != c.version[i] {
		c.worth[i], c.known[i] = c.scorer.value(&c.Nodes[i]), c.version[i]
	}
	e.cost, e.gpus, e.fits = c.scorer.Cost(&c.Nodes[i], c.worth[i], t, e.gpus)
	e.version, e.losses = c.version[i], e.losses[:0]
	if e.fits && len(c.blocks.classes) > 0 {
		c.Nodes[i].Take(t, e.gpus)
		e.losses = c.blocks.losses(i, &c.Nodes[i], e.losses)
		c.Nodes[i].Give(t, e.gpus)
	}
}

// Take gives a task the place that was chosen for it.
func (c *Cluster) Take(t *Task, node int, gpus []int) {
	c.Nodes[node].Take(t, gpus)
	c.changed(node, -t.Demand())
}

// Give frees a task's place.
func (c *Cluster) Give(t *Task, node int, gpus []int) {
	c.Nodes[node].Give(t, gpus)
	c.changed(node, t.Demand())
}

func (c *Cluster) changed(node int, free int64) {
	c.version[node]++
	c.prices.change(c.Nodes[node].Model, free)
	c.blocks.update(node, &c.Nodes[node])
}
