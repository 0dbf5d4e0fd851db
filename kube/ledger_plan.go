// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Delays of what the ledger tries again.
const (
	// promisePatience is how long a promise may stay unused after
	// kube-scheduler refused its node.
	promisePatience = 10 * time.Second
	// retriedBy is when kube-scheduler has tried a pod again for certain: it leaves
	// none alone for longer than five minutes. What it says then, it says of the
	// promised node, also if nothing of the pod changed for it.
	retriedBy = 6 * time.Minute
	// exclusionBase, doubled from time to time, is how long a refused node is
	// left out.
	exclusionBase = 15 * time.Second
	exclusionMax  = 10 * time.Minute
	// bindFailuresFree binds may fail before the pod has to stand back, at
	// first for bindBackoffBase.
	bindFailuresFree = 3
	bindBackoffBase  = 2 * time.Second
	bindBackoffMax   = 5 * time.Minute
)

// Round is what one cycle decided, with what has to be written for it.
type Round struct {
	Plan cycle.Plan
	// Starts are the promises that can be used now but whose pods do not show
	// it yet: nominate, then remove the gate.
	Starts []Start
	// Duration of the decision.
	Duration time.Duration
	// Next is when time alone may bring a decision, zero if nothing is known to
	// wait for a time.
	Next time.Time
}

// Start lets a pod onto its promised node, or takes back what an earlier promise
// left behind: kube-scheduler keeps room free on the node that a pod's status names,
// also for a pod with the gate.
type Start struct {
	Pod PodRef
	// Node is empty where the pod must name no node any more.
	Node string
	// Gated is true if the pod still has the gate.
	Gated bool
	// Nominated is the node that the pod's status names now.
	Nominated string
	// Told is true if the pod's condition says that it waits.
	Told bool
	// Queue of the pod, and its creation in nanoseconds.
	Queue     string
	CreatedAt int64
}

// Decide runs a cycle: it decides on the cluster as it is now and records the
// promises of the plan, in one step, so that no bind comes between. actions
// limit the cycle, none means all.
func (l *Ledger) Decide(actions ...cycle.Action) Round {
	l.mu.Lock()
	defer l.mu.Unlock()
	plan := l.decide(actions...)
	return Round{Plan: plan, Starts: l.starts(), Duration: l.lastDuration, Next: l.next()}
}

func (l *Ledger) decide(actions ...cycle.Action) cycle.Plan {
	began := l.clock()
	l.prepare(began.UnixNano())
	var plan cycle.Plan
	if len(actions) == 0 {
		plan = cycle.Decide(l.cluster)
	} else {
		plan = cycle.DecideActions(l.cluster, actions...)
	}
	l.decided = l.seq
	l.cycles++
	l.promise(plan)
	l.wakeForGangs(l.now())
	l.lastDuration = l.clock().Sub(began)
	return plan
}

// prepare brings the cluster up to date with the time and with all that was
// noted since the last cycle.
func (l *Ledger) prepare(now int64) {
	l.tick(now)
	l.forgetRecords(now)
	l.letBack(now)
	l.flush()
	l.feedPace(now)
	l.observeUsage(now)
	l.feedBudgets()
	l.cluster.SetNow(now)
}

// promise records the plan.
func (l *Ledger) promise(plan cycle.Plan) {
	l.pin(plan.Evictions)
	for _, uid := range plan.Withdrawn {
		if victim, held := strings.CutPrefix(uid, "hold/"); held {
			l.dropHold(victim)
			continue
		}
		if e := l.pods[uid]; e != nil && e.state == statePromised {
			l.withdraw(e)
		}
	}
	for _, p := range plan.Placements {
		e := l.pods[p.Pod]
		if e == nil || e.state != stateWaiting && e.state != statePromised {
			continue
		}
		l.place(e, p)
	}
	l.restraint.next = 0
	for _, w := range plan.Waits {
		for _, uid := range w.Pods {
			if e := l.pods[uid]; e != nil {
				r := l.reworded(e, w.Reason)
				l.restrained(e, r)
				e.planReason, e.position = r, w.Position
			}
		}
	}
	if len(plan.Waits) > 0 {
		l.wakeForSpared(l.now())
	}
	l.reports = plan.Queues
	l.sentence(plan.Evictions)
}

func (l *Ledger) place(e *entry, p cycle.Placement) {
	moved := e.state != statePromised || e.node != p.Node || !reflect.DeepEqual(e.held, p.GPUs)
	awaits := p.Awaits
	if moved {
		l.enter(e, statePromised, p.Node, p.GPUs)
		e.since = l.now()
		e.planReason = nil
		l.refeed(e)
	}
	e.awaits = awaits
	if moved {
		l.hearFrom(e, l.now())
	}
}

func (l *Ledger) withdraw(e *entry) {
	l.enter(e, stateWaiting, "", nil)
	l.refeed(e)
}

// reworded says what the core cannot know: that the pod names no queue.
func (l *Ledger) reworded(e *entry, r explain.Reason) *explain.Reason {
	f := e.facts
	if r.Code == explain.QueueDoesNotExist && r.Queue == l.config.DefaultQueue &&
		f.queueLabel == "" && l.namespaces[f.ref.Namespace] == "" {
		r.Message = "pod " + f.ref.String() + " asks for GPU and neither it nor its namespace has a label " +
			l.config.QueueLabel + ", and there is no queue " + l.config.DefaultQueue
	}
	return &r
}

