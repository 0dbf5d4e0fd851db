// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// ungatedPatience is how long a pod without the gate may wait before it is told
// why.
const ungatedPatience = 500 * time.Millisecond

// reworded is how long a reason stays as written while only its numbers
// change.
const reworded = time.Minute

// reasonWriter writes why pods wait into a condition: PodScheduled of gated
// pods, PodConditionWaiting of all others, whose PodScheduled is
// kube-scheduler's. A pod that finds its place within a moment costs no write.
type reasonWriter struct {
	options *Options
	writes  *writer[string] // by pod UID

	mu      sync.Mutex
	written map[string]wording // by pod UID
	early   bool               // for some pod it was too early to be told
}

// wording is what was last written, and when.
type wording struct {
	code explain.Code
	at   time.Time
}

func newReasonWriter(o *Options, m *metrics) *reasonWriter {
	r := &reasonWriter{options: o, written: map[string]wording{}}
	r.writes = newWriter("conditions", o.Workers/4+1, conditionsPerSecond, r.write, o, m)
	return r
}

func (r *reasonWriter) run(ctx context.Context) { r.writes.run(ctx) }

// take queues the conditions that differ. A new kind of reason is written at
// once, new numbers of the same kind now and then.
func (r *reasonWriter) take(waiting []kube.WaitView) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock()
	r.early = false
	current := make(map[string]wording, len(waiting))
	for _, w := range waiting {
		if !w.Gated && now.Sub(time.Unix(0, w.CreatedAt)) < ungatedPatience {
			r.early = true
			continue
		}
		before, known := r.written[w.Pod.UID]
		if known {
			current[w.Pod.UID] = before
		}
		if conditionOf(w) == [2]string{w.ConditionReason, w.ConditionMessage} {
			continue
		}
		if !known || before.code != w.Reason.Code || now.Sub(before.at) > reworded {
			current[w.Pod.UID] = wording{w.Reason.Code, now}
			r.writes.add(w.Pod.UID)
		}
	}
	r.written = current
}

// behind is true while a pod has to be told when time has passed, even if
// nothing changes until then.
func (r *reasonWriter) behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.early
}

// conditionOf is the reason and message of the condition. A gated pod that
// waits for room, not for quota, is called unschedulable, so that an autoscaler
// buys nodes for it and for no other.
func conditionOf(w kube.WaitView) [2]string {
	if !w.Gated {
		return [2]string{reasonOf(w.Reason.Code), w.Reason.Message}
	}
	reason := corev1.PodReasonSchedulingGated
	switch w.Reason.Code {
	case explain.NoNodeFits, explain.GangDoesNotFit, explain.TopologyDoesNotFit:
		reason = corev1.PodReasonUnschedulable
	}
	return [2]string{reason, w.Reason.Message}
}

func (r *reasonWriter) write(ctx context.Context, uid string) error {
	w, ok := r.options.Ledger.WaitOf(uid)
	if !ok {
		return nil
	}
	want := conditionOf(w)
	condition := object{"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "reason": want[0], "message": want[1]}
	if !w.Gated {
		condition["type"], condition["status"] = v1alpha1.PodConditionWaiting, corev1.ConditionTrue
	}
	if w.ConditionReason != want[0] {
		condition["lastTransitionTime"] = metav1.NewTime(r.options.Clock())
	}
	patch := object{"metadata": object{"uid": uid}, "status": object{"conditions": []object{condition}}}
	if err := patchPod(ctx, r.options.Client, w.Pod, patch, "status"); err != nil {
		return fmt.Errorf("write why pod %s waits: %w", w.Pod, err)
	}
	return nil
}
