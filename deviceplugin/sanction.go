// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/usage"
	"github.com/fairslice/fairslice/deviceplugin/watchdog"
)

// judge carries a verdict out. The event comes first: it is what the pod's owner
// finds when the process is gone.
func (a *agent) judge(ctx context.Context, uuid string, v watchdog.Verdict) {
	owner := match.Owner{PodUID: v.PodUID, Namespace: v.Namespace, Pod: v.Pod, Container: v.Name}
	a.overseer.count(place{owner, uuid})
	what := "nothing is done about it"
	switch v.Action {
	case watchdog.Kill:
		what = fmt.Sprintf("its largest process (PID %d of the node, %d MiB) is killed", v.Victim.PID, v.Victim.UsedBytes>>20)
	case watchdog.Evict:
		what = "the pod is evicted"
	}
	text := fmt.Sprintf("container %s uses %d MiB of GPU %s and may use %d MiB, for %d looks in a row: %s",
		v.Name, v.UsedBytes>>20, uuid, v.LimitBytes>>20, v.Polls, what)
	a.log.Warn("a container uses more GPU memory than it may", "namespace", v.Namespace, "pod", v.Pod, "container", v.Name,
		"uuid", uuid, "usedMiB", v.UsedBytes>>20, "limitMiB", v.LimitBytes>>20, "action", string(v.Action), "pid", v.Victim.PID)
	a.events.Event(podReference(owner), corev1.EventTypeWarning, reasonMemoryExceeded, text)
	switch v.Action {
	case watchdog.Kill:
		a.report(owner, outcomeKilled, a.overseer.table.Kill(v.Victim.Process))
	case watchdog.Evict:
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		a.report(owner, outcomeEvicted, a.evict(ctx, owner))
	}
}

// evict asks by the Eviction API, which respects disruption budgets; the UID keeps
// it from a younger pod of the same name.
func (a *agent) evict(ctx context.Context, owner match.Owner) error {
	uid := types.UID(owner.PodUID)
	err := a.client.PolicyV1().Evictions(owner.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Pod},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // or it is gone, or another already
	case apierrors.IsTooManyRequests(err):
		return fmt.Errorf("a PodDisruptionBudget protects it: %w", err)
	default:
		return err
	}
}

// report counts the outcome. A failure is not repeated at once: the watchdog speaks
// again if the container stays over its limit.
func (a *agent) report(owner match.Owner, outcome string, err error) {
	switch {
	case errors.Is(err, hostproc.ErrGone):
	case err != nil:
		a.overseer.countOutcome(outcomeFailed)
		a.log.Error("a container that uses more GPU memory than it may could not be stopped", "namespace", owner.Namespace, "pod", owner.Pod, "container", owner.Container, "error", err)
		a.events.Event(podReference(owner), corev1.EventTypeWarning, reasonMemoryExceeded,
			fmt.Sprintf("container %s uses more GPU memory than it may and could not be %s: %v", owner.Container, outcome, err))
	default:
		a.overseer.countOutcome(outcome)
	}
}

// tellForeign warns once when memory of a card is used by others.
func (a *agent) tellForeign(c usage.Card) {
	if a.o.ForeignMemory == ForeignIgnore {
		return
	}
	bytes, _ := c.ForeignBytes()
	largest := c.Foreign[0]
	for _, f := range c.Foreign {
		if f.UsedBytes > largest.UsedBytes {
			largest = f
		}
	}
	who := "which is in no pod"
	switch {
	case largest.Owner != match.Owner{}:
		who = fmt.Sprintf("of %s, which was not given this GPU", largest.Owner)
	case largest.PodUID != "":
		who = fmt.Sprintf("of pod with UID %s, which was not given this GPU", largest.PodUID)
	}
	text := fmt.Sprintf("%d MiB of GPU %s are used by processes that were not given it, most by PID %d of the node, %s: containers may find less than they were promised",
		bytes>>20, c.UUID, largest.PID, who)
	a.log.Warn("memory of a GPU is used by processes that were not given it", "uuid", c.UUID, "usedMiB", bytes>>20, "pid", largest.PID)
	a.events.Event(a.nodeReference(), corev1.EventTypeWarning, reasonForeignMemory, text)
}
