// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/place"
	"github.com/fairslice/fairslice/core/reclaim"
)

// Compaction is moves that bring free GPUs together, for nobody in particular,
// and what they gain.
type Compaction struct {
	// Moves each have a new place, MoveTo, that is free now, and no claimant.
	Moves []Eviction
	// Before and After are the free GPUs of each model, by name, without the
	// moves and once they are done.
	Before, After []FreeGPUs
}

// FreeGPUs is what is free of one GPU model on nodes that take pods.
type FreeGPUs struct {
	Model string
	// Milli is free in all, in thousandths of a GPU.
	Milli int64
	// Whole GPUs have nothing on them, Largest of them are of one node.
	Whole, Largest int
	// Nodes have nothing on any of their GPUs.
	Nodes int
}

// compactSteps bounds how many places are looked for in one Compact.
const compactSteps = 2048

// Compact plans moves of running pods, step by step: each step empties a node, or
// else a shared GPU, or else enlarges the largest block of free GPUs of one node.
// A step that would lessen any of the three for any model is not taken, so that
// repeating it after its moves are done comes to an end. It leaves the cluster as
// it found it.
//
// Only pods are moved that are preemptible and would be made again, of which the
// gang keeps its minimum without them, that are not spared after an earlier
// eviction nor protected by a minimum run time, and that are bound to no other pod or topology and did not ask to be
// spread. They go to nodes with GPUs of the same model where others run already.
// Disruption budgets, the pace of evictions and MaxConsolidationVictims hold.
func Compact(c *model.Cluster) Compaction {
	c.Settle()
	x := &compactor{
		c: c, d: &decider{c: c}, start: c.Mark(), moved: map[*model.LiveWorkload]bool{}, gains: map[*model.LivePod]string{},
		budgets: make([]int, len(c.Budgets())), pace: c.PaceMeter(), byModel: nodesByModel(c), free: map[string]FreeGPUs{},
	}
	defer c.Undo(x.start)
	out := Compaction{Before: x.account()}
	if c.Settings().MaxConsolidationVictims != 0 {
		for x.next() {
		}
	}
	out.After = x.account()
	c.Moved(x.start, func(p *model.LivePod, _ model.Place) {
		if p.From != nil {
			to := x.d.placement(p)
			out.Moves = append(out.Moves, Eviction{
				Pod: p.Spec.UID, Workload: p.Workload.Spec.Key, Rule: RuleConsolidate, MoveTo: &to,
				Reason: explain.Gathered(p.Node.Spec.Name, x.gains[p]),
			})
		}
	})
	return out
}

// nodesByModel lists the nodes with GPUs that take pods, by the model of these.
func nodesByModel(c *model.Cluster) map[string][]*model.LiveNode {
	out := map[string][]*model.LiveNode{}
	for _, n := range c.NodeList() {
		if n.Usable && len(n.GPUs) > 0 {
			out[n.GPUs[0].Model] = append(out[n.GPUs[0].Model], n)
		}
	}
	return out
}

// freeGPUs counts what is free on nodes of one model, once all that is being
// released is gone.
func freeGPUs(gpuModel string, nodes []*model.LiveNode) FreeGPUs {
	f := FreeGPUs{Model: gpuModel}
	for _, n := range nodes {
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Healthy {
				f.Milli += max(0, 1000-g.Booked.Milli)
			}
		}
		f.Whole += n.WholeFree
		f.Largest = max(f.Largest, n.WholeFree)
		if n.WholeFree > 0 && idle(n) {
			f.Nodes++
		}
	}
	return f
}

