// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"time"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// backoffGrowth is how many times the first back-off the longest is.
const backoffGrowth = 16

// restraint keeps evictions from following each other too fast. It is not
// stored: after a restart of ours everybody has a clean record.
type restraint struct {
	// done are the evictions for claimants of the last minute, oldest first.
	done []evicted
	// gangs are the records of gangs by workload key. A single pod comes back as
	// another one of the same owner, so owners have those of pods that are
	// expected back, in the order in which they were evicted.
	gangs  map[string]record
	owners map[string][]record
	// ends are when pods with a record are spared no longer.
	ends map[int64]bool
	// next is when time alone brings the next decision, in nanoseconds; 0 never.
	next int64
}

type evicted struct {
	at    int64
	queue string
}

// record is how often a workload was evicted in a row, and until when it is
// spared, by the first back-off that its queue had at the last eviction.
type record struct {
	times int
	until int64
	base  time.Duration
}

func newRestraint() restraint {
	return restraint{gangs: map[string]record{}, owners: map[string][]record{}, ends: map[int64]bool{}}
}

// again is the record after one more eviction.
func (r record) again(base time.Duration, now int64) record {
	if r.forgotten(now) {
		r = record{}
	}
	delay := backoff(base, backoffGrowth*base, r.times)
	return record{r.times + 1, now + int64(delay), base}
}

// forgotten is true once a workload has been left alone for so long that its
// next eviction counts as the first.
func (r record) forgotten(now int64) bool {
	return now >= r.until+int64(backoffGrowth*r.base)
}

// backoffOf is the first back-off of workloads of a queue: that of the nearest
// queue that sets one, else the configuration's.
func (l *Ledger) backoffOf(queue string) time.Duration {
	for range l.queues {
		q := l.queues[queue]
		if q == nil {
			break
		}
		if q.Spec.EvictionBackoff != nil {
			return q.Spec.EvictionBackoff.Duration
		}
		queue = q.Spec.Parent
	}
	return l.config.EvictionBackoff
}

// count notes an eviction that was decided for a claimant, or to bring free GPUs
// together.
func (l *Ledger) count(e *entry, ev cycle.Eviction) {
	if ev.Rule != cycle.RuleStaleGang {
		l.restraint.done = append(l.restraint.done, evicted{l.now(), l.queueOf(e)})
	}
}

// feedPace tells the cluster what evictions this minute still allows.
func (l *Ledger) feedPace(now int64) {
	r := &l.restraint
	r.done = slices.DeleteFunc(r.done, func(x evicted) bool { return x.at+int64(time.Minute) <= now })
	pace := model.Pace{Cluster: l.config.EvictionsPerMinute, Queue: l.config.QueueEvictionsPerMinute, Evicted: map[string]int{}}
	for _, x := range r.done {
		pace.Evicted[x.queue]++
	}
	l.cluster.SetPace(pace)
}

// noteEvicted puts it on record that a victim really goes. The members of a gang
// go together and count once.
func (l *Ledger) noteEvicted(e *entry) {
	if e.sentence == nil || e.counted || e.sentence.Rule == cycle.RuleStaleGang {
		return
	}
	base := l.backoffOf(l.queueOf(e))
	if base <= 0 {
		return
	}
	e.counted = true
	now := l.now()
	switch {
	case e.workload != nil && e.workload.isGroup:
		key := e.workload.key
		if r := l.restraint.gangs[key]; r.until <= now {
			l.restraint.gangs[key] = r.again(base, now)
			l.dirty[key] = true
		}
	case e.facts.owner != "":
		l.restraint.owners[e.facts.owner] = append(l.restraint.owners[e.facts.owner], e.record.again(base, now))
	}
}

// inherit gives a new pod the record of one that it stands in for.
func (l *Ledger) inherit(e *entry) {
	owner := e.facts.owner
	left := l.restraint.owners[owner]
	if owner == "" || len(left) == 0 || e.facts.node != "" || e.workload != nil && e.workload.isGroup {
		return
	}
	e.record, left = left[0], left[1:]
	l.restraint.ends[e.record.until] = true
	if len(left) == 0 {
		delete(l.restraint.owners, owner)
		return
	}
	l.restraint.owners[owner] = left
}

// forgetRecords drops those that no longer matter.
func (l *Ledger) forgetRecords(now int64) {
	r := &l.restraint
	for key, x := range r.gangs {
		if x.forgotten(now) {
			delete(r.gangs, key)
			l.dirty[key] = true
		}
	}
	for owner, all := range r.owners {
		all = slices.DeleteFunc(all, func(x record) bool { return x.forgotten(now) })
		if r.owners[owner] = all; len(all) == 0 {
			delete(r.owners, owner)
		}
	}
}

// sparedUntil is when a workload may be a victim again.
func (l *Ledger) sparedUntil(w *workload) int64 {
	if w.isGroup {
		return l.restraint.gangs[w.key].until
	}
	until := int64(0)
	for _, e := range w.pods {
		until = max(until, e.record.until)
	}
	return until
}

// restrained says of a reason to wait that others are not made to give way yet,
// and notes when that ends.
func (l *Ledger) restrained(e *entry, r *explain.Reason) {
	switch r.Code {
	case explain.EvictionPace:
		if done := l.restraint.done; len(done) > 0 {
			l.wake(done[0].at + int64(time.Minute))
		}
	case explain.EvictionRefused:
		for _, other := range l.index.timed {
			if other.protectedUntil > 0 {
				l.wake(other.protectedUntil)
			}
		}
	case explain.NoNodeFits, explain.GangDoesNotFit, explain.TopologyDoesNotFit:
		l.recall(e, r)
		if e.workload == nil {
			return
		}
		spec := &e.workload.spec
		delay := l.cluster.PreemptionDelay(spec)
		if end := spec.PendingSince + delay; delay > 0 && l.now() < end {
			r.Message += "; room is taken from others once it has waited " + time.Duration(delay).String()
			l.wake(end)
		}
	}
}

// wake asks for a decision at a time.
func (l *Ledger) wake(at int64) {
	if l.restraint.next == 0 || at < l.restraint.next {
		l.restraint.next = at
	}
}

// wakeForSpared asks for a decision when the first victim is spared no longer,
// as what waits may take its room then.
func (l *Ledger) wakeForSpared(now int64) {
	for _, x := range l.restraint.gangs {
		if x.until > now {
			l.wake(x.until)
		}
	}
	for at := range l.restraint.ends {
		if at > now {
			l.wake(at)
			continue
		}
		delete(l.restraint.ends, at)
	}
}

// next is restraint.next as a time.
func (l *Ledger) next() time.Time {
	if l.restraint.next == 0 {
		return time.Time{}
	}
	return time.Unix(0, l.restraint.next)
}
