// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// pod is a pod in the run: its converted form, and its state in the words of
// the scenario, which tell more than the model's.
type pod struct {
	model    model.Pod
	request  *scenario.Request
	workload *workload
	state    string
	// awaits are the pods whose room a promised pod waits for.
	awaits []string
	// ends is when a running pod finishes or a releasing one is gone; 0 never.
	ends int64
	// evicted by a plan, and not gone yet.
	evicted bool
	// target is where the pod goes that follows this releasing one; nil if it
	// is to wait.
	target *cycle.Placement
	booked booked
}

// workload is a workload in the run.
type workload struct {
	spec  *scenario.Workload
	model model.Workload
	pods  []*pod
	gone  bool
}

// world is the simulated cluster. Slices are in scenario order, so that equal
// scenarios run equally.
type world struct {
	scenario  *scenario.Scenario
	settings  model.Settings
	claims    *claims
	nodes     []*model.Node
	queues    []model.Queue
	workloads []*workload
	pods      map[string]*pod
	now       int64
	account   *account
	// names of workloads by key.
	names map[string]string
}

func newWorld(s *scenario.Scenario) *world {
	w := &world{scenario: s, settings: toSettings(s), claims: newClaims(s), pods: map[string]*pod{}, now: start, account: newAccount(), names: map[string]string{}}
	for i := range s.Nodes {
		n := toNode(&s.Nodes[i])
		if s.DRA != nil {
			n.Labels[nodeNameLabel] = n.Name
		}
		w.nodes = append(w.nodes, &n)
	}
	for i := range s.Queues {
		order := s.Queues[i].CreationOrder
		if order == 0 {
			order = i + 1
		}
		w.queues = append(w.queues, toQueue(&s.Queues[i], order))
	}
	for i := range s.Workloads {
		age := int64(or(s.Workloads[i].AgeSeconds, scenario.Seconds((len(s.Workloads)-i)*60*second)))
		w.addWorkload(&s.Workloads[i], w.now-age)
	}
	w.bookHeld()
	w.hideLegacyMIG()
	w.recount()
	return w
}

// addWorkload adds a workload with its pods in the states that it gives.
func (w *world) addWorkload(spec *scenario.Workload, created int64) *workload {
	wl := &workload{spec: spec, model: toWorkload(spec)}
	wl.model.CreatedAt, wl.model.PendingSince = created, created
	pods := spec.Pods
	for _, name := range spec.PodNames()[len(spec.Pods):] {
		pods = append(pods, scenario.Pod{Name: name})
	}
	for i := range pods {
		p := &pod{model: toPod(spec, &pods[i]), request: requestOf(spec, &pods[i]), workload: wl, state: scenario.Pending}
		w.claims.apply(spec, &pods[i], &p.model)
		p.model.CreatedAt = created
		if pods[i].State != "" {
			p.state = pods[i].State
		}
		if p.state != scenario.Pending && p.state != scenario.Gated {
			p.model.Node = pods[i].Node
		}
		if scenario.Holds(p.state) {
			if wl.model.StartedAt == 0 {
				wl.model.StartedAt = w.now - int64(or(spec.StartedSecondsAgo, defaultStarted))
			}
		}
		wl.pods = append(wl.pods, p)
		w.pods[p.model.UID] = p
	}
	if spec.StaleSeconds != nil {
		wl.model.StaleSince = w.now - int64(*spec.StaleSeconds)
	}
	w.workloads = append(w.workloads, wl)
	w.names[wl.model.Key] = spec.Name
	return wl
}

// hideLegacyMIG withdraws the free MIG instances of nodes on which a pod took
// one through annotations: nobody accounts for it, so what is free is unknown.
func (w *world) hideLegacyMIG() {
	for _, n := range w.nodes {
		held := model.Quantities{}
		legacy := false
		for _, p := range w.pods {
			if p.model.Node != n.Name || !scenario.Holds(p.state) {
				continue
			}
			legacy = legacy || len(p.model.NodeTerms) == 1 && len(p.model.NodeTerms[0]) == 0
			for profile, count := range p.request.MIG {
				held[model.ResourceMIGPrefix+profile] += amount.Amount(count)
			}
		}
		if !legacy {
			continue
		}
		for name := range n.Allocatable {
			if len(name) > len(model.ResourceMIGPrefix) && name[:len(model.ResourceMIGPrefix)] == model.ResourceMIGPrefix {
				n.Allocatable[name] = held[name]
			}
		}
	}
}

func (w *world) node(name string) *model.Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// modelState is the state as the decision sees it.
func modelState(state string) model.PodState {
	switch state {
	case scenario.Gated:
		return model.Gated
	case scenario.Pipelined:
		return model.Promised
	case scenario.Allocated, scenario.Binding, scenario.Bound, scenario.Running:
		return model.Bound
	case scenario.Releasing:
		return model.Releasing
	case scenario.Succeeded:
		return model.Succeeded
	case scenario.Failed:
		return model.Failed
	}
	return model.Pending
}

// spec is the pod as the decision sees it.
func (p *pod) spec() model.Pod {
	m := p.model
	m.State, m.Returns = modelState(p.state), p.evicted && p.target == nil
	if !scenario.Holds(p.state) {
		m.Node, m.Held = "", nil
	}
	return m
}

// snapshot builds a fresh cluster for a decision.
func (w *world) snapshot() (*model.Cluster, error) {
	c := model.NewCluster(w.settings)
	c.SetNow(w.now)
	for _, n := range w.nodes {
		if err := c.SetNode(*n); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	for _, q := range w.queues {
		if err := c.SetQueue(q); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.Name, err)
		}
	}
	for _, t := range w.scenario.Topologies {
		if err := c.SetTopology(model.Topology{Name: t.Name, Levels: t.Levels}); err != nil {
			return nil, fmt.Errorf("topology %s: %w", t.Name, err)
		}
	}
	for _, wl := range w.workloads {
		if wl.gone {
			continue
		}
		if err := c.SetWorkload(wl.model); err != nil {
			return nil, fmt.Errorf("workload %s: %w", wl.model.Key, err)
		}
		for _, p := range wl.pods {
			if err := c.SetPod(p.spec()); err != nil {
				return nil, fmt.Errorf("pod %s: %w", p.model.Name, err)
			}
		}
	}
	c.SetBudgets(w.budgets())
	return c, nil
}

// budgets allow what the scenario says, less who was evicted and is not gone yet.
func (w *world) budgets() []model.DisruptionBudget {
	var out []model.DisruptionBudget
	for _, b := range w.scenario.Budgets {
		allowed := b.Allowed
		for _, uid := range b.Pods {
			if p := w.pods[uid]; p != nil && p.evicted {
				allowed--
			}
		}
		out = append(out, model.DisruptionBudget{Key: b.Name, Pods: b.Pods, Allowed: max(allowed, 0)})
	}
	return out
}
