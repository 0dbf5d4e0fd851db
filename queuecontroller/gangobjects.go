// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// gangObjects keeps a PodGroup for every derived gang, so that people see its
// state where they look for gangs. The owner of the gang owns it too; without one
// it is deleted a while after the gang's last pod. Nothing is decided by what is in it, so that
// a write which fails or comes late harms nobody.
type gangObjects struct{ dynamic dynamic.Interface }

// differs is true if the PodGroup of a derived gang is not as it should be.
func (o gangObjects) differs(g kube.GroupView) bool {
	switch {
	case g.Derived == nil:
		return false
	case g.Derived.Gone, g.Object == nil:
		return true
	}
	return !equality.Semantic.DeepEqual(g.Object.Spec, g.Derived.Spec)
}

// write makes, changes or deletes the PodGroup.
func (o gangObjects) write(ctx context.Context, g kube.GroupView) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	d := g.Derived
	api := o.dynamic.Resource(v1alpha1.PodGroupResource).Namespace(d.Namespace)
	var err error
	switch {
	case d.Gone:
		uid := g.Object.GetUID()
		err = api.Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	case g.Object == nil:
		err = o.create(ctx, api, d)
	default:
		err = o.correct(ctx, api, g)
	}
	if err == nil || d.Gone && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) {
		return nil
	}
	return fmt.Errorf("PodGroup %s/%s, which shows the gang %s: %w", d.Namespace, d.Name, d.Key, err)
}

func (o gangObjects) create(ctx context.Context, api dynamic.ResourceInterface, d *kube.DerivedGang) error {
	object := v1alpha1.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name, Annotations: map[string]string{v1alpha1.AnnotationGang: d.Key},
		},
		Spec: d.Spec,
	}
	if d.Owner != nil {
		object.OwnerReferences = []metav1.OwnerReference{*d.Owner}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&object)
	if err != nil {
		return err
	}
	delete(content, "status")
	_, err = api.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: fieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := api.Get(ctx, d.Name, metav1.GetOptions{})
	if err == nil && there.GetAnnotations()[v1alpha1.AnnotationGang] != d.Key {
		err = errors.New("somebody else has taken its name")
	}
	return err // without one the watch will bring it
}

// correct puts back what the owner of the gang says.
func (o gangObjects) correct(ctx context.Context, api dynamic.ResourceInterface, g kube.GroupView) error {
	body, err := json.Marshal([]object{
		{"op": "test", "path": "/metadata/uid", "value": g.Object.GetUID()},
		{"op": "add", "path": "/spec", "value": g.Derived.Spec},
	})
	if err != nil {
		return err
	}
	_, err = api.Patch(ctx, g.Derived.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
