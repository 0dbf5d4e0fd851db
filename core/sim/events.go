// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// advance lets everything happen that is due now: first what ends, then the
// events of the scenario.
func (t *timeline) advance() error {
	for _, wl := range t.workloads {
		for _, p := range wl.pods {
			if p.ends != 0 && p.ends <= t.now {
				t.end(p)
			}
		}
	}
	for t.next < len(t.spec.Events) {
		e := t.sorted()[t.next]
		if start+int64(e.AtSeconds) > t.now {
			break
		}
		t.next++
		if err := t.event(e); err != nil {
			return fmt.Errorf("second %s: %w", seconds(t.now), err)
		}
	}
	return nil
}

// sorted are the events in time order; those of one instant in list order.
func (t *timeline) sorted() []*scenario.Event {
	if t.events == nil {
		for i := range t.spec.Events {
			t.events = append(t.events, &t.spec.Events[i])
		}
		slices.SortStableFunc(t.events, func(a, b *scenario.Event) int { return cmp.Compare(a.AtSeconds, b.AtSeconds) })
	}
	return t.events
}

// end lets a running pod finish, or a releasing one go: then the next one of it
// waits, or takes the place that is held for it.
func (t *timeline) end(p *pod) {
	p.ends = 0
	if p.state != scenario.Releasing {
		t.settle(p, scenario.Succeeded)
		t.tell("pod %s finished", p.model.Name)
		return
	}
	t.cluster.RemovePod(targetUID(p.model.UID))
	switch {
	case p.workload.model.Recreated && p.target != nil:
		p.state, p.model.Node, p.model.Held = scenario.Pipelined, p.target.Node, p.target.GPUs
		t.tell("pod %s is gone, and follows to node %s", p.model.Name, p.target.Node)
	case p.workload.model.Recreated:
		p.state = scenario.Pending
		t.tell("pod %s is gone, and waits again", p.model.Name)
	default:
		p.state = scenario.Failed
		t.tell("pod %s is gone", p.model.Name)
	}
	p.target, p.evicted = nil, false
	t.update(p)
}

func (t *timeline) tell(format string, args ...any) {
	t.happened = append(t.happened, fmt.Sprintf(format, args...))
}

// settle puts a pod into a state in which it holds nothing.
func (t *timeline) settle(p *pod, state string) {
	if p.target != nil {
		t.cluster.RemovePod(targetUID(p.model.UID))
	}
	p.state, p.ends, p.awaits, p.target, p.evicted = state, 0, nil, nil, false
	t.update(p)
	if p.workload.over() {
		for _, p := range p.workload.pods {
			t.cluster.RemovePod(p.model.UID)
		}
		t.cluster.RemoveWorkload(p.workload.model.Key)
		p.workload.gone = true
	}
}

// over workloads have nothing left to do; the cluster may forget them.
func (wl *workload) over() bool {
	return !slices.ContainsFunc(wl.pods, func(p *pod) bool {
		return p.state != scenario.Succeeded && p.state != scenario.Failed
	})
}

func (t *timeline) event(e *scenario.Event) error {
	switch {
	case e.Submit != nil:
		t.tell("workload %s is submitted", e.Submit.Name)
		return t.submit(e.Submit)
	case e.Finish != "":
		t.tell("%s finished", e.Finish)
		t.each(e.Finish, func(p *pod) { t.settle(p, scenario.Succeeded) })
	case e.Fail != "":
		t.tell("%s failed", e.Fail)
		t.each(e.Fail, func(p *pod) { t.settle(p, scenario.Failed) })
	case e.Delete != "":
		t.tell("%s is deleted", e.Delete)
		t.remove(e.Delete)
	case e.SetQueue != nil:
		t.tell("queue %s is set", e.SetQueue.Name)
		return t.setQueue(e.SetQueue)
	case e.RemoveQueue != "":
		t.tell("queue %s is removed", e.RemoveQueue)
		t.queues = slices.DeleteFunc(t.queues, func(q model.Queue) bool { return q.Name == e.RemoveQueue })
		t.cluster.RemoveQueue(e.RemoveQueue)
		t.recount()
	default:
		return t.nodeEvent(e)
	}
	return nil
}

func (t *timeline) submit(spec *scenario.Workload) error {
	wl := t.addWorkload(spec, t.now)
	if err := t.cluster.SetWorkload(wl.model); err != nil {
		return err
	}
	for _, p := range wl.pods {
		if err := t.cluster.SetPod(p.spec()); err != nil {
			return err
		}
		t.book(p)
		t.changed = append(t.changed, p)
	}
	return nil
}

