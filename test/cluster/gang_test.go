// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

func TestGangOfEightBindsWhole(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.gang("g", "team", 8)
	f.create(members("g", "team", 8)...)
	f.eventuallyBound(20*time.Second, "g-", 8)
}

func TestEighthMemberIsTwentySecondsLate(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.gang("g", "team", 8)
	pods := members("g", "team", 8)
	f.create(pods[:7]...)
	f.eventuallyWaits(10*time.Second, "g-0", "gang default/g: 1 pod is missing")
	f.always(20*time.Second, func() string {
		if n := f.boundCount("g-"); n != 0 {
			return fmt.Sprintf("%d members are bound while one is missing", n)
		}
		return ""
	})
	f.create(pods[7])
	f.eventuallyBound(20*time.Second, "g-", 8)
}

// straggler makes a member that no scheduler picks up (the second set-up's does
// not run here), so that the others wait for it in their bind calls.
func straggler(p *corev1.Pod) { p.Spec.SchedulerName = "fairslice-scheduler" }

// atBarrier waits until seven members are in their bind calls, with room taken,
// and wait for the eighth.
func (f fixture) atBarrier() {
	f.t.Helper()
	f.eventually(20*time.Second, func() string {
		var dump kube.Dump
		f.must(f.LedgerDump(f.ctx, &dump))
		assumed := 0
		for _, p := range dump.Pods {
			if p.State == "assumed" {
				assumed++
			}
		}
		if assumed != 7 {
			return fmt.Sprintf("%d of 7 members are in their bind calls; %s", assumed, f.firstReason("g-"))
		}
		return ""
	})
	f.always(2*time.Second, func() string {
		if n := f.boundCount("g-"); n != 0 {
			return fmt.Sprintf("%d members are bound while one has not arrived", n)
		}
		return ""
	})
}

func TestMemberDeletedWhileTheOthersWaitAtTheBarrier(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.gang("g", "team", 8)
	pods := members("g", "team", 8)
	straggler(pods[7])
	f.create(pods...)
	f.atBarrier()
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "g-7", metav1.DeleteOptions{}))
	f.eventually(10*time.Second, func() string {
		if _, exists := f.pods()["g-7"]; exists {
			return "g-7 is still there"
		}
		return ""
	})
	f.always(3*time.Second, func() string {
		if n := f.boundCount("g-"); n != 0 {
			return fmt.Sprintf("%d members are bound after one was deleted", n)
		}
		return ""
	})
	f.create(members("g", "team", 8)[7])
	f.eventuallyBound(40*time.Second, "g-", 8)
}

func TestSchedulerKilledWhileAGangWaitsAtTheBarrier(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.gang("g", "team", 8)
	pods := members("g", "team", 8)
	straggler(pods[7])
	f.create(pods...)
	f.atBarrier()
	f.must(f.Kill(bed.KubeScheduler))
	f.always(2*time.Second, func() string {
		if n := f.boundCount("g-"); n != 0 {
			return fmt.Sprintf("%d members are bound after the scheduler died", n)
		}
		return ""
	})
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "g-7", metav1.DeleteOptions{}))
	f.must(f.Restart(f.ctx, bed.KubeScheduler))
	f.eventually(10*time.Second, func() string {
		if _, exists := f.pods()["g-7"]; exists {
			return "g-7 is still there"
		}
		return ""
	})
	f.create(members("g", "team", 8)[7])
	f.eventuallyBound(60*time.Second, "g-", 8)
}

func TestTwoGangsNeverBothHoldAPart(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4), stack.A100("n2", 4))
	f.gang("a", "team", 8)
	f.gang("b", "team", 8)
	stop := f.record()
	f.create(append(members("a", "team", 8), members("b", "team", 8)...)...)
	f.eventually(30*time.Second, func() string {
		a, b := f.boundCount("a-"), f.boundCount("b-")
		if a+b != 8 || a*b != 0 {
			return fmt.Sprintf("gang a has %d of 8 bound and gang b %d of 8", a, b)
		}
		return ""
	})
	winner, loser := "a", "b"
	if f.boundCount("b-") > 0 {
		winner, loser = "b", "a"
	}
	f.eventuallyWaits(10*time.Second, loser+"-0", "8")
	for _, p := range members(winner, "team", 8) {
		f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, p.Name, metav1.DeleteOptions{}))
	}
	f.eventuallyBound(30*time.Second, loser+"-", 8)
	order := stop()
	if len(order) != 16 {
		t.Fatalf("%d bindings, want 16: %v", len(order), order)
	}
	for i, name := range order {
		if want := map[bool]string{true: winner, false: loser}[i < 8]; !strings.HasPrefix(name, want+"-") {
			t.Errorf("binding %d is %s: gangs were bound in part: %v", i, name, order)
		}
	}
}
