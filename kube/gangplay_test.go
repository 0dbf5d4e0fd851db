// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
)

// gangPlay is a gang of the ledger under test.
type gangPlay struct {
	*player
	t       *testing.T
	group   *v1alpha1.PodGroup
	evicted int
}

func newGangPlay(t *testing.T) *gangPlay {
	p := &gangPlay{player: newPlayer(), t: t, group: &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}}
	p.run("queue q\ngroup min=2")
	return p
}

// run plays the lines of a script: those of TestLedger, and
//
//	group min=2 [lost=ReleaseAll] [grace=60s]
//	state Running         brings the gang there first
//	restart               the control plane starts anew, from what the API server has
//	restore b             the pod is as if it had not failed
//	want c promised       the pod's state
//	decide                a cycle
func (p *gangPlay) run(script string) {
	p.t.Helper()
	for line := range strings.SplitSeq(script, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		cmd, cmdArgs, err := datadriven.ParseLine(line)
		if err != nil {
			p.t.Fatal(err)
		}
		d := &datadriven.TestData{Cmd: cmd, CmdArgs: cmdArgs}
		name, a := argsOf(d)
		switch cmd {
		case "group":
			p.setGroup(a)
		case "state":
			p.run(gangStates[name])
		case "restart":
			p.restarted()
		case "restore":
			p.restore(name)
		case "want":
			if text := p.holdings(); !strings.Contains(text, fmt.Sprintf("%s %s", name, cmdArgs[1].Key)) {
				p.t.Errorf("%s:\n%s", line, text)
			}
		case "decide":
			p.decide()
		default:
			if _, err := p.play(d); err != nil {
				p.t.Fatalf("%s: %v", line, err)
			}
		}
	}
}

func (p *gangPlay) setGroup(a args) {
	g := p.group.DeepCopy()
	g.Spec.MinMember = new(int32(a.number("min", 1)))
	g.Spec.OnMemberLost = v1alpha1.OnMemberLost(a["lost"])
	if a.has("grace") {
		g.Spec.StaleGracePeriod = &metav1.Duration{Duration: a.duration("grace")}
	}
	p.group = g
	p.ledger.SetPodGroup(g)
}

// decide runs a cycle and lets the API server have the status that follows.
func (p *gangPlay) decide() {
	for _, e := range p.ledger.Decide().Plan.Evictions {
		if e.Rule != cycle.RuleStaleGang {
			p.t.Errorf("pod %s is evicted by rule %s", e.Pod, e.Rule)
		}
		p.evicted++
	}
	v := p.view()
	g := p.group.DeepCopy()
	g.Status.Phase, g.Status.Succeeded, g.Status.SubGroups = v.Phase, int32(v.Gang.Succeeded), v.SubGroups
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Reason: v1alpha1.ReasonComplete}
	switch {
	case v.StaleSince != 0:
		c.Reason, c.LastTransitionTime = v1alpha1.ReasonMembersLost, metav1.NewTime(time.Unix(0, v.StaleSince))
	case v.Short:
		c.Reason = v1alpha1.ReasonMinimumRaised
	}
	g.Status.Conditions = []metav1.Condition{c}
	p.group = g
	p.ledger.SetPodGroup(g)
}

func (p *gangPlay) view() GroupView {
	views := p.ledger.Groups()
	if len(views) != 1 {
		p.t.Fatalf("%d gangs", len(views))
	}
	return views[0]
}

func (p *gangPlay) want(phase string) {
	p.t.Helper()
	if got := p.view().Phase; string(got) != phase {
		p.t.Errorf("the gang is %s, want %s\n%s", got, phase, p.holdings())
	}
}

// restarted fills a new ledger, pods first.
func (p *gangPlay) restarted() {
	present := p.ledger.UIDs()
	nodes := p.ledger.nodes
	p.ledger = NewLedger(DefaultConfig(), func() time.Time { return p.time }, slog.New(slog.DiscardHandler), "podgroups")
	for _, uid := range present {
		p.ledger.SetPod(p.pods[uid])
	}
	for name := range nodes {
		p.run("node " + name + " gpus=4")
	}
	p.run("queue q")
	p.ledger.Decide()
	p.ledger.SetPodGroup(p.group)
	p.ledger.Synced("podgroups")
}

// restore makes the gang new, with all members running.
func (p *gangPlay) restore(string) {
	for _, uid := range slices.Clone(p.ledger.UIDs()) {
		p.ledger.RemovePod(uid)
	}
	p.ledger.Decide()
	p.run(gangStates["Running"])
}
