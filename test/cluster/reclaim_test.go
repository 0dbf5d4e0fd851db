// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	lists "slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// TestReclaimToQuota: a queue takes back its quota, pod by pod as it needs it
// and no pod more.
func TestReclaimToQuota(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	f.queue("lender", map[string]any{"quota": gpus(4), "overQuotaWeight": gpus(0)})
	f.queue("borrower", map[string]any{"quota": gpus(4)})
	seen := f.evictions()
	f.replicas("b", 8, stack.Queue("borrower"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"b-": 8})

	f.replicas("l", 3, stack.Queue("lender"), stack.Whole(1))
	f.eventuallyRun(30*time.Second, map[string]int{"l-": 3, "b-": 5})
	seen.want(map[string]int{"b": 3})

	f.create(stack.Pod("fourth", stack.Queue("lender"), stack.Whole(1)))
	f.eventuallyRun(30*time.Second, map[string]int{"fourth": 1, "l-": 3, "b-": 4})
	f.create(stack.Pod("fifth", stack.Queue("lender"), stack.Whole(1)))
	f.eventuallyWaits(15*time.Second, "fifth", "queue lender may not reclaim that much", "4 of its fair share of 4 GPUs")
	f.cycles(10)
	seen.want(map[string]int{"b": 4})
	f.told(seen)
	f.consistent()
}

// told checks that each victim of the reclaim was told who took its place and
// why, in its condition and in an event.
func (f fixture) told(seen *observer) {
	f.t.Helper()
	sentence := []string{"room reclaimed for default/", "of queue lender (", "in use): queue borrower holds ", "GPUs, its "}
	lacks := func(message string) bool {
		return lists.ContainsFunc(sentence, func(part string) bool { return !strings.Contains(message, part) })
	}
	events := f.Client.CoreV1().Events(metav1.NamespaceDefault)
	for _, e := range seen.all() {
		if !strings.HasPrefix(e.reason, "Reclaimed") || lacks(e.message) {
			f.t.Errorf("pod %s was evicted with condition %q, %q; want a sentence with %q", e.pod, e.reason, e.message, sentence)
		}
		f.eventually(15*time.Second, func() string {
			list, err := events.List(f.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + e.pod + ",reason=" + v1alpha1.ReasonEvicted})
			f.must(err)
			if len(list.Items) != 1 || lacks(list.Items[0].Message) {
				return fmt.Sprintf("pod %s has events %v, want one with %q", e.pod, list.Items, sentence)
			}
			return ""
		})
	}
}

// TestReclaimToFairShare: what no quota guarantees is divided by weights.
func TestReclaimToFairShare(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.queue("one", map[string]any{"overQuotaWeight": gpus(1)})
	f.queue("three", map[string]any{"overQuotaWeight": gpus(3)})
	seen := f.evictions()
	f.replicas("a", 8, stack.Queue("one"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"a-": 8})
	f.replicas("b", 8, stack.Queue("three"), stack.Whole(1))
	f.eventuallyRun(30*time.Second, map[string]int{"a-": 2, "b-": 6})
	f.cycles(10)
	f.eventuallyRun(10*time.Second, map[string]int{"a-": 2, "b-": 6})
	seen.want(map[string]int{"a": 6})
	f.consistent()
}

// TestReclaimOverThreeLevels: a team takes back what is its company's, from the
// team that borrows, not from its neighbour that keeps to its quota.
func TestReclaimOverThreeLevels(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8))
	for _, q := range []struct {
		name, parent string
		quota        int
	}{
		{"x", "", 8},
		{"x-dept", "x", 8},
		{"x-greedy", "x-dept", 4},
		{"x-modest", "x-dept", 4},
		{"y", "", 8},
		{"y-dept", "y", 8},
		{"y-team", "y-dept", 8},
	} {
		spec := map[string]any{"quota": gpus(q.quota)}
		if q.parent != "" {
			spec["parent"] = q.parent
		}
		f.queue(q.name, spec)
	}
	seen := f.evictions()
	f.replicas("modest", 4, stack.Queue("x-modest"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"modest-": 4})
	f.replicas("greedy", 12, stack.Queue("x-greedy"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"greedy-": 12})
	f.replicas("yours", 5, stack.Queue("y-team"), stack.Whole(1))
	f.eventuallyRun(30*time.Second, map[string]int{"modest-": 4, "greedy-": 7, "yours-": 5})
	seen.want(map[string]int{"greedy": 5})
	f.create(stack.Pod("gang-of-one", stack.Queue("y-team"), stack.Whole(3)))
	f.eventuallyRun(30*time.Second, map[string]int{"modest-": 4, "greedy-": 4, "yours-": 5, "gang-of-one": 1})
	f.cycles(10)
	seen.want(map[string]int{"greedy": 8})
	f.consistent()
}

