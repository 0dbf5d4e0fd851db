// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Delays before a kind that cannot be read is tried again. A kind that was
// refused is not expected back soon; one that failed is, and so is one that
// discovery does not list, since a pod has an owner of it: its definition may
// have been created a moment ago.
const (
	refusedFirst = time.Minute
	refusedMost  = 10 * time.Minute
	failedFirst  = 250 * time.Millisecond
	failedMost   = 30 * time.Second
	// unlistedTries is how often discovery is asked before its no counts.
	unlistedTries = 5
)

// errStillServed is why no other version of a kind is read.
var errStillServed = errors.New("it is served as before")

// kindState is whether the objects of a kind can be asked for.
type kindState int8

const (
	// opening kinds will be readable soon, or will turn out not to be.
	opening kindState = iota
	readable
	// refused kinds end the walk; they are tried again later.
	refused
)

// kindWatch is what is known of one kind. All but its store belongs to the
// resolver's lock.
type kindWatch struct {
	kind schema.GroupKind
	// version of the first reference, "" if it names none; any served one does.
	version string
	state   kindState
	delay   time.Duration
	tries   int // in vain, since it was readable
	// waiting are the pods, by UID, that would know more if the kind were
	// readable.
	waiting    map[string]bool
	store      cache.Store
	namespaced bool
	told       bool // a line in the log says that it cannot be read
	// resource is what the store is of, and stop ends its watch.
	resource schema.GroupVersionResource
	stop     context.CancelFunc
	// lost is true while another version than the store's is looked for.
	lost bool
}

// get returns an object, nil if the store has none of that name.
func (k *kindWatch) get(namespace, name string) *unstructured.Unstructured {
	key := name
	if k.namespaced {
		key = namespace + "/" + name
	}
	obj, exists, err := k.store.GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// open starts to watch a kind. It asks first whether it may, since an informer
// without the right asks again and again.
func (r *Resolver) open(ctx context.Context, kind schema.GroupKind) {
	r.mu.Lock()
	k := r.kinds[kind]
	wanted := k != nil && (k.lost || len(k.waiting) > 0)
	if !wanted {
		r.forgetKind(kind)
		r.mu.Unlock()
		return
	}
	before := k.resource
	r.mu.Unlock()
	if !before.Empty() {
		meta.MaybeResetRESTMapper(r.options.Mapper) // it remembers the version that is gone
	}
	mapping, err := r.mapping(kind, k.version)
	if err == nil && mapping.Resource == before {
		err = errStillServed
	}
	if err == nil {
		_, err = r.options.Metadata.Resource(mapping.Resource).List(ctx, metav1.ListOptions{Limit: 1})
	}
	if err != nil {
		r.refuse(k, err)
		return
	}
	informer := r.informer(mapping)
	if err := r.follow(k, informer, mapping.GroupVersionKind); err != nil {
		r.refuse(k, err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	go informer.Run(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			r.opened(k, informer.GetStore(), mapping, stop)
		}
	}()
}

// forgetKind forgets a kind that cannot be read and of which no pod has an owner
// any more: users may write any kind into their pods.
func (r *Resolver) forgetKind(kind schema.GroupKind) {
	delete(r.kinds, kind)
	r.metrics.errors.DeleteLabelValues(kind.String())
}

// mapping finds a kind in the version asked for, else in the preferred one, and
// asks discovery again if it was not listed.
func (r *Resolver) mapping(kind schema.GroupKind, version string) (*meta.RESTMapping, error) {
	if version != "" {
		if mapping, err := r.options.Mapper.RESTMapping(kind, version); !meta.IsNoMatchError(err) {
			return mapping, err
		}
	}
	mapping, err := r.options.Mapper.RESTMapping(kind)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	meta.MaybeResetRESTMapper(r.options.Mapper)
	return r.options.Mapper.RESTMapping(kind)
}

// informer watches metadata alone where no rule reads more.
func (r *Resolver) informer(mapping *meta.RESTMapping) cache.SharedIndexInformer {
	kind := mapping.GroupVersionKind
	indexers := cache.Indexers{}
	if ownerRules[kind.GroupKind()].spec || groupRules[kind.GroupKind()].spec {
		return dynamicinformer.NewFilteredDynamicInformer(r.options.Dynamic, mapping.Resource, metav1.NamespaceAll, 0, indexers, nil).Informer()
	}
	return metadatainformer.NewFilteredMetadataInformer(r.options.Metadata, mapping.Resource, metav1.NamespaceAll, 0, indexers, nil).Informer()
}

func (r *Resolver) follow(k *kindWatch, informer cache.SharedIndexInformer, gvk schema.GroupVersionKind) error {
	if err := informer.SetTransform(func(obj any) (any, error) { return trim(obj, gvk), nil }); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		r.failed(k, err)
	}); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { r.moved(obj) },
		UpdateFunc: func(old, obj any) {
			if !sameContent(old, obj) {
				r.moved(obj)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			r.moved(obj)
		},
	})
	return err
}

