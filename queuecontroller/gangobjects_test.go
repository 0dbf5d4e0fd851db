// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// TestGangObjects: what is written for a derived gang, by what there is.
func TestGangObjects(t *testing.T) {
	owner := &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u1"}
	spec := v1alpha1.PodGroupSpec{MinMember: new(int32(3))}
	derived := kube.DerivedGang{Namespace: "team", Name: "job-j-1", Key: "team/job/j@u1", Owner: owner, Spec: spec}
	gone := derived
	gone.Gone = true
	object := func(change func(*v1alpha1.PodGroup)) *v1alpha1.PodGroup {
		g := &v1alpha1.PodGroup{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodGroup"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "job-j-1", UID: "g1", Annotations: map[string]string{v1alpha1.AnnotationGang: derived.Key},
			},
			Spec: spec,
		}
		change(g)
		return g
	}
	same := object(func(*v1alpha1.PodGroup) {})
	edited := object(func(g *v1alpha1.PodGroup) { g.Spec.MinMember = new(int32(1)) })
	foreign := object(func(g *v1alpha1.PodGroup) { g.Annotations = nil })
	for _, c := range []struct {
		name  string
		view  kube.GroupView
		there *v1alpha1.PodGroup // in the API server
		want  string             // what is written
		err   string
	}{
		{"a written PodGroup", kube.GroupView{Object: foreign}, foreign, "", ""},
		{"none yet", kube.GroupView{Derived: &derived}, nil, "create", ""},
		{"made, and the watch is late", kube.GroupView{Derived: &derived}, same, "create", ""},
		{"the name is taken", kube.GroupView{Derived: &derived}, foreign, "create", "PodGroup team/job-j-1, which shows the gang team/job/j@u1: somebody else has taken its name"},
		{"as it should be", kube.GroupView{Derived: &derived, Object: same}, same, "", ""},
		{"somebody edited it", kube.GroupView{Derived: &derived, Object: edited}, edited, "patch", ""},
		{"the gang is gone", kube.GroupView{Derived: &gone, Object: same}, same, "delete", ""},
		{"the gang and the PodGroup are gone", kube.GroupView{Derived: &gone, Object: same}, nil, "delete", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			var there []runtime.Object
			if c.there != nil {
				there = append(there, c.there)
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme,
				map[schema.GroupVersionResource]string{v1alpha1.PodGroupResource: "PodGroupList"}, there...)
			objects := gangObjects{client}
			if differs := objects.differs(c.view); differs != (c.want != "") {
				t.Fatalf("differs is %v", differs)
			}
			if c.want == "" {
				return
			}
			err := objects.write(t.Context(), c.view)
			if text := fmt.Sprint(err); (err != nil) != (c.err != "") || err != nil && text != c.err {
				t.Errorf("the error is %q, want %q", text, c.err)
			}
			if got := client.Actions()[0].GetVerb(); got != c.want {
				t.Errorf("the first write is a %s, want a %s", got, c.want)
			}
			checkWritten(t, client.Actions()[0])
		})
	}
}

// checkWritten checks the content of a write of TestGangObjects.
func checkWritten(t *testing.T, action clienttesting.Action) {
	t.Helper()
	var content any
	var parts []string
	switch a := action.(type) {
	case clienttesting.CreateAction:
		content = a.GetObject()
		parts = []string{`"fairslice.io/gang":"team/job/j@u1"`, `"kind":"Job"`, `"uid":"u1"`, `"minMember":3`}
	case clienttesting.PatchAction:
		content = json.RawMessage(a.GetPatch())
		parts = []string{`"op":"test"`, `"value":"g1"`, `"minMember":3`}
	case clienttesting.DeleteActionImpl:
		content = a.DeleteOptions
		parts = []string{`"uid":"g1"`}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(string(raw), part) {
			t.Errorf("%s lacks %s: %s", action.GetVerb(), part, raw)
		}
	}
}

// TestLossIsToldOnce: one event when members are lost, one when the gang is given
// up or whole again, none while only numbers change.
func TestLossIsToldOnce(t *testing.T) {
	s := newStand(t, nil)
	g := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", UID: "g1"}}
	view := func(phase v1alpha1.PodGroupPhase, bound int) kube.GroupView {
		v := kube.GroupView{Object: g, Phase: phase, Members: bound, Gang: kube.GangView{Minimum: 3, Bound: bound}}
		if bound < 3 && bound > 0 {
			v.Short, v.StaleSince, v.Grace = true, s.now().UnixNano(), int64(time.Minute)
		}
		return v
	}
	for _, c := range []struct {
		view kube.GroupView
		want string
	}{
		{view(v1alpha1.PodGroupWaiting, 0), ""},
		{view(v1alpha1.PodGroupRunning, 3), ""},
		{view(v1alpha1.PodGroupDegraded, 2), "Warning MembersLost 2 of the 3 pods"},
		{view(v1alpha1.PodGroupDegraded, 1), ""},
		{view(v1alpha1.PodGroupRunning, 3), "Normal Complete no member is missing that ran"},
		{view(v1alpha1.PodGroupDegraded, 2), "Warning MembersLost"},
		{view(v1alpha1.PodGroupStale, 2), "Warning Stale"},
		{view(v1alpha1.PodGroupWaiting, 0), ""},
	} {
		status := groupStatus(c.view)
		s.control.events.gang(g, status)
		g.Status = status
		select {
		case event := <-s.events.Events:
			if c.want == "" || !strings.HasPrefix(event, c.want) {
				t.Errorf("%s: told %q, want %q", c.view.Phase, event, c.want)
			}
		default:
			if c.want != "" {
				t.Errorf("%s: nothing is told, want %q", c.view.Phase, c.want)
			}
		}
	}
}
