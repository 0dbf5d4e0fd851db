// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// maxOwners bounds the walk; the longest chain known, of Knative, has five.
const maxOwners = 12

// hasOwners is false for pods about which nobody else can say anything.
func hasOwners(pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelPodGroup] == "" &&
		(len(pod.OwnerReferences) > 0 || referenceOf(pod) != nil || isSpark(pod) ||
			valueIn(pod.Annotations, pod.Labels, v1alpha1.AnnotationMinMember) != "" ||
			valueIn(pod.Annotations, pod.Labels, v1alpha1.AnnotationPreemptionDelay) != "" ||
			valueIn(pod.Annotations, pod.Labels, v1alpha1.LabelPriorityClass) != "")
}

// around is what memory holds of the objects around a pod.
type around struct {
	group  *unstructured.Unstructured
	owners []*unstructured.Unstructured
	// missing says what has not been read yet, "" if nothing more is to come;
	// with forever the pod waits until it is there.
	missing string
	forever bool
}

// read gathers the objects around a pod and notes on which objects and kinds
// the answer depends. With late a group that was not read in time is passed
// over.
func (r *Resolver) read(uid string, s *subject, late bool) around {
	if ref := referenceOf(s.pod); ref != nil {
		a := r.named(uid, s, ref)
		if a.group != nil || a.forever || a.missing != "" && !late {
			return a
		}
	}
	var a around
	next := controllerOf(s.pod.OwnerReferences)
	for range maxOwners {
		if next == nil {
			break
		}
		owner, lacks := r.owner(uid, s, next)
		if owner == nil {
			a.missing = lacks
			break
		}
		a.owners = append(a.owners, owner)
		next = controllerOf(owner.GetOwnerReferences())
	}
	return a
}

// waits is the membership of a pod that something is missing for.
func waits(pod *corev1.Pod, missing string) *kube.Membership {
	return &kube.Membership{Waits: &explain.Reason{
		Code: kube.GroupUnknown, Message: fmt.Sprintf("pod %s/%s waits until %s", pod.Namespace, pod.Name, missing),
	}}
}

// named reads a group that the pod names. A reference means nothing if its kind
// cannot be read, or if it is optional and not there.
func (r *Resolver) named(uid string, s *subject, ref *reference) around {
	r.link(uid, s, keyOf(ref.kind, s.pod.Namespace, ref.name))
	object := fmt.Sprintf("%s (%s) %s/%s", ref.kind.Kind, ref.kind.Group, s.pod.Namespace, ref.name)
	k := r.watchOf(uid, ref.kind, "")
	switch k.state {
	case opening:
		return around{missing: "its group " + object + " is read"}
	case refused:
		return around{}
	}
	group := k.get(s.pod.Namespace, ref.name)
	if group == nil && !ref.optional {
		return around{missing: "its group " + object + ", which does not exist, is created", forever: true}
	}
	return around{group: group}
}

// owner reads one owner. lacks is "" if the walk ends here for good.
func (r *Resolver) owner(uid string, s *subject, ref *metav1.OwnerReference) (owner *unstructured.Unstructured, lacks string) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, ""
	}
	kind := gv.WithKind(ref.Kind)
	r.link(uid, s, string(ref.UID))
	lacks = fmt.Sprintf("its owner %s %s/%s is read", ref.Kind, s.pod.Namespace, ref.Name)
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Node"}:
		return nil, ""
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return stub(kind, s.pod.Namespace, ref), ""
	case schema.GroupKind{Kind: "Pod"}:
		if above := r.pods[string(ref.UID)]; above != nil {
			u := stub(kind, s.pod.Namespace, ref)
			u.SetLabels(above.pod.Labels)
			u.SetAnnotations(above.pod.Annotations)
			u.SetOwnerReferences(above.pod.OwnerReferences)
			return u, ""
		}
		return nil, lacks
	}
	k := r.watchOf(uid, kind.GroupKind(), kind.Version)
	switch k.state {
	case opening:
		return nil, lacks
	case refused:
		return nil, ""
	}
	owner = k.get(s.pod.Namespace, ref.Name)
	if owner == nil || owner.GetUID() != ref.UID {
		return nil, lacks
	}
	return owner, ""
}

// stub is an owner of which only the reference is known.
func stub(kind schema.GroupVersionKind, namespace string, ref *metav1.OwnerReference) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(ref.Name)
	u.SetUID(ref.UID)
	return u
}

// controllerOf is the owner to follow: the controller, or the only owner.
func controllerOf(refs []metav1.OwnerReference) *metav1.OwnerReference {
	for i := range refs {
		if refs[i].Controller != nil && *refs[i].Controller {
			return &refs[i]
		}
	}
	if len(refs) == 1 {
		return &refs[0]
	}
	return nil
}

// watchOf returns the watch of a kind and asks for it to be opened if it is new.
// A pod that finds it closed is looked at again when it opens.
func (r *Resolver) watchOf(uid string, kind schema.GroupKind, version string) *kindWatch {
	k := r.kinds[kind]
	if k == nil {
		k = &kindWatch{kind: kind, version: version, waiting: map[string]bool{}}
		r.kinds[kind] = k
		r.toOpen.Add(kind)
	}
	if k.state != readable {
		k.waiting[uid] = true
	}
	return k
}

func (r *Resolver) link(uid string, s *subject, object string) {
	put(r.dependents, object, uid)
	s.objects = append(s.objects, object)
}

func (r *Resolver) unlink(uid string, s *subject) {
	for _, object := range s.objects {
		drop(r.dependents, object, uid)
	}
	s.objects = s.objects[:0]
}

// sameMetadata is true if nothing that grouping reads of a pod has changed.
func sameMetadata(a, b *corev1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// sameContent is true for two versions of an object that differ in nothing that
// was kept of it.
func sameContent(a, b any) bool {
	x, ok := a.(*unstructured.Unstructured)
	y, also := b.(*unstructured.Unstructured)
	if !ok || !also {
		return false
	}
	return x.GetGeneration() == y.GetGeneration() && x.GetUID() == y.GetUID() &&
		maps.Equal(x.GetLabels(), y.GetLabels()) && maps.Equal(x.GetAnnotations(), y.GetAnnotations()) &&
		reflect.DeepEqual(x.GetOwnerReferences(), y.GetOwnerReferences()) &&
		reflect.DeepEqual(x.Object["spec"], y.Object["spec"])
}
