// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// rule says what the pods of a kind belong to.
type rule struct {
	// skip leaves the choice to the owner below, which inherits labels and
	// annotations; derive is then for pods that this object owns itself.
	skip bool
	// spec is true if derive reads more than the object's metadata.
	spec bool
	// class is the kind's usual priority class, without its prefix.
	class string
	// derive makes the membership; what is wrong it notes in the input. nil is
	// the pod alone.
	derive func(in *input) kube.Membership
}

// classPrefix precedes a kind's class in the name of a PriorityClass.
const classPrefix = "fairslice-"

// Classes of kinds.
const (
	train     = "train"
	build     = "build"
	inference = "inference"
)

// Rules derives memberships.
type Rules struct {
	// QueueLabel names the queue on pods and their owners.
	QueueLabel string
}

// input is what a rule looks at.
type input struct {
	rules *Rules
	rule  rule
	pod   *corev1.Pod
	// owner is the object that the rule is about; above are its owners and
	// below are the objects between it and the pod, each nearest first.
	owner        *unstructured.Unstructured
	above, below []*unstructured.Unstructured
	err          error
}

// Membership says what a pod belongs to. group is the object of another project
// that the pod names as its group, nil without one; owners are the pod's
// controller, the controller's controller and so on as far as they can be read.
func (r *Rules) Membership(pod *corev1.Pod, group *unstructured.Unstructured, owners []*unstructured.Unstructured) kube.Membership {
	if pod.Labels[v1alpha1.LabelPodGroup] != "" {
		return kube.Membership{}
	}
	in := r.choose(pod, group, owners)
	derive := in.rule.derive
	if derive == nil {
		derive = (*input).alone
	}
	m := derive(in)
	if m.Group != nil {
		in.checkTree(m.Group.Spec.SubGroups)
	}
	if in.err != nil {
		return kube.Membership{Waits: &explain.Reason{Code: explain.InvalidRequest, Message: in.err.Error()}}
	}
	return m
}

// choose finds the object that decides: the named group, else the outermost
// owner that has a rule of its own. What has no rule is passed over, so that a
// wrapper nobody knows does not hide the gang inside it.
func (r *Rules) choose(pod *corev1.Pod, group *unstructured.Unstructured, owners []*unstructured.Unstructured) *input {
	if group != nil {
		return &input{rules: r, rule: groupRules[kindOf(group)], pod: pod, owner: group}
	}
	at, skipped := -1, -1
	for i := len(owners) - 1; i >= 0 && at < 0; i-- {
		switch rule, known := ownerRules[kindOf(owners[i])]; {
		case !known:
		case rule.skip:
			skipped = i
		default:
			at = i
		}
	}
	in := &input{rules: r, pod: pod}
	switch {
	case at >= 0:
		in.rule = ownerRules[kindOf(owners[at])]
	case isSpark(pod):
		in.rule, at = sparkRule, len(owners)-1
	case skipped >= 0:
		in.rule, at = ownerRules[kindOf(owners[skipped])], skipped
	case len(owners) > 0:
		in.rule, at = unknownRule, whoAsks(owners)
	default:
		in.rule = bareRule
	}
	if at >= 0 {
		in.owner, in.below, in.above = owners[at], owners[:at], owners[at+1:]
	}
	return in
}

// whoAsks is the outermost owner that asks for a gang, else the innermost.
func whoAsks(owners []*unstructured.Unstructured) int {
	for i := len(owners) - 1; i > 0; i-- {
		if valueOf(owners[i], v1alpha1.AnnotationMinMember) != "" {
			return i
		}
	}
	return 0
}

func kindOf(o *unstructured.Unstructured) schema.GroupKind { return o.GroupVersionKind().GroupKind() }

func (in *input) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}

func (in *input) failf(format string, args ...any) {
	in.fail(fmt.Errorf("%s: %s", in.name(), fmt.Sprintf(format, args...)))
}

// name is the object as an error names it.
func (in *input) name() string {
	if in.owner == nil {
		return fmt.Sprintf("pod %s/%s", in.pod.Namespace, in.pod.Name)
	}
	return fmt.Sprintf("%s %s/%s", in.owner.GetKind(), in.pod.Namespace, in.owner.GetName())
}

// key names a gang of the owner, or the part of it that is a gang of its own.
// It holds the owner's UID: pods of an earlier owner of the same name, which
// may outlive it for a while, are not members.
func (in *input) key(part string) string {
	uid := string(in.owner.GetUID())
	key := in.pod.Namespace + "/" + strings.ToLower(in.owner.GetKind()) + "/" + in.owner.GetName()
	if part != "" {
		key += "/" + part
	}
	return key + "@" + uid[:min(8, len(uid))]
}

// group starts a gang of at least min pods.
func (in *input) group(part string, minimum int) *kube.Group {
	g := in.inherited()
	in.policies(&g.Spec)
	g.Key = in.key(part)
	g.Owner = in.reference()
	g.CreatedAt = in.owner.GetCreationTimestamp().UnixNano()
	g.Spec.MinMember = new(int32(minimum))
	g.Spec.Topology = in.constraint(in.upper, topologyKeys, "")
	return g
}