// starts lists the usable promises that their pods do not show yet, in the
// order of their names.
func (l *Ledger) starts() []Start {
	var out []Start
	for _, e := range l.index.states[statePromised] {
		if start, ok := l.startOf(e); ok {
			out = append(out, start)
		}
	}
	for _, e := range l.index.named {
		if start, ok := l.startOf(e); ok && start.Node == "" {
			out = append(out, start)
		}
	}
	slices.SortFunc(out, func(a, b Start) int {
		return strings.Compare(a.Pod.String(), b.Pod.String())
	})
	return out
}

// startOf is the entry's usable promise if the pod does not show it yet, or that the
// pod shows one which is gone. An ungated pod that kube-scheduler has not refused
// and that was not told to wait finds its node by itself, without a write.
func (l *Ledger) startOf(e *entry) (Start, bool) {
	f := e.facts
	if f.deleting {
		return Start{}, false
	}
	if e.state != statePromised || !l.startable(e) {
		stray := f.gated && f.nominated != "" && (e.state == stateWaiting || e.state == statePromised && f.nominated != e.node)
		return Start{Pod: f.ref, Gated: true, Nominated: f.nominated}, stray
	}
	told := f.waiting.reason != ""
	if !f.gated && !told && (f.refusal == "" || f.nominated == e.node) {
		return Start{}, false
	}
	return Start{f.ref, e.node, f.gated, f.nominated, told, l.queueOf(e), f.pod.CreatedAt}, true
}

// startable is true if everything that the promise waits for has ended and the
// kubelet has noticed.
func (l *Ledger) startable(e *entry) bool {
	return (e.state != statePromised || l.notOffered(e) == nil) && !slices.ContainsFunc(e.awaits, func(uid string) bool {
		victim := l.pods[uid]
		return victim != nil && victim.state != stateReleased
	})
}

// tick does what time brings: exclusions end, back-offs end, refused promises
// are given up, pods that do not end are given up on.
func (l *Ledger) tick(now int64) {
	l.review(now)
	for _, e := range byUID(l.index.timed) {
		changed := l.refused(e, now)
		for node, x := range e.excluded {
			switch {
			case x.until > now:
			case now >= x.until+int64(exclusionMax):
				delete(e.excluded, node)
				changed = changed || !x.over
			case !x.over:
				x.over, changed = true, true
				e.excluded[node] = x
			}
		}
		if e.protectedUntil > 0 && e.protectedUntil <= now {
			e.protectedUntil = 0
			l.protectionDirty, changed = true, true
		}
		if e.blockedUntil > 0 && e.blockedUntil <= now {
			e.blockedUntil = 0
			changed = true
		}
		if f := e.facts; f.deleting && !e.stuck && now > f.goneBy.Add(l.stuckAfter(e)).UnixNano() {
			e.stuck = true
			changed = true
		}
		if changed {
			l.refeed(e)
			e.seq = l.seq
		}
	}
}

// stuckAfter is how long a pod may take to end beyond its grace period. On a
// node that is not ready, or is no more, no kubelet will say that it has ended.
func (l *Ledger) stuckAfter(e *entry) time.Duration {
	if e.node != "" && !l.nodes[e.node].node.Ready {
		return 0
	}
	return l.config.StuckAfter
}

// refused gives up a promise whose node kube-scheduler refused for reasons
// that the core does not know, such as volumes and ports.
func (l *Ledger) refused(e *entry, now int64) bool {
	f := e.facts
	if e.state != statePromised || !l.startable(e) {
		e.usable = 0
		return false
	}
	if e.usable == 0 {
		l.hearFrom(e, now)
	}
	patience := promisePatience
	if f.refusal == e.refusal {
		patience = retriedBy
	}
	if f.gated || f.refusal == "" || f.nominated != e.node || now < e.usable+int64(patience) {
		return false
	}
	l.exclude(e, e.node, now)
	l.enter(e, stateWaiting, "", nil)
	return true
}

// hearFrom lets only what kube-scheduler says from now on count as a refusal of
// the promised node: before, the room was still taken.
func (l *Ledger) hearFrom(e *entry, now int64) {
	e.usable = 0
	if l.startable(e) {
		e.usable, e.refusal = now, e.facts.scheduled.message
	}
}

func (l *Ledger) exclude(e *entry, node string, now int64) {
	if e.excluded == nil {
		e.excluded = map[string]exclusion{}
	}
	x := e.excluded[node]
	x.until = now + int64(backoff(exclusionBase, exclusionMax, x.times))
	x.times++
	x.over = false
	e.excluded[node] = x
	l.log.Info("kube-scheduler refused the planned node", "pod", e.facts.ref.String(), "node", node, "refusal", e.facts.refusal)
}

// backoff is base doubled times times, at most limit.
func backoff(base, limit time.Duration, times int) time.Duration {
	for range times {
		if base >= limit {
			return limit
		}
		base *= 2
	}
	return min(base, limit)
}

// heldIn returns what the pod holds: as recorded, or as the cluster booked it
// where nobody said which GPUs they are.
func (l *Ledger) heldIn(e *entry) []model.HeldGPU {
	if len(e.held) > 0 || len(e.facts.pod.Claims) == 0 {
		return e.held
	}
	return l.booked(e.facts.ref.UID)
}

// Adopt takes over from whoever led until now: what was promised is what the
// API server shows, pods without the gate that were nominated to a node.
// Promises of our own, from before, no longer count.
func (l *Ledger) Adopt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Concat(byUID(l.index.states[stateWaiting]), byUID(l.index.states[statePromised])) {
		f := e.facts
		if !f.gated && !f.deleting && f.nominated != "" && e.workload != nil {
			l.enter(e, statePromised, f.nominated, nil)
			l.hearFrom(e, l.now())
		} else {
			l.enter(e, stateWaiting, "", nil)
		}
		l.refeed(e)
	}
	l.note()
}
