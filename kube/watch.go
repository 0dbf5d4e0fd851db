// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// Periods of the comparison with the API server.
const (
	// retainEvery is how often the ledger is compared with the informer's
	// store.
	retainEvery = time.Minute
	// settleEvery and settleAge say how often and after how long assumed pods
	// are read back. The age exceeds the API server's time limit for a request,
	// after which no bind of ours can still take effect.
	settleEvery = 5 * time.Second
	settleAge   = 65 * time.Second
)

// Sources are the kinds whose first lists Ready waits for.
var Sources = []string{
	"pods", "nodes", "namespaces", "priorityclasses", "poddisruptionbudgets",
	"queues", "podgroups", "topologies",
}

// Watcher feeds a Ledger from the API server.
type Watcher struct {
	ledger  *Ledger
	client  kubernetes.Interface
	core    informers.SharedInformerFactory
	own     dynamicinformer.DynamicSharedInformerFactory
	log     *slog.Logger
	pods    cache.SharedIndexInformer
	waiting map[string]cache.ResourceEventHandlerRegistration
	// grouper may be nil: then only PodGroups make gangs.
	grouper Grouper
}

// NewWatcher prepares the watches. client should speak protobuf; dynamic is
// for our own kinds.
func NewWatcher(ledger *Ledger, client kubernetes.Interface, dyn dynamic.Interface, log *slog.Logger) (*Watcher, error) {
	w := &Watcher{
		ledger: ledger, client: client, log: log,
		core:    informers.NewSharedInformerFactory(client, 0),
		own:     dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0),
		waiting: map[string]cache.ResourceEventHandlerRegistration{},
	}
	w.pods = w.core.Core().V1().Pods().Informer()
	steps := []error{
		watch(w, "pods", w.pods, trimPod, w.podEvents()),
		watch(w, "nodes", w.core.Core().V1().Nodes().Informer(), trimNode, events[*corev1.Node]{
			set:    ledger.SetNode,
			remove: func(n *corev1.Node) { ledger.RemoveNode(n.Name) },
		}),
		watch(w, "namespaces", w.core.Core().V1().Namespaces().Informer(), trimManagedFields, events[*corev1.Namespace]{
			set:    w.setNamespace,
			remove: func(n *corev1.Namespace) { ledger.RemoveNamespace(n.Name) },
		}),
		watch(w, "priorityclasses", w.core.Scheduling().V1().PriorityClasses().Informer(), trimManagedFields, events[*schedulingv1.PriorityClass]{
			set: ledger.SetPriorityClass, remove: ledger.RemovePriorityClass,
		}),
		watch(w, "poddisruptionbudgets", w.core.Policy().V1().PodDisruptionBudgets().Informer(), trimManagedFields, events[*policyv1.PodDisruptionBudget]{
			set:    ledger.SetBudget,
			remove: func(b *policyv1.PodDisruptionBudget) { ledger.RemoveBudget(b.Namespace, b.Name) },
		}),
		watchOwn(w, v1alpha1.QueueResource, events[*v1alpha1.Queue]{
			set:    ledger.SetQueue,
			remove: func(q *v1alpha1.Queue) { ledger.RemoveQueue(q.Name) },
		}),
		watchOwn(w, v1alpha1.PodGroupResource, events[*v1alpha1.PodGroup]{
			set:    ledger.SetPodGroup,
			remove: func(g *v1alpha1.PodGroup) { ledger.RemovePodGroup(g.Namespace, g.Name) },
		}),
		watchOwn(w, v1alpha1.TopologyResource, events[*v1alpha1.Topology]{
			set:    ledger.SetTopology,
			remove: func(t *v1alpha1.Topology) { ledger.RemoveTopology(t.Name) },
		}),
	}
	for _, err := range steps {
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// UseGrouper derives gangs from the owners of pods. It must be called before
// Run, and the ledger must wait for GroupingSource.
func (w *Watcher) UseGrouper(g Grouper) { w.grouper = g }

// Run watches until ctx is done. The ledger becomes ready on the way.
func (w *Watcher) Run(ctx context.Context) error {
	w.core.StartWithContext(ctx)
	w.own.Start(ctx.Done())
	defer w.core.Shutdown()
	defer w.own.Shutdown()
	for source, registration := range w.waiting {
		go func() {
			if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
				return
			}
			if source == "pods" && w.grouper != nil {
				w.grouper.Listed()
			}
			w.ledger.Synced(source)
		}()
	}
	retain, settle := time.NewTicker(retainEvery), time.NewTicker(settleEvery)
	defer retain.Stop()
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retain.C:
			w.retain()
			w.ledger.Tidy()
		case <-settle.C:
			w.settle(ctx)
		}
	}
}

