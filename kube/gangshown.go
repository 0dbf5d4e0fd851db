// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// DerivedGang is what a PodGroup that shows a derived gang must be like.
type DerivedGang struct {
	Namespace, Name, Key string
	// Owner is the object whose fields describe the gang, nil if none does.
	Owner *metav1.OwnerReference
	Spec  v1alpha1.PodGroupSpec
	// Gone is true once the gang has had no pods for a while: nothing is left to
	// show.
	Gone bool
}

// ShownName is the name of the PodGroup that shows the derived gang of a key
// "<namespace>/<kind>/<owner>…": readable, unique, and a label value.
func ShownName(key string) string {
	_, path, _ := strings.Cut(key, "/")
	text, _, _ := strings.Cut(path, "@")
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
	hash := fnv.New32a()
	hash.Write([]byte(key))
	const most = 63 - 1 - 8
	return fmt.Sprintf("%s-%08x", cmp.Or(strings.Trim(text[:min(len(text), most)], "-"), "gang"), hash.Sum32())
}

// shownKey is the key of the derived gang that a PodGroup shows; false for one
// that somebody wrote, a copy under another name included.
func shownKey(g *v1alpha1.PodGroup) (string, bool) {
	key, marked := g.Annotations[v1alpha1.AnnotationGang]
	return key, marked && g.Name == ShownName(key) && strings.HasPrefix(key, g.Namespace+"/")
}

// setShown takes in a PodGroup that shows a derived gang; false if it does not.
func (l *Ledger) setShown(g *v1alpha1.PodGroup) bool {
	key, ok := shownKey(g)
	if !ok {
		return false
	}
	l.shown[key] = g
	l.note()
	return true
}

func (l *Ledger) dropShown(namespace, name string) {
	for key, g := range l.shown {
		if g.Namespace == namespace && g.Name == name {
			delete(l.shown, key)
			delete(l.podlessSince, key)
			l.note()
		}
	}
}

// show fills in how a derived gang is to be shown; false for a single pod and
// for pods that start one by one.
func (l *Ledger) show(w *workload, v *GroupView) bool {
	g := w.derived()
	if !w.isGroup || g == nil || len(g.Spec.SubGroups) == 0 && intOr(g.Spec.MinMember, v1alpha1.DefaultMinMember) <= 1 {
		return false
	}
	namespace, _, _ := strings.Cut(g.Key, "/")
	if v.Object = l.shown[g.Key]; v.Object == nil && w.leaves() {
		return false // with its owner, and what is made for that now would be deleted again
	}
	v.Derived = &DerivedGang{Namespace: namespace, Name: ShownName(g.Key), Key: g.Key, Owner: g.Owner, Spec: *g.Spec.DeepCopy()}
	spec := &v.Derived.Spec
	if len(spec.SubGroups) > 0 {
		spec.MinMember = nil
	}
	if _, exists := l.priorities[g.DefaultClass]; exists && spec.PriorityClassName == "" {
		spec.PriorityClassName = g.DefaultClass
	}
	return true
}

// leaves is true if every pod of the workload is on its way out.
func (w *workload) leaves() bool {
	for _, e := range w.pods {
		if !e.facts.deleting {
			return false
		}
	}
	return true
}

// shownFor is how long a PodGroup that shows a derived gang is kept without a
// pod: owners make new ones after a while, such as a Job whose pods have failed.
const shownFor = 5 * time.Minute

// podless lists the PodGroups that show a derived gang which has no pods.
func (l *Ledger) podless() []GroupView {
	if len(l.unsynced) > 0 {
		return nil
	}
	var out []GroupView
	for _, key := range slices.Sorted(maps.Keys(l.shown)) {
		if w := l.workloads[key]; w != nil && w.derived() != nil {
			delete(l.podlessSince, key)
			continue
		}
		since, known := l.podlessSince[key]
		if !known {
			since = l.now()
			l.podlessSince[key] = since
		}
		g := l.shown[key]
		status := &g.Status
		v := GroupView{
			Object: g, Queue: status.Queue, Phase: v1alpha1.PodGroupPending, Failed: int(status.Failed),
			Gang: GangView{Minimum: int(status.MinMember), Succeeded: int(status.Succeeded)},
			Derived: &DerivedGang{
				Namespace: g.Namespace, Name: g.Name, Key: key, Spec: g.Spec, Gone: l.now() >= since+int64(shownFor),
			},
		}
		if status.Succeeded > 0 && status.Succeeded >= status.MinMember {
			v.Phase = v1alpha1.PodGroupFinished
		}
		for _, sub := range status.SubGroups {
			v.SubGroups = append(v.SubGroups, v1alpha1.SubGroupStatus{Name: sub.Name, MinMember: sub.MinMember, Succeeded: sub.Succeeded})
		}
		out = append(out, v)
	}
	return out
}
