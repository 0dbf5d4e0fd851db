// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"
)

// TestBackoffGrows with every eviction in a row, up to a bound, and starts anew
// after a long time in peace.
func TestBackoffGrows(t *testing.T) {
	var r record
	now := int64(1_800_000_000_000_000_000)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		if r = r.again(time.Minute, now); r.until-now != int64(want*time.Minute) {
			t.Errorf("spared for %s, want %s", time.Duration(r.until-now), want*time.Minute)
		}
		now = r.until
	}
	if quiet := now + int64(16*time.Minute); r.forgotten(quiet-1) || !r.forgotten(quiet) {
		t.Error("the record is not forgotten 16 minutes after the end of the back-off")
	}
}

// TestGangIsSparedOnce: the members of a gang that go one after the other are one
// eviction, and its next one is the second.
func TestGangIsSparedOnce(t *testing.T) {
	p := newPlayer()
	p.restart(func(c *Config) { c.EvictionBackoff = time.Minute })
	p.node("n1", args{"gpus": "2"})
	p.queue("a", args{"quota": "2"})
	p.queue("b", args{})
	p.podGroup("g", args{"min": "2", "queue": "b"})
	member := func(uid, gpu string, more ...string) {
		a := args{"uid": uid, "group": "g", "gpu": "1", "node": "n1", "phase": "Running", "assigned": gpu, "owner": "job"}
		for _, m := range more {
			a[m] = ""
		}
		p.ledger.SetPod(podOf(uid, a, p.time))
	}
	spared := func() time.Duration {
		return time.Duration(p.ledger.workloads["default/g"].spec.SparedUntil - p.time.UnixNano())
	}
	for round, want := range []time.Duration{time.Minute, 2 * time.Minute} {
		x, y := string(rune('p'+2*round)), string(rune('q'+2*round))
		member(x, "n1-g0")
		member(y, "n1-g1")
		p.ledger.SetPod(podOf("claimant", args{"queue": "a", "gpu": "2", "gated": ""}, p.time))
		if got := len(p.ledger.Decide().Plan.Evictions); got != 2 {
			t.Fatalf("%d evictions, want both members", got)
		}
		member(x, "n1-g0", "deleting")
		p.time = p.time.Add(5 * time.Second)
		member(y, "n1-g1", "deleting")
		p.ledger.Decide()
		if got := spared() + 5*time.Second; got != want {
			t.Errorf("after eviction %d the gang is spared for %s, want %s", round+1, got, want)
		}
		p.ledger.RemovePod("claimant")
		p.ledger.RemovePod(x)
		p.ledger.RemovePod(y)
		p.time = p.time.Add(want)
	}
}

// TestSinglePodLeftAloneIsSparedAsAtFirst though the pod has its record from one
// that it stands in for.
func TestSinglePodLeftAloneIsSparedAsAtFirst(t *testing.T) {
	p := newPlayer()
	p.restart(func(c *Config) { c.EvictionBackoff = time.Minute })
	p.node("n1", args{"gpus": "1"})
	p.queue("a", args{"quota": "1"})
	p.queue("b", args{})
	for round, c := range []struct{ peace, want time.Duration }{
		{0, time.Minute}, {time.Minute, 2 * time.Minute}, {2 * time.Minute, 4 * time.Minute}, {20 * time.Minute, time.Minute},
	} {
		p.time = p.time.Add(c.peace)
		uid := string(rune('p' + round))
		a := args{"queue": "b", "gpu": "1", "owner": "rs", "phase": "Running"}
		p.ledger.SetPod(podOf(uid, a, p.time))
		a["node"], a["assigned"] = "n1", "n1-g0"
		p.ledger.SetPod(podOf(uid, a, p.time))
		p.ledger.SetPod(podOf("claimant", args{"queue": "a", "gpu": "1", "gated": ""}, p.time))
		if got := len(p.ledger.Decide().Plan.Evictions); got != 1 {
			t.Fatalf("%d evictions, want that of %s", got, uid)
		}
		p.ledger.RemovePod(uid)
		p.ledger.RemovePod("claimant")
		if got := time.Duration(p.ledger.restraint.owners["rs"][0].until - p.time.UnixNano()); got != c.want {
			t.Errorf("after eviction %d the next pod is spared for %s, want %s", round+1, got, c.want)
		}
	}
}

// TestBackoffIsInherited from the nearest queue that sets one, 0 included.
func TestBackoffIsInherited(t *testing.T) {
	p := newPlayer()
	p.restart(func(c *Config) { c.EvictionBackoff = time.Hour })
	p.queue("top", args{"backoff": "1m"})
	p.queue("middle", args{"parent": "top"})
	p.queue("leaf", args{"parent": "middle"})
	p.queue("never", args{"parent": "middle", "backoff": "0s"})
	p.queue("alone", args{})
	p.queue("x", args{"parent": "y"})
	p.queue("y", args{"parent": "x"})
	for queue, want := range map[string]time.Duration{
		"top": time.Minute, "leaf": time.Minute, "never": 0, "alone": time.Hour, "missing": time.Hour, "x": time.Hour,
	} {
		if got := p.ledger.backoffOf(queue); got != want {
			t.Errorf("the back-off of queue %s is %s, want %s", queue, got, want)
		}
	}
}
