// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/cordon"
)

// followNode obeys the annotation of this node that cordons GPUs. It is not waited
// for: onNode has read it once already.
func (a *agent) followNode(ctx context.Context, client kubernetes.Interface) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.o.NodeName).String()
		}),
		informers.WithTransform(func(obj any) (any, error) {
			n, isNode := obj.(*corev1.Node)
			if !isNode {
				return obj, nil
			}
			kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}}
			if value, set := n.Annotations[v1alpha1.AnnotationCordonedGPUs]; set {
				kept.Annotations = map[string]string{v1alpha1.AnnotationCordonedGPUs: value}
			}
			return kept, nil
		}))
	see := func(obj any) {
		if n, isNode := obj.(*corev1.Node); isNode && n.Name == a.o.NodeName {
			a.onNode(n)
		}
	}
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
	})
	if err != nil {
		a.log.Error("changes of the annotation that cordons GPUs are not seen", "annotation", v1alpha1.AnnotationCordonedGPUs, "error", err)
		return
	}
	factory.Start(ctx.Done())
}

// onNode cordons exactly the cards that the node's annotation names. It is called
// by one goroutine at a time.
func (a *agent) onNode(n *corev1.Node) {
	gpus := make([]cordon.GPU, 0, len(a.cards))
	for _, c := range a.cards {
		gpus = append(gpus, cordon.GPU{UUID: c.account.UUID, Card: c.cardUUID(), Index: c.hardware.Index})
	}
	named, err := cordon.Parse(n.Annotations[v1alpha1.AnnotationCordonedGPUs], n.Name, gpus)
	added, removed := a.vitals.setCordoned(named)
	for _, uuid := range added {
		a.log.Info("a GPU is cordoned", "uuid", uuid)
		a.events.Event(a.nodeReference(), corev1.EventTypeNormal, reasonCordoned, fmt.Sprintf("GPU %s takes no new containers: %s", uuid, cordon.Reason))
	}
	for _, uuid := range removed {
		a.log.Info("a GPU is no longer cordoned", "uuid", uuid)
		a.events.Event(a.nodeReference(), corev1.EventTypeNormal, reasonUncordoned, fmt.Sprintf("GPU %s is no longer cordoned", uuid))
	}
	misread := ""
	if err != nil {
		misread = err.Error()
	}
	if misread != a.misread && misread != "" {
		a.log.Warn("an annotation of the node names GPUs that are not there", "error", misread)
		a.events.Event(a.nodeReference(), corev1.EventTypeWarning, reasonBadCordon, misread)
	}
	a.misread = misread
}