// slowVictims is report R29: a claimant of four GPUs needs two victims, of which
// one ends after a second and the other after slow.
func slowVictims(t *testing.T, slow time.Duration) (fixture, *observer) {
	f := use(t, stack.A100("n0", 6))
	f.queue("q1", map[string]any{"quota": gpus(4)})
	f.queue("q2", map[string]any{"quota": gpus(2)})
	seen := f.evictions()
	f.replicas("quick", 1, stack.Queue("q2"), stack.Whole(3), goneAfter(time.Second))
	f.replicas("slow", 1, stack.Queue("q2"), stack.Whole(3), goneAfter(slow))
	f.eventuallyRun(20*time.Second, map[string]int{"quick-": 1, "slow-": 1})
	f.create(stack.Pod("claimant", stack.Queue("q1"), stack.Whole(4)))
	f.eventually(15*time.Second, func() string {
		if n := len(seen.all()); n != 2 {
			return fmt.Sprintf("%d victims are leaving, want 2 at once", n)
		}
		return ""
	})
	return f, seen
}

// TestRoomIsHeldUntilTheLastVictimIsGone guards report R29.
func TestRoomIsHeldUntilTheLastVictimIsGone(t *testing.T) {
	f, seen := slowVictims(t, time.Minute)
	order := f.record()
	f.create(stack.Pod("newcomer", stack.Queue("team"), stack.Whole(3)))
	f.eventuallyRun(90*time.Second, map[string]int{"claimant": 1})
	f.cycles(10)
	f.eventuallyRun(10*time.Second, map[string]int{"claimant": 1, "quick-": 0, "slow-": 0, "newcomer": 0})
	seen.want(map[string]int{"quick": 1, "slow": 1})
	for _, name := range order() {
		if strings.HasPrefix(name, "newcomer") {
			t.Errorf("the newcomer took the claimant's room")
		}
	}
	f.consistent()
}

// TestRoomIsLetGoWithItsClaimant is the second run of report R29.
func TestRoomIsLetGoWithItsClaimant(t *testing.T) {
	f, seen := slowVictims(t, time.Minute)
	f.eventuallyRunning(10*time.Second, "slow-", 0)
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "claimant", metav1.DeleteOptions{}))
	began := time.Now()
	f.eventuallyRunning(20*time.Second, "", 1) // whoever is made again first: both are within a second
	if _, leaving := f.leaving("slow-"); !leaving {
		t.Errorf("the room was let go only %s after its claimant, with the last victim", time.Since(began).Round(time.Second))
	}
	seen.want(map[string]int{"quick": 1, "slow": 1})
}

func (f fixture) eventuallyRunning(limit time.Duration, prefix string, n int) {
	f.t.Helper()
	f.eventually(limit, func() string {
		if got := f.running(prefix); got != n {
			return fmt.Sprintf("%d pods %s* run, want %d; %s", got, prefix, n, f.firstReason(prefix))
		}
		return ""
	})
}

func (f fixture) leaving(prefix string) (name string, any bool) {
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.DeletionTimestamp != nil {
			return name, true
		}
	}
	return "", false
}

// TestNothingIsTakenWhereNothingMayBe: a hundred decisions, no eviction.
func TestNothingIsTakenWhereNothingMayBe(t *testing.T) {
	f := use(t, stack.A100("n0", 6))
	f.queue("ga", map[string]any{"quota": gpus(3)})
	f.queue("gb", map[string]any{"quota": gpus(3)})
	f.queue("be", map[string]any{})
	seen := f.evictions()
	f.replicas("ga1", 1, stack.Queue("ga"), stack.Whole(5))
	f.replicas("be1", 1, stack.Queue("be"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"ga1-": 1, "be1-": 1})
	f.create(stack.Pod("ga2", stack.Queue("ga"), stack.Whole(1))) // report R28: it would borrow more
	f.eventuallyWaits(15*time.Second, "ga2", "queue ga may not reclaim that much")
	f.cycles(50)
	seen.want(map[string]int{})
	f.create(
		stack.Pod("gb-much", stack.Queue("gb"), stack.Whole(6)),                                              // more than its share
		stack.Pod("gb-nowhere", stack.Queue("gb"), stack.Whole(1), stack.OnNode(corev1.LabelHostname, "n9")), // report R35: no victim helps
	)
	f.eventuallyWaits(15*time.Second, "gb-much", "queue gb may not reclaim that much")
	f.eventuallyWaits(15*time.Second, "gb-nowhere", "no node fits")
	f.cycles(50)
	seen.want(map[string]int{})
	f.eventuallyRun(5*time.Second, map[string]int{"ga1-": 1, "be1-": 1, "ga2": 0, "gb-": 0})
	f.consistent()
}