// failed notes that a watch failed. If its version is not served any more, another
// one is looked for, and until that is read what was read of this one stays.
func (r *Resolver) failed(k *kindWatch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(k, "a kind of owner cannot be watched for now; what was read of it stays", err)
	if apierrors.IsNotFound(err) && k.state == readable && !k.lost {
		k.lost, k.delay = true, min(max(2*k.delay, failedFirst), failedMost)
		r.toOpen.AddAfter(k.kind, k.delay)
	}
}

// opened lets the pods that waited for a kind be looked at again, and those of
// its objects if they were read in another version until now.
func (r *Resolver) opened(k *kindWatch, store cache.Store, mapping *meta.RESTMapping, stop context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.stop != nil {
		k.stop()
		for _, obj := range store.List() {
			r.wakeFor(obj)
		}
	}
	k.state, k.store, k.delay, k.tries, k.told = readable, store, 0, 0, false
	k.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	k.resource, k.stop, k.lost = mapping.Resource, stop, false
	for uid := range k.waiting {
		r.queue.Add(uid)
	}
	clear(k.waiting)
}

// refuse notes that a kind cannot be read, and tries it again later.
func (r *Resolver) refuse(k *kindWatch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.lost {
		k.lost = false // its watch fails again, and then another version is looked for again
		return
	}
	k.tries++
	r.metrics.errors.WithLabelValues(k.kind.String()).Inc()
	final := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
	if final || meta.IsNoMatchError(err) && k.tries >= unlistedTries {
		if k.state != refused {
			k.state, k.delay = refused, 0
		}
		k.delay = min(max(2*k.delay, refusedFirst), refusedMost)
		r.tell(k, "a kind of owner cannot be read: gangs of this kind are not known", err)
	} else {
		k.delay = min(max(2*k.delay, failedFirst), failedMost)
		if k.tries >= unlistedTries {
			r.tell(k, "a kind of owner cannot be read for now: its pods wait a while for it", err)
		}
	}
	r.toOpen.AddAfter(k.kind, k.delay)
	for uid := range k.waiting {
		r.queue.Add(uid)
	}
}

// tell writes one line for as long as the kind cannot be read.
func (r *Resolver) tell(k *kindWatch, message string, err error) {
	if k.told {
		return
	}
	k.told = true
	r.options.Log.Warn(message, "kind", k.kind.String(), "err", err)
}

// trim keeps what rules read. It changes the object that the informer is about
// to store.
func trim(obj any, gvk schema.GroupVersionKind) any {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(gvk)
		u.SetNamespace(o.Namespace)
		u.SetName(o.Name)
		u.SetUID(o.UID)
		u.SetResourceVersion(o.ResourceVersion)
		u.SetCreationTimestamp(o.CreationTimestamp)
		u.SetLabels(o.Labels)
		u.SetAnnotations(o.Annotations)
		u.SetOwnerReferences(o.OwnerReferences)
		return u
	case *unstructured.Unstructured:
		o.SetManagedFields(nil)
		delete(o.Object, "status")
		dropPodSpecs(o.Object["spec"])
	}
	return obj
}

// podSpecFields are big, and no rule looks into a pod's spec.
var podSpecFields = []string{"containers", "initContainers", "ephemeralContainers", "volumes"}

func dropPodSpecs(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range podSpecFields {
			delete(v, name)
		}
		for _, inner := range v {
			dropPodSpecs(inner)
		}
	case []any:
		for _, inner := range v {
			dropPodSpecs(inner)
		}
	}
}

// keyOf names an object for pods that name it, whether or not it exists.
func keyOf(kind schema.GroupKind, namespace, name string) string {
	return fmt.Sprintf("%s/%s/%s", kind, namespace, name)
}
