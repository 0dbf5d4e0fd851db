// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

var (
	stormKills = flag.Int("storm-kills", 20, "how often the control plane is killed in the reclaim storm")
	stormSeed  = flag.Uint64("storm-seed", 1, "seed of the instants at which it is killed")
)

// TestReclaimStormSurvivesKills: while a queue takes back its quota in waves,
// the control plane is killed at random instants and the API server once. In
// the end the queue has its quota, and exactly as many pods were evicted as it
// took: none twice, none for a claim that another victim already served.
func TestReclaimStormSurvivesKills(t *testing.T) {
	const wave, perNode = 4, 8
	waves := *stormKills
	var nodes []stack.GPUNode
	for i := range (waves*wave + 2*perNode) / perNode {
		nodes = append(nodes, stack.A100(fmt.Sprintf("n%d", i), perNode))
	}
	total, quota := len(nodes)*perNode, waves*wave
	random := rand.New(rand.NewPCG(*stormSeed, 0))
	f := use(t, nodes...)
	f.queue("owner", map[string]any{"quota": gpus(quota)})
	for i := range total / perNode {
		name := fmt.Sprintf("lender%d", i)
		f.queue(name, map[string]any{})
		f.replicas(name, perNode, stack.Queue(name), stack.Whole(1), goneAfter(time.Duration(1+i%3)*time.Second))
	}
	f.eventuallyRun(60*time.Second, map[string]int{"lender": total})
	seen := f.evictions()
	for i := range waves {
		var claimants []*corev1.Pod
		for j := range wave {
			claimants = append(claimants, stack.Pod(fmt.Sprintf("owner-%d", i*wave+j), stack.Queue("owner"), stack.Whole(1)))
		}
		f.create(claimants...)
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		f.must(f.Kill(stack.ControlPlane))
		if i == waves/2 {
			f.must(f.Restart(f.ctx, bed.APIServer))
		}
		f.must(f.Restart(f.ctx, stack.ControlPlane))
	}
	f.eventuallyRun(90*time.Second, map[string]int{"owner-": quota, "lender": total - quota})
	f.cycles(10)
	if all := seen.all(); len(all) != quota {
		t.Errorf("%d pods were evicted for %d claimants (seed %d)", len(all), quota, *stormSeed)
		for _, e := range all {
			t.Logf("%s %s: %s", e.at.Format("15:04:05.000"), e.pod, e.message)
		}
	}
	f.held()
	f.consistent()
}

// TestReclaimSurvivesASilentStore: the store hangs for five seconds in the
// middle of a reclaim, so that evictions, promises and bindings time out or
// fail. Then all goes on, with no victim more.
func TestReclaimSurvivesASilentStore(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8))
	f.queue("owner", map[string]any{"quota": gpus(6)})
	f.replicas("lender", 16, stack.Queue("team"), stack.Whole(1), goneAfter(2*time.Second))
	f.eventuallyRun(30*time.Second, map[string]int{"lender-": 16})
	seen := f.evictions()
	for i := range 6 {
		f.create(stack.Pod(fmt.Sprintf("owner-%d", i), stack.Queue("owner"), stack.Whole(1)))
	}
	f.must(f.Signal(bed.Etcd, syscall.SIGSTOP))
	time.Sleep(5 * time.Second)
	f.must(f.Signal(bed.Etcd, syscall.SIGCONT))
	f.eventuallyRun(60*time.Second, map[string]int{"owner-": 6, "lender-": 10})
	f.cycles(10)
	seen.want(map[string]int{"lender": 6})
	f.held()
	f.consistent()
}

// TestReclaimSurvivesALostWatch: the control plane loses the API server in the
// middle of a reclaim, twice for seconds with broken connections, then with silent
// ones, while claimants come and a node and its pod go unseen. Then all goes on,
// with no victim more.
func TestReclaimSurvivesALostWatch(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8), stack.A100("n2", 8))
	t.Cleanup(f.Link.Restore)
	f.queue("owner", map[string]any{"quota": gpus(9)})
	f.create(stack.Pod("unseen", stack.Queue("team"), stack.Whole(8)))
	f.eventuallyRun(20*time.Second, map[string]int{"unseen": 1})
	f.replicas("lender", 16, stack.Queue("team"), stack.Whole(1))
	f.eventuallyRun(30*time.Second, map[string]int{"lender-": 16})
	node := f.pods()["unseen"].Spec.NodeName
	seen := f.evictions()
	claim := func(from, to int) {
		for i := from; i < to; i++ {
			f.create(stack.Pod(fmt.Sprintf("owner-%d", i), stack.Queue("owner"), stack.Whole(1)))
		}
	}
	for i, lose := range []func(){f.Link.Cut, f.Link.Cut, f.Link.Silence} {
		claim(3*i, 3*i+2)
		f.eventually(20*time.Second, func() string {
			if n := len(seen.all()); n < 3*i+1 {
				return fmt.Sprintf("%d pods were asked to leave, want at least %d", n, 3*i+1)
			}
			return ""
		})
		lose()
		claim(3*i+2, 3*i+3)
		if i == 1 {
			f.must(f.Client.CoreV1().Nodes().Delete(f.ctx, node, metav1.DeleteOptions{}))
			f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "unseen", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		}
		time.Sleep(3 * time.Second)
		f.Link.Restore()
		f.eventuallyRun(60*time.Second, map[string]int{"owner-": 3*i + 3, "lender-": 16 - (3*i + 3)})
	}
	f.cycles(10)
	seen.want(map[string]int{"lender": 9})
	f.held()
	f.consistent()
}
