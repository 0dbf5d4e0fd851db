// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// world is what the commands of one transcript have made. Objects are in
// namespace team; an owner is referred to by kind and name alone.
type world struct {
	t       *testing.T
	objects []*unstructured.Unstructured
}

// TestRules runs the transcripts of testdata/rules:
//
//	object   adds objects, or replaces those of the same kind and name
//	pod      says what a pod with that YAML belongs to
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		w := &world{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "object":
				return w.object(d.Input)
			case "pod":
				return w.pod(d.Input)
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

func (w *world) object(text string) string {
	for doc := range strings.SplitSeq(text, "\n+++\n") {
		u := w.parse(doc)
		if u.GetUID() == "" {
			u.SetUID("11111111-2222")
		}
		w.objects = slices.DeleteFunc(w.objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == u.GetKind() && o.GetName() == u.GetName() && o.GetAPIVersion() == u.GetAPIVersion()
		})
		w.objects = append(w.objects, u)
	}
	return ""
}

func (w *world) parse(doc string) *unstructured.Unstructured {
	w.t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		w.t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		w.t.Fatal(err)
	}
	u.SetNamespace("team")
	return u
}

func (w *world) pod(text string) string {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Namespace = "team"
	if pod.Name == "" {
		pod.Name = "p"
	}
	var group *unstructured.Unstructured
	if ref := referenceOf(pod); ref != nil {
		group = w.find(func(o *unstructured.Unstructured) bool { return kindOf(o) == ref.kind && o.GetName() == ref.name })
	}
	rules := Rules{QueueLabel: v1alpha1.LabelQueue}
	return show(rules.Membership(pod, group, w.owners(pod.OwnerReferences)))
}

func (w *world) find(match func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	if i := slices.IndexFunc(w.objects, match); i >= 0 {
		return w.objects[i]
	}
	return nil
}

func (w *world) owners(refs []metav1.OwnerReference) (owners []*unstructured.Unstructured) {
	for len(refs) > 0 {
		o := w.find(func(o *unstructured.Unstructured) bool {
			return o.GetKind() == refs[0].Kind && o.GetName() == refs[0].Name
		})
		if o == nil {
			break
		}
		owners = append(owners, o)
		refs = o.GetOwnerReferences()
	}
	return owners
}

// show writes a membership as few words as say all of it.
func show(m kube.Membership) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case m.Waits != nil:
		line("%s: %s", m.Waits.Code, m.Waits.Message)
	case m.Group == nil:
		line("alone")
	default:
		showGroup(m.Group, line)
	}
	var pod []string
	if m.SubGroup != "" {
		pod = append(pod, "sub-group "+m.SubGroup)
	}
	if m.Leader {
		pod = append(pod, "leader")
	}
	if m.Rank != nil {
		pod = append(pod, fmt.Sprint("rank ", *m.Rank))
	}
	if m.NotRecreated {
		pod = append(pod, "not recreated")
	}
	if len(pod) > 0 {
		line("pod: %s", strings.Join(pod, ", "))
	}
	return b.String()
}

func showGroup(g *kube.Group, line func(string, ...any)) {
	line("%s", g.Key)
	s := g.Spec
	subGroups := s.SubGroups
	s.SubGroups = nil
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	if text := string(raw); text != "{}" {
		line("  %s", text)
	}
	for _, sub := range subGroups {
		raw, err := json.Marshal(sub)
		if err != nil {
			panic(err)
		}
		line("  - %s", raw)
	}
	if len(g.Later) > 0 {
		line("  later: %s", strings.Join(g.Later, ", "))
	}
	if g.DefaultClass != "" {
		line("  class: %s", g.DefaultClass)
	}
}