// retain drops pods that the informer's store does not have: whatever event
// was missed, nothing stays charged to a pod that is gone.
func (w *Watcher) retain() {
	if !w.pods.HasSynced() {
		return
	}
	// The ledger's own list comes first: a pod that is younger than the
	// store's list is not judged by it.
	known := w.ledger.UIDs()
	stored := map[string]bool{}
	for _, obj := range w.pods.GetStore().List() {
		stored[string(obj.(*corev1.Pod).UID)] = true
	}
	for _, uid := range known {
		if !stored[uid] {
			w.log.Warn("a pod was in the ledger and not in the API server", "uid", uid)
			w.removePod(uid)
		}
	}
}

// settle asks the API server itself about binds without a clear answer.
func (w *Watcher) settle(ctx context.Context) {
	for _, ref := range w.ledger.Unsettled(settleAge) {
		pod, err := w.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			w.ledger.ReadBack(ref, nil)
		case err != nil:
			w.log.Warn("pod could not be read back", "pod", ref.String(), "err", err)
		default:
			w.ledger.ReadBack(ref, pod)
		}
	}
}

// events says what to do with an object.
type events[T any] struct{ set, remove func(T) }

// podEvents tells pods of one name apart by UID: an update may bring another
// pod than the one before, when the deletion between was missed.
func (w *Watcher) podEvents() events[*corev1.Pod] {
	return events[*corev1.Pod]{
		set: func(p *corev1.Pod) {
			if w.grouper != nil {
				w.grouper.Observe(p)
			}
			w.ledger.SetPod(p)
		},
		remove: func(p *corev1.Pod) { w.removePod(string(p.UID)) },
	}
}

// removePod ends what the grouper says about the pod first, so that nothing is
// said about it after it is gone.
func (w *Watcher) removePod(uid string) {
	if w.grouper != nil {
		w.grouper.Forget(uid)
	}
	w.ledger.RemovePod(uid)
}

func (w *Watcher) setNamespace(n *corev1.Namespace) {
	w.ledger.SetNamespace(n.Name, n.Labels)
	if w.grouper != nil {
		w.grouper.Reconsider(n.Name)
	}
}

func watch[T any](w *Watcher, source string, informer cache.SharedIndexInformer, trim cache.TransformFunc, on events[T]) error {
	if err := informer.SetTransform(trim); err != nil {
		return fmt.Errorf("watch %s: %w", source, err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if t, ok := obj.(T); ok {
				on.set(t)
			}
		},
		UpdateFunc: func(_, obj any) {
			if t, ok := obj.(T); ok {
				on.set(t)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if t, ok := obj.(T); ok {
				on.remove(t)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", source, err)
	}
	w.waiting[source] = registration
	return nil
}

// watchOwn watches one of our kinds. What cannot be converted is left out with
// a line in the log; it harms nobody else.
func watchOwn[T any, P interface {
	*T
	metav1.Object
}](w *Watcher, resource schema.GroupVersionResource, on events[P]) error {
	convert := func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		typed := P(new(T))
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			w.log.Error("object cannot be read", "resource", resource.Resource, "namespace", u.GetNamespace(), "name", u.GetName(), "err", err)
			return obj, nil // no handler takes it
		}
		typed.SetManagedFields(nil)
		return typed, nil
	}
	return watch(w, resource.Resource, w.own.ForResource(resource).Informer(), convert, on)
}
