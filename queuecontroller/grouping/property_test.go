// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// FuzzMembership: whatever an owner of a known kind holds, its pods get an
// answer that a ledger can use, and the same one twice.
func FuzzMembership(f *testing.F) {
	kinds := slices.SortedFunc(maps.Keys(ownerRules), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	groups := slices.SortedFunc(maps.Keys(groupRules), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	for i := range len(kinds) + len(groups) {
		f.Add(byte(i), `{"replicas":3,"replicatedJobs":[{"name":"a"}],"leaderWorkerTemplate":{"size":4}}`, "1", "worker", "2")
		f.Add(byte(i), `{"workerGroupSpecs":[{"groupName":"worker","replicas":1e3}],"subGroups":[{"name":"a","parent":"a"}]}`, "-1", "", "x")
		f.Add(byte(i), `{"pytorchReplicaSpecs":{"Worker":{"replicas":8,"template":7}},"podgroups":{}}`, "0", "master", "9999999999")
	}
	f.Fuzz(func(t *testing.T, which byte, spec, index, role, asked string) {
		var value any
		if json.Unmarshal([]byte(spec), &value) != nil {
			return
		}
		all := append(slices.Clone(kinds), groups...)
		kind := all[int(which)%len(all)]
		owner := &unstructured.Unstructured{Object: map[string]any{"spec": value}}
		owner.SetGroupVersionKind(kind.WithVersion("v1"))
		owner.SetName("o")
		owner.SetUID("u")
		owner.SetAnnotations(map[string]string{v1alpha1.AnnotationMinMember: asked, v1alpha1.AnnotationSegmentSize: index, v1alpha1.AnnotationSegmentTopologyRequired: role})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Labels: map[string]string{
			labelReplicaType: role, labelReplicaIndex: index, labelGroupIndex: index, labelWorkerIndex: index,
			labelReplicatedJob: role, labelJobIndex: index, labelRayGroup: role,
		}}}
		rules := Rules{QueueLabel: v1alpha1.LabelQueue}
		answer := func() kube.Membership {
			if slices.Contains(groups, kind) {
				return rules.Membership(pod, owner, nil)
			}
			return rules.Membership(pod, nil, []*unstructured.Unstructured{owner})
		}
		m := answer()
		if !reflect.DeepEqual(m, answer()) {
			t.Error("the same input has two answers")
		}
		usable(t, m)
	})
}

// usable checks what kube.Ledger relies on.
func usable(t interface {
	Errorf(string, ...any)
}, m kube.Membership,
) {
	if m.Waits != nil {
		if m.Group != nil || strings.Contains(m.Waits.Message, "\n") || !strings.Contains(m.Waits.Message, "must") {
			t.Errorf("%+v: a refusal must be one sentence that says what must be, and no gang", m)
		}
		return
	}
	if m.Group == nil {
		return
	}
	least := func(n *int32) bool { return n == nil || *n >= 0 }
	if m.Group.Key == "" || !least(m.Group.Spec.MinMember) || !least(m.Group.Spec.MinSubGroup) {
		t.Errorf("gang %q has a minimum below zero or no key", m.Group.Key)
	}
	leaf := map[string]bool{}
	for _, s := range m.Group.Spec.SubGroups {
		leaf[s.Name] = true
		if !least(s.MinMember) || !least(s.MinSubGroup) {
			t.Errorf("sub-group %q has a minimum below zero", s.Name)
		}
	}
	for _, s := range m.Group.Spec.SubGroups {
		delete(leaf, s.Parent)
	}
	if len(m.Group.Spec.SubGroups) > 0 && m.SubGroup != "" && !leaf[m.SubGroup] {
		t.Errorf("sub-group %q of the pod is no leaf of %v", m.SubGroup, m.Group.Spec.SubGroups)
	}
	for _, name := range m.Group.Later {
		if !leaf[name] {
			t.Errorf("later sub-group %q is no leaf", name)
		}
	}
}

// TestEverySegmentedPodHasASeat: the pods of a whole LeaderWorkerSet group or
// PyTorchJob fill their sub-groups exactly.
func TestEverySegmentedPodHasASeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 40).Draw(t, "pods")
		segment := rapid.IntRange(2, size).Draw(t, "segment")
		policy := rapid.SampledFrom([]string{"", "LeaderWorker", "LeaderExcluded"}).Draw(t, "policy")
		annotations := map[string]any{
			v1alpha1.AnnotationTopology: "racks", v1alpha1.AnnotationSegmentTopologyRequired: "rack",
		}
		owner := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
			"metadata": map[string]any{"name": "o", "uid": "u", "annotations": annotations},
			"spec": map[string]any{"leaderWorkerTemplate": map[string]any{
				"size": int64(size), "subGroupPolicy": map[string]any{"subGroupSize": int64(segment), "subGroupPolicyType": policy},
			}},
		}}
		seats, wants := map[string]int{}, map[string]int{}
		for rank := range size {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Labels: map[string]string{
				labelGroupIndex: "0", labelWorkerIndex: strconv.Itoa(rank),
			}}}
			rules := Rules{}
			m := rules.Membership(pod, nil, []*unstructured.Unstructured{owner})
			if m.Waits != nil {
				if policy != "LeaderExcluded" || (size-1)%segment == 0 {
					t.Fatalf("refused: %s", m.Waits.Message)
				}
				return
			}
			usable(t, m)
			seats[m.SubGroup]++
			for _, s := range m.Group.Spec.SubGroups {
				if s.MinMember != nil {
					wants[s.Name] = int(*s.MinMember)
				}
			}
		}
		if !maps.Equal(seats, wants) {
			t.Fatalf("the pods of the group are in %v, the sub-groups want %v", seats, wants)
		}
	})
}

// TestEveryKindIsReadable: each kind with a rule may be read by the shipped
// roles and has a fixture, so that no rule is dead in a cluster.
func TestEveryKindIsReadable(t *testing.T) {
	plurals := map[schema.GroupKind]string{
		{Group: "apps", Kind: "Deployment"}: "deployments", {Group: "apps", Kind: "ReplicaSet"}: "replicasets",
		{Group: "apps", Kind: "StatefulSet"}: "statefulsets", {Group: "apps", Kind: "DaemonSet"}: "daemonsets",
		{Group: "batch", Kind: "Job"}: "jobs", {Group: "batch", Kind: "CronJob"}: "cronjobs",
		nativePodGroup: "podgroups",
	}
	files, err := filepath.Glob("testdata/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, file := range files {
		for _, doc := range documents(t, file) {
			var crd struct {
				Spec struct {
					Group string
					Names struct{ Kind, Plural string }
				}
			}
			if err := yaml.Unmarshal([]byte(doc), &crd); err != nil {
				t.Fatal(file, err)
			}
			plurals[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = crd.Spec.Names.Plural
		}
	}
	allowed := map[string]bool{}
	for _, doc := range documents(t, "../../manifests/rbac/grouping.yaml") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
				for _, resource := range rule.Resources {
					allowed[rule.APIGroups[0]+"/"+resource] = true
				}
			}
		}
	}
	for kind := range merged(ownerRules, groupRules) {
		plural, known := plurals[kind]
		if !known {
			t.Errorf("%s has a rule and no fixture in testdata/crds", kind)
		} else if !allowed[kind.Group+"/"+plural] {
			t.Errorf("manifests/rbac/grouping.yaml does not allow to get, list and watch %s of %s", plural, kind.Group)
		}
	}
}

func merged(a, b map[schema.GroupKind]rule) map[schema.GroupKind]rule {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func documents(t *testing.T, file string) (docs []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n---\n")
}