// reference is the gang's owner, to own what is made for the gang.
func (in *input) reference() *metav1.OwnerReference {
	if in.owner == nil {
		return nil
	}
	return &metav1.OwnerReference{
		APIVersion: in.owner.GetAPIVersion(), Kind: in.owner.GetKind(), Name: in.owner.GetName(), UID: in.owner.GetUID(),
	}
}

// policies reads what becomes of the gang when a member is lost.
func (in *input) policies(spec *v1alpha1.PodGroupSpec) {
	switch policy := v1alpha1.OnMemberLost(in.any(v1alpha1.AnnotationOnMemberLost)); policy {
	case "", v1alpha1.OnMemberLostReplace, v1alpha1.OnMemberLostReleaseAll:
		spec.OnMemberLost = policy
	default:
		in.failf("annotation %s is %q, must be Replace or ReleaseAll", v1alpha1.AnnotationOnMemberLost, string(policy))
	}
	spec.StaleGracePeriod = in.duration(v1alpha1.AnnotationStaleGracePeriod, "a duration such as 30s, 10m or 1h30m, negative for never", false)
}

// duration reads the value of an annotation, nil if nobody sets it.
func (in *input) duration(key, allowed string, positive bool) *metav1.Duration {
	text := in.any(key)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || positive && d < 0 {
		in.failf("annotation %s is %q, must be %s", key, text, allowed)
	}
	return &metav1.Duration{Duration: d}
}

// inherited is what every pod takes from its owners.
func (in *input) inherited() *kube.Group {
	g := &kube.Group{Spec: v1alpha1.PodGroupSpec{
		Queue:             in.fromOwners(in.rules.QueueLabel),
		PriorityClassName: cmp.Or(in.any(v1alpha1.LabelPriorityClass), in.any(labelRayPriority)),
		PreemptionDelay:   in.duration(v1alpha1.AnnotationPreemptionDelay, "a duration of zero or more such as 30s, 10m or 1h30m", true),
	}}
	if in.pod.Spec.PriorityClassName == "" && in.rule.class != "" {
		g.DefaultClass = classPrefix + in.rule.class
	}
	if text := in.fromOwners(v1alpha1.LabelPreemptible); text != "" {
		yes, err := v1alpha1.ParsePreemptible(text)
		if err != nil {
			in.failf("%s", err)
		}
		g.Spec.Preemptible = &yes
	}
	return g
}

// alone is a pod that starts on its own unless somebody asks for a gang.
func (in *input) alone() kube.Membership {
	if in.minMember() > 0 {
		return in.together()
	}
	return in.single()
}

// single is a pod that starts on its own.
func (in *input) single() kube.Membership {
	g := in.inherited()
	if g.Spec.Queue == "" && g.Spec.PriorityClassName == "" && g.Spec.Preemptible == nil && g.Spec.PreemptionDelay == nil && g.DefaultClass == "" {
		return kube.Membership{}
	}
	g.Key = kube.PodKey(in.pod.Namespace, in.pod.Name)
	return kube.Membership{Group: g}
}

// together is a gang of all the owner's pods, of which min-member must start
// together.
func (in *input) together() kube.Membership {
	return kube.Membership{Group: in.group("", max(in.minMember(), 1))}
}

// minMember is what somebody around the pod asks for, 0 if nobody does.
func (in *input) minMember() int {
	text := in.any(v1alpha1.AnnotationMinMember)
	if text == "" {
		return 0
	}
	return in.parseCount(v1alpha1.AnnotationMinMember, text, 1)
}

// parseCount reads the value of an annotation.
func (in *input) parseCount(key, text string, least int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > maxMembers || strconv.Itoa(n) != text {
		in.failf("annotation %s is %q, must be a whole number from %d to %d", key, text, least, maxMembers)
		return least
	}
	return n
}

// refuseMinMember is for kinds whose own fields say it better.
func (in *input) refuseMinMember(instead string) {
	if text := in.any(v1alpha1.AnnotationMinMember); text != "" {
		in.failf("annotation %s is %q, must not be set on this kind: %s", v1alpha1.AnnotationMinMember, text, instead)
	}
}

// checkTree refuses sub-groups that are no tree, as the API server refuses them
// in a PodGroup.
func (in *input) checkTree(subGroups []v1alpha1.SubGroup) {
	parents := make(map[string]string, len(subGroups))
	for _, s := range subGroups {
		if _, twice := parents[s.Name]; twice || s.Name == "" {
			in.failf("two parts of it are named %q, must each have a name of its own", s.Name)
		}
		parents[s.Name] = s.Parent
	}
	for _, s := range subGroups {
		at := s.Name
		for steps := 0; at != "" && in.err == nil; steps++ {
			parent, exists := parents[at]
			if !exists || steps > len(parents) {
				in.failf("its part %q is below %q, must be below another part of it and not below itself", s.Name, s.Parent)
			}
			at = parent
		}
	}
}
