// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"
)

// TestRefusalOfAKubeletEndsOnce: in the hour that it is remembered for after its end
// no cycle takes the pods that wait to have changed.
func TestRefusalOfAKubeletEndsOnce(t *testing.T) {
	p := newPlayer()
	l := p.ledger
	p.node("n1", args{"gpus": "1"})
	p.queue("q", args{})
	l.SetPod(podOf("p1", args{"queue": "q", "gpu": "1", "owner": "job", "node": "n1"}, p.time))
	l.SetPod(podOf("p1", args{"queue": "q", "gpu": "1", "owner": "job", "node": "n1", "phase": "Failed", "kubelet": "TopologyAffinityError"}, p.time))
	l.SetPod(podOf("p2", args{"queue": "q", "gpu": "2", "owner": "job"}, p.time))
	changed := func(step time.Duration) bool {
		before := l.cluster.MixEpoch()
		p.time = p.time.Add(step)
		l.Decide()
		return l.cluster.MixEpoch() != before
	}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {time.Minute, false}, {4 * time.Minute, true}, {time.Second, false}, {50 * time.Minute, false}, {time.Hour, false}} {
		if got := changed(step.after); got != step.want {
			t.Errorf("after another %s the cluster changed: %t, want %t", step.after, got, step.want)
		}
	}
	if len(l.turned) > 0 {
		t.Errorf("%d refusals are remembered for ever", len(l.turned))
	}
}
