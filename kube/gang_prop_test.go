// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// TestGangsAreGivenUpOnlyForALoss: whatever happens to a gang, its members are
// evicted only while its status says that it is given up, then all of them at
// once, and never if no member was ever lost.
func TestGangsAreGivenUpOnlyForALoss(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		p := newGangPlay(outer)
		p.run("node n1 gpus=4\nnode n2 gpus=2")
		lost, made := false, 0
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"create", "create", "bind", "bind", "fail", "evict", "gone", "finish", "minimum", "policy", "pass"}).Draw(t, "event") {
			case "create":
				made++
				p.run(fmt.Sprintf("pod p%d queue=q group=g gpu=1 owner=o", made))
			case "bind":
				p.bind()
			case "fail":
				lost = p.end(t, "phase=Failed") || lost
			case "evict":
				lost = p.end(t, "phase=Running deleting") || lost
			case "finish":
				p.end(t, "phase=Succeeded")
			case "gone":
				lost = p.remove(t) || lost
			case "minimum":
				p.run(fmt.Sprintf("group min=%d lost=%s", rapid.IntRange(0, 5).Draw(t, "minimum"), p.group.Spec.OnMemberLost))
			case "policy":
				policy := rapid.SampledFrom([]string{"Replace", "ReleaseAll"}).Draw(t, "policy")
				p.run(fmt.Sprintf("group min=%d lost=%s", *p.group.Spec.MinMember, policy))
			case "pass":
				p.run(fmt.Sprintf("advance %ds", rapid.SampledFrom([]int{1, 30, 60, 600}).Draw(t, "seconds")))
			}
			p.evicted = 0
			p.decide()
			p.check(t, lost)
		}
	})
}

// check holds the ledger against what a gang's phase means.
func (p *gangPlay) check(t *rapid.T, lost bool) {
	view, evicted := p.view(), p.evicted
	if evicted > 0 && view.Phase != v1alpha1.PodGroupStale {
		t.Fatalf("%d members are evicted while the gang is %s\n%s", evicted, view.Phase, p.holdings())
	}
	if evicted > 0 && !lost {
		t.Fatalf("%d members are evicted and none was ever lost\n%s", evicted, p.holdings())
	}
	for uid, e := range p.ledger.pods {
		if view.Phase == v1alpha1.PodGroupStale && e.holds() && !e.facts.deleting && e.sentence == nil {
			t.Fatalf("the gang is given up and its member %s stays\n%s", uid, p.holdings())
		}
	}
	p.evicted = 0
	if p.decide(); p.evicted > 0 {
		t.Fatalf("the next cycle evicts %d more\n%s", p.evicted, p.holdings())
	}
}

// bind runs whoever was promised a place.
func (p *gangPlay) bind() {
	for _, uid := range p.ledger.UIDs() {
		if e := p.ledger.pods[uid]; e.state == statePromised && p.ledger.startable(e) {
			p.change(uid, "phase=Running", e.node)
		}
	}
}

// end lets one of the members that run go on as told; false if there is none.
func (p *gangPlay) end(t *rapid.T, how string) bool {
	running := slices.DeleteFunc(p.ledger.UIDs(), func(uid string) bool {
		e := p.ledger.pods[uid]
		return e.state != stateBound || e.facts.deleting
	})
	if len(running) == 0 {
		return false
	}
	uid := rapid.SampledFrom(running).Draw(t, "who")
	p.change(uid, how, p.ledger.pods[uid].node)
	return true
}

func (p *gangPlay) change(uid, how, node string) {
	held := ""
	for _, h := range p.ledger.pods[uid].held {
		held = " assigned=" + h.GPU
	}
	p.run(fmt.Sprintf("pod %s queue=q group=g gpu=1 owner=o node=%s%s %s", uid, node, held, how))
}

// remove deletes one pod; true if it was a member that ran.
func (p *gangPlay) remove(t *rapid.T) bool {
	all := p.ledger.UIDs()
	if len(all) == 0 {
		return false
	}
	uid := rapid.SampledFrom(all).Draw(t, "which")
	ran := p.ledger.pods[uid].state == stateBound && p.ledger.pods[uid].facts.phase != corev1.PodSucceeded
	p.run("gone uid=" + uid)
	return ran
}
