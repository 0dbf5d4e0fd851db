// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// TestShownNameIsAName: whatever the owner is called.
func TestShownNameIsAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[A-Za-z0-9._-]{1,80}`)
		key := "team/" + part.Draw(t, "kind") + "/" + part.Draw(t, "owner") + "@" + rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "uid")
		name := ShownName(key)
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			t.Fatalf("%q of key %q: %v", name, key, wrong)
		}
		if other := key + "0"; ShownName(other) == name {
			t.Fatalf("keys %q and %q have the same name %q", key, other, name)
		}
	})
	if name := ShownName("team/pytorchjob/bert@5f0c2a91"); name[:len("pytorchjob-bert-")] != "pytorchjob-bert-" {
		t.Errorf("the name %s does not say whose gang it is", name)
	}
}

// TestDerivedGangIsShownWhileItHasPods follows a derived gang and its PodGroup.
func TestDerivedGangIsShownWhileItHasPods(t *testing.T) {
	p := newPlayer()
	owner := &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j"}
	key := "default/job/j@j"
	member := func(minimum int) *Membership {
		return &Membership{Group: &Group{Key: key, Owner: owner, Spec: v1alpha1.PodGroupSpec{MinMember: new(int32(minimum))}}}
	}
	create := func(name string) {
		p.ledger.SetMembership(name, member(2))
		p.ledger.SetPod(podOf(name, args{"queue": "q", "gpu": "1"}, p.time))
	}
	create("a")
	v := onlyGroup(t, p.ledger)
	if v.Object != nil || v.Derived == nil || v.Derived.Owner != owner || v.Derived.Key != key || v.Phase != v1alpha1.PodGroupPending {
		t.Fatalf("the view of a derived gang without a PodGroup is %+v", v)
	}
	made := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: v.Derived.Name, Annotations: map[string]string{v1alpha1.AnnotationGang: key}},
		Spec:       v.Derived.Spec,
	}
	p.ledger.SetPodGroup(made)
	create("b")
	if v = onlyGroup(t, p.ledger); v.Object != made || v.Phase != v1alpha1.PodGroupWaiting || v.Members != 2 {
		t.Errorf("the view of a derived gang with its PodGroup is %+v", v)
	}
	for _, uid := range []string{"a", "b"} {
		p.ledger.SetMembership(uid, member(3))
	}
	if v = onlyGroup(t, p.ledger); *v.Derived.Spec.MinMember != 3 || v.Phase != v1alpha1.PodGroupPending {
		t.Errorf("the owner's new minimum is not shown: %+v", v)
	}
	p.ledger.RemovePod("a")
	p.ledger.RemovePod("b")
	if v = onlyGroup(t, p.ledger); v.Object != made || v.Derived.Gone || v.Phase != v1alpha1.PodGroupPending || v.Members != 0 {
		t.Errorf("the view of a derived gang that waits for new pods is %+v", v)
	}
	p.time = p.time.Add(shownFor)
	if v = onlyGroup(t, p.ledger); !v.Derived.Gone {
		t.Errorf("the view of a derived gang without pods is %+v", v)
	}
	p.ledger.RemovePodGroup("default", made.Name)
	if views := p.ledger.Groups(); len(views) != 0 {
		t.Errorf("after its end there are still %+v", views)
	}
}

// TestNoPodGroupIsMadeForAGangThatLeaves: its owner is gone, so that Kubernetes
// would delete every one that is made.
func TestNoPodGroupIsMadeForAGangThatLeaves(t *testing.T) {
	p := newPlayer()
	member := &Membership{Group: &Group{Key: "default/job/j@j", Spec: v1alpha1.PodGroupSpec{MinMember: new(int32(2))}}}
	for _, name := range []string{"a", "b"} {
		p.ledger.SetMembership(name, member)
		p.ledger.SetPod(podOf(name, args{"queue": "q", "gpu": "1", "node": "n1", "phase": "Running"}, p.time))
	}
	v := onlyGroup(t, p.ledger)
	made := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: v.Derived.Name, Annotations: map[string]string{v1alpha1.AnnotationGang: v.Derived.Key}},
		Spec:       v.Derived.Spec,
	}
	p.ledger.SetPodGroup(made)
	leave := func(name string) {
		p.ledger.SetPod(podOf(name, args{"queue": "q", "gpu": "1", "node": "n1", "phase": "Running", "deleting": ""}, p.time))
	}
	leave("a")
	p.ledger.RemovePodGroup("default", made.Name)
	if v := onlyGroup(t, p.ledger); v.Derived == nil {
		t.Error("a gang with a member that stays is not shown")
	}
	p.ledger.SetPodGroup(made)
	leave("b")
	if v := onlyGroup(t, p.ledger); v.Object != made {
		t.Error("a gang that leaves is not shown though it has a PodGroup")
	}
	p.ledger.RemovePodGroup("default", made.Name)
	if views := p.ledger.Groups(); len(views) != 0 {
		t.Errorf("a gang that leaves is to be shown by a new PodGroup: %+v", views)
	}
}

// TestCopyOfAShownPodGroupIsAnOrdinaryOne: who copies one to start with means
// it.
func TestCopyOfAShownPodGroupIsAnOrdinaryOne(t *testing.T) {
	p := newPlayer()
	p.ledger.SetPodGroup(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "mine", Annotations: map[string]string{v1alpha1.AnnotationGang: "default/job/j@j"},
	}})
	if v := onlyGroup(t, p.ledger); v.Derived != nil || v.Object.Name != "mine" {
		t.Errorf("the view is %+v", v)
	}
}

// TestShownPodGroupThatLosesItsMark is one that somebody wrote, until the mark is
// back: it never has the status of both.
func TestShownPodGroupThatLosesItsMark(t *testing.T) {
	p := newPlayer()
	key := "default/job/j@j"
	p.ledger.SetMembership("a", &Membership{Group: &Group{Key: key, Spec: v1alpha1.PodGroupSpec{MinMember: new(int32(2))}}})
	p.ledger.SetPod(podOf("a", args{"queue": "q", "gpu": "1"}, p.time))
	marked := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: ShownName(key), UID: "g", Annotations: map[string]string{v1alpha1.AnnotationGang: key},
	}}
	bare := marked.DeepCopy()
	bare.Annotations = nil
	for _, g := range []*v1alpha1.PodGroup{marked, bare, marked, bare, marked} {
		p.ledger.SetPodGroup(g)
		p.ledger.Decide()
		var views []GroupView
		for _, v := range p.ledger.Groups() {
			if v.Object != nil {
				views = append(views, v)
			}
		}
		if len(views) != 1 || views[0].Object != g || (views[0].Derived != nil) != (g == marked) {
			t.Fatalf("with the annotations %v the object has the views %+v", g.Annotations, views)
		}
	}
}

// TestPodsThatStartOneByOneAreNotShown: they are no gang.
func TestPodsThatStartOneByOneAreNotShown(t *testing.T) {
	p := newPlayer()
	p.ledger.SetMembership("a", &Membership{Group: &Group{Key: "default/notebook/n@n", Spec: v1alpha1.PodGroupSpec{MinMember: new(int32(1))}}})
	p.ledger.SetPod(podOf("a", args{"queue": "q", "gpu": "1"}, p.time))
	if views := p.ledger.Groups(); len(views) != 0 {
		t.Errorf("shown is %+v", views)
	}
}

func onlyGroup(t *testing.T, l *Ledger) GroupView {
	t.Helper()
	l.Decide()
	views := l.Groups()
	if len(views) != 1 {
		t.Fatalf("%d gangs, want 1: %+v", len(views), views)
	}
	return views[0]
}

// Where minSubGroup is left out all sub-groups are needed, where it is 0 none is.
func TestMinSubGroupZeroIsNotUnset(t *testing.T) {
	for _, test := range []struct {
		asked *int32
		want  int
	}{{nil, 4}, {new(int32(0)), 0}, {new(int32(1)), 2}} {
		w := model.Workload{MinSubGroup: minSubGroup(test.asked), SubGroups: subGroupsOf([]v1alpha1.SubGroup{
			{Name: "a", MinMember: new(int32(2))},
			{Name: "b", MinSubGroup: test.asked}, {Name: "c", Parent: "b", MinMember: new(int32(2))},
		})}
		if got := minimum(w); got != test.want || reached(w, nil) != (test.want == 0) {
			t.Errorf("minSubGroup %v: the minimum is %d, want %d; reached without members: %t", test.asked, got, test.want, reached(w, nil))
		}
	}
}

// TestOptionalSubGroupIsWatchedByItself guards report R49 in the ledger: a branch
// that the gang can do without is released after the grace, the core stays.
func TestOptionalSubGroupIsWatchedByItself(t *testing.T) {
	p := newPlayer()
	play := &gangPlay{player: p, t: t, group: &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}}
	play.group.Spec = v1alpha1.PodGroupSpec{MinSubGroup: new(int32(1)), SubGroups: []v1alpha1.SubGroup{
		{Name: "core", MinMember: new(int32(2))}, {Name: "extra", MinMember: new(int32(2))},
	}}
	p.ledger.SetPodGroup(play.group)
	play.run(`
		queue q
		node n1 gpus=2
		node n2 gpus=2
		pod c1 queue=q group=g sub=core gpu=1 node=n1 phase=Running assigned=n1-g0
		pod c2 queue=q group=g sub=core gpu=1 node=n1 phase=Running assigned=n1-g1
		pod e1 queue=q group=g sub=extra gpu=1 node=n2 phase=Running assigned=n2-g0
		pod e2 queue=q group=g sub=extra gpu=1 node=n2 phase=Running assigned=n2-g1
		decide`)
	play.want("Running")
	play.run(`
		gone uid=e2
		pod x queue=q gpu=1
		decide`)
	play.want("Degraded")
	if v := play.view(); len(v.SubGroups) != 2 || v.SubGroups[0].Running != 2 || v.SubGroups[1].Running != 1 {
		t.Errorf("the sub-groups are %+v", v.SubGroups)
	}
	p.time = p.time.Add(59 * time.Second)
	play.decide()
	if play.evicted != 0 {
		t.Errorf("%d are evicted before the grace is over", play.evicted)
	}
	p.time = p.time.Add(time.Second)
	play.decide()
	if e := p.ledger.pods["e1"]; play.evicted != 1 || e.sentence == nil {
		t.Errorf("%d are evicted, want e1 alone", play.evicted)
	}
	play.run("gone uid=e1\ndecide")
	play.want("Running")
}

// TestFinishedMembersOfSubGroupsCount when their pods are gone.
func TestFinishedMembersOfSubGroupsCount(t *testing.T) {
	p := newPlayer()
	play := &gangPlay{player: p, t: t, group: &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}}
	play.group.Spec.SubGroups = []v1alpha1.SubGroup{{Name: "init", MinMember: new(int32(1))}, {Name: "train", MinMember: new(int32(1))}}
	p.ledger.SetPodGroup(play.group)
	play.run(`
		queue q
		node n1 gpus=2
		pod i queue=q group=g sub=init gpu=1 node=n1 phase=Running assigned=n1-g0
		pod t queue=q group=g sub=train gpu=1 node=n1 phase=Running assigned=n1-g1
		decide
		pod i queue=q group=g sub=init gpu=1 node=n1 phase=Succeeded
		decide
		gone uid=i
		decide
		restart
		decide
		pod t queue=q group=g sub=train gpu=1 node=n1 phase=Failed
		pod t2 queue=q group=g sub=train gpu=1
		decide
		want t2 promised`)
	if v := play.view(); v.SubGroups[0].Succeeded != 1 || v.Gang.Succeeded != 1 {
		t.Errorf("of the finished member is left: %+v", v.SubGroups)
	}
}

// TestReplacementThatComesAtOnceGetsThePlace of the lost member also when no cycle
// has seen the gang without either.
func TestReplacementThatComesAtOnceGetsThePlace(t *testing.T) {
	p := newGangPlay(t)
	p.run(`
		node n1 gpus=2
		pod a queue=q group=g gpu=1 node=n1 phase=Running owner=o assigned=n1-g0
		pod b queue=q group=g gpu=1 node=n1 phase=Running owner=o assigned=n1-g1
		decide`)
	p.ledger.RemovePod("b")
	p.ledger.SetPod(podOf("b2", args{"queue": "q", "group": "g", "gpu": "1", "owner": "o"}, p.time))
	p.run(`
		decide
		want b2 promised
		assume uid=b2 node=n1
		want b2 assumed`)
}

// TestMemberThatIsBoundAgainIsNotLost: one whose bind was refused, while another one
// is bound, keeps its place, and nobody is evicted for it unless it takes too long.
func TestMemberThatIsBoundAgainIsNotLost(t *testing.T) {
	for _, policy := range []string{"Replace", "ReleaseAll"} {
		p := newGangPlay(t)
		p.run("group min=2 lost=" + policy + `
			node n1 gpus=2
			pod a queue=q group=g gpu=1 owner=o
			pod b queue=q group=g gpu=1 owner=o
			decide
			assume uid=a node=n1
			assume uid=b node=n1
			confirm uid=b
			forget uid=a
			decide
			decide
			want a promised`)
		if p.evicted > 0 {
			t.Errorf("%s: %d are evicted because a bind was refused", policy, p.evicted)
		}
		p.run("assume uid=a node=n1\nconfirm uid=a\ndecide")
		p.want("Starting")
	}
}

// TestGangThatArrivesSlowlyIsNotDegraded: while some members wait to be bound others
// give up waiting and come back, for longer than the grace.
func TestGangThatArrivesSlowlyIsNotDegraded(t *testing.T) {
	p := newGangPlay(t)
	p.run(`
		group min=3
		node n1 gpus=3
		pod a queue=q group=g gpu=1 owner=o
		pod b queue=q group=g gpu=1 owner=o
		pod c queue=q group=g gpu=1 owner=o
		decide
		assume uid=a node=n1
		assume uid=b node=n1
		decide`)
	for range 3 {
		for _, uid := range []string{"a", "b"} {
			p.run("advance 20s\nforget uid=" + uid + "\ndecide")
			p.want("Scheduling")
			p.run("assume uid=" + uid + " node=n1\ndecide")
			p.want("Scheduling")
		}
	}
}
