// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"testing"

	"github.com/fairslice/fairslice/core/cycle"
)

// crowd is a ledger with nodes of eight GPUs that all run, less the last node.
func crowd(b *testing.B, nodes int) *player {
	b.Helper()
	p := newPlayer()
	p.queue("q", args{})
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		p.node(name, args{"gpus": "8"})
		for g := range 8 {
			if i == nodes-1 {
				continue
			}
			a := args{"queue": "q", "gpu": "1", "node": name, "phase": "Running", "assigned": fmt.Sprintf("%s-g%d", name, g)}
			p.ledger.SetPod(podOf(fmt.Sprintf("r%05d-%d", i, g), a, p.time))
		}
	}
	p.ledger.Decide()
	return p
}

// BenchmarkFilterAndBind is one pod's way through the ledger: its event, the
// filter call with every node, which runs the cycle for it, assume, confirm.
func BenchmarkFilterAndBind(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			p := crowd(b, nodes)
			names := make([]string, nodes)
			for i := range names {
				names[i] = fmt.Sprintf("n%05d", i)
			}
			free := names[nodes-1]
			n := 0
			for b.Loop() {
				uid := fmt.Sprintf("u%d", n)
				n++
				pod := podOf(uid, args{"queue": "q", "gpu": "1"}, p.time)
				p.ledger.SetPod(pod)
				ok, _ := p.ledger.Feasible(uid, names)
				if len(ok) != 1 || ok[0] != free {
					b.Fatalf("feasible nodes are %v, want %s", ok, free)
				}
				if _, err := p.ledger.Assume(uid, free); err != nil {
					b.Fatal(err)
				}
				p.ledger.ConfirmBound(uid)
				p.ledger.RemovePod(uid)
			}
		})
	}
}

// BenchmarkFilterPlanned is the filter call for a pod that has its promise.
func BenchmarkFilterPlanned(b *testing.B) {
	p := crowd(b, 1000)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	p.ledger.SetPod(podOf("a", args{"queue": "q", "gpu": "1"}, p.time))
	p.ledger.Decide(cycle.Allocate)
	for b.Loop() {
		if ok, _ := p.ledger.Feasible("a", names); len(ok) != 1 {
			b.Fatalf("feasible nodes are %v", ok)
		}
	}
}

// TestGangIsNotTranslatedForEveryLook at one of its members: while a gang of
// hundreds is bound each of them asks many times a second.
func TestGangIsNotTranslatedForEveryLook(t *testing.T) {
	p := newPlayer()
	p.queue("q", args{})
	p.podGroup("g", args{"min": "200"})
	for i := range 200 {
		p.ledger.SetPod(podOf(fmt.Sprintf("p%d", i), args{"queue": "q", "group": "g", "gpu": "1"}, p.time))
	}
	p.ledger.Decide()
	looks := map[string]func(){
		"Lookup":    func() { p.ledger.Lookup("p1") },
		"GangReady": func() { p.ledger.GangReady("default/g") },
	}
	for name, look := range looks {
		if n := testing.AllocsPerRun(10, look); n > 20 {
			t.Errorf("%s allocates %v times in a gang of 200, at most 20 are allowed", name, n)
		}
	}
}