// each calls f for the pods of a workload, or one pod, that have not ended.
func (t *timeline) each(name string, f func(*pod)) {
	for _, wl := range t.workloads {
		for _, p := range wl.pods {
			ended := p.state == scenario.Succeeded || p.state == scenario.Failed
			if !ended && (wl.spec.Name == name || p.model.Name == name) {
				f(p)
			}
		}
	}
}

func (t *timeline) remove(name string) {
	t.each(name, func(p *pod) {
		t.settle(p, scenario.Failed)
		t.cluster.RemovePod(p.model.UID)
	})
	for _, wl := range t.workloads {
		if wl.spec.Name == name {
			wl.gone = true
			t.cluster.RemoveWorkload(wl.model.Key)
		}
		wl.pods = slices.DeleteFunc(wl.pods, func(p *pod) bool { return wl.gone || p.model.Name == name })
	}
}

func (t *timeline) setQueue(spec *scenario.Queue) error {
	q := toQueue(spec, len(t.queues)+1)
	if i := slices.IndexFunc(t.queues, func(old model.Queue) bool { return old.Name == q.Name }); i >= 0 {
		q.CreatedAt = t.queues[i].CreatedAt
		t.queues[i] = q
	} else {
		t.queues = append(t.queues, q)
	}
	t.recount()
	return t.cluster.SetQueue(q)
}

func (t *timeline) nodeEvent(e *scenario.Event) error {
	if e.SetNode != nil {
		t.tell("node %s is set", e.SetNode.Name)
		n := toNode(e.SetNode)
		if old := t.node(n.Name); old != nil {
			*old = n
		} else {
			t.nodes = append(t.nodes, &n)
		}
		t.recount()
		return t.cluster.SetNode(n)
	}
	n := t.node(cmp.Or(e.NodeDown, e.NodeUp, e.Cordon, e.Uncordon))
	switch {
	case e.NodeDown != "":
		t.tell("node %s is down", n.Name)
		n.Ready = false
		t.lose(n.Name)
	case e.NodeUp != "":
		t.tell("node %s is up", n.Name)
		n.Ready = true
	case e.Cordon != "":
		t.tell("node %s is cordoned", n.Name)
		n.Unschedulable = true
	default:
		t.tell("node %s is uncordoned", n.Name)
		n.Unschedulable = false
	}
	return t.cluster.SetNode(*n)
}

// lose ends the pods of a node; those that something recreates wait again.
func (t *timeline) lose(node string) {
	for _, wl := range t.workloads {
		for _, p := range wl.pods {
			if p.model.Node != node || !scenario.Holds(p.state) {
				continue
			}
			state := scenario.Failed
			if wl.model.Recreated {
				state = scenario.Pending
			}
			t.settle(p, state)
		}
	}
}

// wake is when something may change next: an end, an event, or the moment from
// which a rule about time decides otherwise.
func (t *timeline) wake() (int64, bool) {
	var times []int64
	if t.next < len(t.sorted()) {
		times = append(times, start+int64(t.sorted()[t.next].AtSeconds))
	}
	runtimes := []int64{t.settings.PreemptMinRuntime, t.settings.ReclaimMinRuntime}
	for _, q := range t.queues {
		runtimes = append(runtimes, q.PreemptMinRuntime, q.ReclaimMinRuntime)
	}
	slices.Sort(runtimes)
	for _, wl := range t.workloads {
		for _, p := range wl.pods {
			if p.ends != 0 {
				times = append(times, max(p.ends, t.now))
			}
		}
		times = append(times, t.rules(wl, slices.Compact(runtimes))...)
	}
	times = append(times, t.paceTurns()...)
	if len(times) == 0 {
		return 0, false
	}
	return slices.Min(times), true
}

// rules are the moments after now at which a rule about time turns for wl.
func (t *timeline) rules(wl *workload, runtimes []int64) []int64 {
	var times []int64
	add := func(since, after int64) {
		if since > 0 && after > 0 && since+after > t.now {
			times = append(times, since+after)
		}
	}
	add(wl.model.PendingSince, t.cluster.PreemptionDelay(&wl.model))
	if wl.active() {
		for _, runtime := range runtimes {
			add(wl.model.StartedAt, runtime)
		}
	}
	if grace := t.settings.StaleGrace; wl.model.StaleGrace >= 0 {
		add(wl.model.StaleSince, wl.model.StaleGrace)
	} else {
		add(wl.model.StaleSince, grace)
	}
	return times
}