// account counts what is free of every model, by name.
func (x *compactor) account() []FreeGPUs {
	out := make([]FreeGPUs, 0, len(x.byModel))
	for name, nodes := range x.byModel {
		out = append(out, freeGPUs(name, nodes))
		x.free[name] = out[len(out)-1]
	}
	slices.SortFunc(out, func(a, b FreeGPUs) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

// idle says whether nothing is on a node's GPUs.
func idle(n *model.LiveNode) bool {
	return !slices.ContainsFunc(n.GPUs, func(g model.LiveGPU) bool { return g.Booked.Pods > 0 })
}

// gained says whether something is better and nothing is worse.
func gained(before, after FreeGPUs) bool {
	if after.Nodes < before.Nodes || after.Largest < before.Largest || after.Whole < before.Whole {
		return false
	}
	return after.Nodes > before.Nodes || after.Largest > before.Largest || after.Whole > before.Whole
}

type compactor struct {
	c     *model.Cluster
	d     *decider
	start model.Mark
	steps int
	// free is what is free of each model now. Pods stay with their model, so a
	// step changes only one.
	byModel map[string][]*model.LiveNode
	free    map[string]FreeGPUs
	// moved workloads, against MaxConsolidationVictims; what each move is for.
	moved map[*model.LiveWorkload]bool
	gains map[*model.LivePod]string
	// budgets and pace are what the moves have used up.
	budgets []int
	pace    *model.PaceMeter
}

// source is a node, or one of its GPUs, that pods are to leave.
type source struct {
	n    *model.LiveNode
	gpu  int // -1 for the whole node
	pods []*model.LivePod
	gain string
}

// milli is what the pods of a source hold, in thousandths of a GPU.
func (s *source) milli() (sum int64) {
	for _, p := range s.pods {
		for _, h := range p.Held {
			sum += h.Milli
		}
	}
	return sum
}

// next takes the first step that gains something.
func (x *compactor) next() bool {
	for _, list := range []func() []source{x.nodes, x.cards, x.blocks} {
		for _, s := range list() {
			if x.steps >= compactSteps {
				return false
			}
			if x.try(s) {
				return true
			}
		}
	}
	return false
}

// try moves the pods of a source, or takes all back if that gains nothing.
func (x *compactor) try(s source) bool {
	if x.tooMany(s.pods) {
		return false
	}
	mark, gpus := x.c.Mark(), s.n.GPUs[0].Model
	stays := func(p *model.LivePod) bool { return !x.move(p, s) }
	if slices.ContainsFunc(s.pods, stays) {
		x.c.Undo(mark)
		return false
	}
	after := freeGPUs(gpus, x.byModel[gpus])
	if !gained(x.free[gpus], after) || !x.allowed(s.pods) {
		x.c.Undo(mark)
		return false
	}
	x.free[gpus] = after
	for _, p := range s.pods {
		x.gains[p], x.moved[p.Workload] = s.gain, true
		for _, b := range x.c.BudgetsOf(p.Spec.UID) {
			x.budgets[b]++
		}
	}
	return true
}

// allowed says whether disruption budgets and the pace let pods be moved
// together, and counts them against the pace if so.
func (x *compactor) allowed(pods []*model.LivePod) bool {
	need, leaves := map[int]int{}, []int{}
	for _, p := range pods {
		leaves = append(leaves, p.Workload.Queue)
		for _, b := range x.c.BudgetsOf(p.Spec.UID) {
			need[b]++
			if x.budgets[b]+need[b] > x.c.Budgets()[b].Allowed {
				return false
			}
		}
	}
	return x.pace.Take(leaves)
}

// tooMany says whether the cap on moved workloads forbids to move pods as well.
func (x *compactor) tooMany(pods []*model.LivePod) bool {
	most := x.c.Settings().MaxConsolidationVictims
	if most < 0 {
		return false
	}
	workloads := len(x.moved)
	seen := map[*model.LiveWorkload]bool{}
	for _, p := range pods {
		if !x.moved[p.Workload] && !seen[p.Workload] {
			seen[p.Workload] = true
			workloads++
		}
	}
	return workloads > most
}

// move finds a pod a place on another node, or on another GPU of its own.
func (x *compactor) move(p *model.LivePod, from source) bool {
	x.steps++
	was := p.Place
	if !x.movable(p) {
		return false
	}
	x.c.Move(p, model.Place{})
	ch, ok := place.Best(x.c, place.Query{Pod: p, Allow: func(n *model.LiveNode, holds []model.GPUHold) bool {
		return x.welcomes(p, n, holds, from)
	}})
	if !ok || !ch.Now {
		return false
	}
	x.c.Move(p, model.Place{Phase: model.Awaiting, Node: ch.Node, Held: ch.Holds, From: &model.Room{Node: was.Node, Held: was.Held}})
	return true
}

// welcomes says whether a pod that leaves a source may come to a node.
func (x *compactor) welcomes(p *model.LivePod, n *model.LiveNode, holds []model.GPUHold, from source) bool {
	if len(n.GPUs) == 0 || n.GPUs[0].Model != from.n.GPUs[0].Model {
		return false
	}
	if n == from.n {
		if from.gpu < 0 {
			return false
		}
	} else if idle(n) {
		return false
	}
	for _, h := range holds {
		// A shared pod that leaves a card goes to one that is shared already.
		if from.gpu >= 0 && (n == from.n && int(h.GPU) == from.gpu || n.GPUs[h.GPU].Booked.Pods == 0) {
			return false
		}
	}
	now, _ := fit.Again(x.c, p, n, holds)
	return now
}

// movable says whether a pod may be moved while nobody asks for its room.
func (x *compactor) movable(p *model.LivePod) bool {
	w := p.Workload
	switch {
	case p.Phase != model.Started || p.Home.Phase != model.Started || p.From != nil:
		return false
	case w == nil || w.Spec == nil || w.Queue == model.NoQueue || !w.Spec.Preemptible || !w.Spec.Recreated:
		return false
	case x.c.Now() < w.Spec.SparedUntil || x.protected(w) || p.HasAffinity() || len(p.Held) == 0 || p.Node.Index < 0:
		return false
	}
	if w.Spec.Topology != nil || slices.ContainsFunc(w.Groups, func(g model.Group) bool { return g.Topology != nil }) {
		return false
	}
	policy := place.PolicyOf(x.c, p)
	if policy.Nodes == model.Spread || p.Shape.Shared && policy.GPUs == model.Spread {
		return false
	}
	return len(w.Pods) == 1 || x.dispensable(p)
}

// protected says whether a workload has run for less than its queue protects it
// against anybody.
func (x *compactor) protected(w *model.LiveWorkload) bool {
	t, s := x.c.Accounts(), x.c.Settings()
	minimum := max(reclaim.PreemptMinRuntime(t, w.Queue, s.PreemptMinRuntime), reclaim.ReclaimMinRuntimeByQueue(t, w.Queue, s.ReclaimMinRuntime))
	return reclaim.Protected(w.Spec.StartedAt, minimum, x.c.Now())
}

// dispensable pods are not needed for the minimum of their gang, of those that
// hold their room.
func (x *compactor) dispensable(p *model.LivePod) bool {
	mark := x.c.Mark()
	x.c.Evict(p)
	enough := p.Workload.Satisfied(0, true)
	x.c.Undo(mark)
	return enough
}

// nodes are those that could be emptied of GPU pods, fewest pods and then fewest GPUs first.
func (x *compactor) nodes() []source {
	var out []source
	for _, n := range x.partlyUsed() {
		pods, all := x.onNode(n)
		if all && len(pods) > 0 {
			out = append(out, source{n: n, gpu: -1, pods: pods, gain: "to free all GPUs of node " + n.Spec.Name})
		}
	}
	sortSources(out)
	return out
}

// cards are shared GPUs that could be emptied, fewest pods first.
func (x *compactor) cards() []source {
	var out []source
	for _, n := range x.partlyUsed() {
		pods, _ := x.onNode(n)
		for g := range n.GPUs {
			var on []*model.LivePod
			for _, p := range pods {
				if p.Shape.Shared && holdsGPU(p.Held, int32(g)) {
					on = append(on, p)
				}
			}
			if claims := int(n.GPUs[g].Booked.Pods); len(on) > 0 && claims == claimsOn(on, int32(g)) {
				out = append(out, source{n: n, gpu: g, pods: on, gain: "to free a GPU of node " + n.Spec.Name})
			}
		}
	}
	sortSources(out)
	return out
}

func claimsOn(pods []*model.LivePod, gpu int32) (n int) {
	for _, p := range pods {
		for _, h := range p.Held {
			if h.GPU == gpu {
				n++
			}
		}
	}
	return n
}

// blocks are the pods with whole GPUs on the nodes that have the largest block of
// free ones, the smallest first: one of them less makes the block larger.
func (x *compactor) blocks() []source {
	var out []source
	for _, n := range x.partlyUsed() {
		if n.WholeFree < x.free[n.GPUs[0].Model].Largest {
			continue
		}
		pods, _ := x.onNode(n)
		for _, p := range slices.Backward(pods) {
			if !p.Shape.Shared {
				out = append(out, source{n: n, gpu: -1, pods: []*model.LivePod{p}, gain: "to free more GPUs of node " + n.Spec.Name + " in one piece"})
			}
		}
	}
	return out
}

func sortSources(s []source) {
	slices.SortStableFunc(s, func(a, b source) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.milli(), b.milli()), cmp.Compare(a.n.Index, b.n.Index), cmp.Compare(a.gpu, b.gpu))
	})
}

// partlyUsed lists the nodes with GPUs of which some are in use.
func (x *compactor) partlyUsed() []*model.LiveNode {
	var out []*model.LiveNode
	for _, n := range x.c.NodeList() {
		if n.Usable && len(n.GPUs) > 0 && !idle(n) {
			out = append(out, n)
		}
	}
	return out
}

// onNode lists the pods with GPUs on a node that may be moved, the largest
// first; all says that there are no others, and none on the way to it.
func (x *compactor) onNode(n *model.LiveNode) (pods []*model.LivePod, all bool) {
	all = true
	for _, p := range n.Pods {
		switch {
		case p.Node != n || len(p.Held) == 0 || p.Phase == model.Leaving:
		case x.movable(p):
			pods = append(pods, p)
		default:
			all = false
		}
	}
	slices.SortFunc(pods, func(a, b *model.LivePod) int { return cmp.Compare(a.Spec.UID, b.Spec.UID) })
	return largestFirst(pods), all
}
