// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"

	"github.com/fairslice/fairslice/kube"
)

// DefaultHold is how long a pod waits for its owners to be read before it is
// treated by what is known of them.
const DefaultHold = 5 * time.Second

// Ledger is what a Resolver tells and asks. *kube.Ledger is the one in use.
type Ledger interface {
	// SetMembership takes in what the owners of a pod say, nil for nothing.
	SetMembership(uid string, m *kube.Membership)
	// Concerns says whether anybody needs to know a pod's gang.
	Concerns(pod *corev1.Pod) bool
	// Synced takes in that the pods of the first list have their gangs.
	Synced(source string)
}

// Options are what a Resolver needs.
type Options struct {
	Ledger   Ledger
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Mapper finds the resource of a kind; it may call the API server.
	Mapper meta.RESTMapper
	Rules  Rules
	// Hold is how long a pod waits for its owners; 0 is DefaultHold.
	Hold time.Duration
	Log  *slog.Logger
	// Clock is time.Now if nil.
	Clock func() time.Time
}

// Resolver keeps the memberships of pods up to date. It is a kube.Grouper.
//
// A pod that concerns somebody is looked at when it is observed, with what the
// watches of its owners' kinds hold at that moment; if that is not enough it is
// held and looked at again when a kind becomes readable, when one of its owners
// comes, changes or goes, and when its time is up.
type Resolver struct {
	options Options
	metrics metrics

	mu    sync.Mutex
	pods  map[string]*subject // by UID
	names map[string]string   // namespace/name → UID
	// namespaces are the pods, by UID, of each namespace.
	namespaces map[string]map[string]bool
	kinds      map[schema.GroupKind]*kindWatch
	// dependents are the pods, by UID, that an object decides about, by the
	// object's UID or its keyOf.
	dependents map[string]map[string]bool
	// groups are the gangs that members share, with the number of members.
	groups map[string]*shared
	// pending are the pods that are held.
	pending map[string]bool
	listed  bool
	synced  bool

	queue  workqueue.TypedDelayingInterface[string]
	toOpen workqueue.TypedDelayingInterface[schema.GroupKind]
}

// subject is a pod with what was said about it.
type subject struct {
	pod      *corev1.Pod
	since    time.Time
	concerns bool
	told     *kube.Membership
	// complete is true once all around the pod was read.
	complete bool
	// objects are the keys of dependents that name the pod.
	objects []string
}

type shared struct {
	group   *kube.Group
	members int
}

var _ kube.Grouper = (*Resolver)(nil)

// NewResolver returns a resolver that knows nothing yet.
func NewResolver(o Options) *Resolver {
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Resolver{
		options: o, metrics: newMetrics(),
		pods: map[string]*subject{}, names: map[string]string{}, namespaces: map[string]map[string]bool{},
		kinds:      map[schema.GroupKind]*kindWatch{},
		dependents: map[string]map[string]bool{},
		groups:     map[string]*shared{}, pending: map[string]bool{},
		queue:  workqueue.NewTypedDelayingQueue[string](),
		toOpen: workqueue.NewTypedDelayingQueue[schema.GroupKind](),
	}
}

// Run reads owners until ctx is done.
func (r *Resolver) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { drain(r.queue, r.settle) })
	work.Go(func() { drain(r.toOpen, func(kind schema.GroupKind) { r.open(ctx, kind) }) })
	<-ctx.Done()
	r.queue.ShutDown()
	r.toOpen.ShutDown()
	work.Wait()
	return nil
}

func drain[T comparable](queue workqueue.TypedDelayingInterface[T], work func(T)) {
	for {
		item, over := queue.Get()
		if over {
			return
		}
		work(item)
		queue.Done(item)
	}
}

// Observe takes in a pod; it looks at what is in memory alone.
func (r *Resolver) Observe(pod *corev1.Pod) {
	uid := string(pod.UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pods[uid]
	if s != nil && sameMetadata(s.pod, pod) {
		s.pod = pod
		return
	}
	if s == nil {
		name := pod.Namespace + "/" + pod.Name
		if before, ok := r.names[name]; ok && before != uid {
			r.forget(before)
		}
		s = &subject{since: r.options.Clock()}
		r.pods[uid], r.names[name] = s, uid
		put(r.namespaces, pod.Namespace, uid)
	}
	// Asked under the lock: a namespace that changes from now on finds the pod.
	s.pod, s.concerns = pod, r.options.Ledger.Concerns(pod)
	r.look(uid)
	r.wake(uid)
}

// Forget takes in that a pod is gone.
func (r *Resolver) Forget(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(uid)
	r.wake(uid)
}

func (r *Resolver) forget(uid string) {
	s := r.pods[uid]
	if s == nil {
		return
	}
	r.say(uid, s, nil)
	r.unlink(uid, s)
	for _, k := range r.kinds {
		delete(k.waiting, uid)
	}
	delete(r.pods, uid)
	drop(r.namespaces, s.pod.Namespace, uid)
	if name := s.pod.Namespace + "/" + s.pod.Name; r.names[name] == uid {
		delete(r.names, name)
	}
	r.settled(uid)
}

// Reconsider looks at the pods of a namespace again.
func (r *Resolver) Reconsider(namespace string) {
	r.mu.Lock()
	pods := slices.Collect(maps.Keys(r.namespaces[namespace]))
	r.mu.Unlock()
	for _, uid := range pods {
		r.reconsider(uid)
	}
}

func (r *Resolver) reconsider(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pods[uid]
	if s == nil {
		return
	}
	if concerns := r.options.Ledger.Concerns(s.pod); concerns != s.concerns {
		s.concerns = concerns
		r.look(uid)
	}
}

// Listed takes in that the first list of pods was observed.
func (r *Resolver) Listed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = true
	r.report()
}

func (r *Resolver) settled(uid string) {
	delete(r.pending, uid)
	r.report()
}

// report marks the source once no pod of the first list is held any more.
func (r *Resolver) report() {
	if r.listed && !r.synced && len(r.pending) == 0 {
		r.synced = true
		r.options.Ledger.Synced(kube.GroupingSource)
	}
}

// moved takes in that an owner or a group came, changed or went.
func (r *Resolver) moved(obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeFor(obj)
}

func (r *Resolver) wakeFor(obj any) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		r.wake(string(u.GetUID()))
		r.wake(keyOf(kindOf(u), u.GetNamespace(), u.GetName()))
	}
}

// wake looks again at the pods that an object decides about.
func (r *Resolver) wake(object string) {
	for uid := range r.dependents[object] {
		r.queue.Add(uid)
	}
}

func (r *Resolver) settle(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look(uid)
}

// look works out a pod's membership from what is in memory and tells the ledger
// if it differs from what was told.
func (r *Resolver) look(uid string) {
	s := r.pods[uid]
	if s == nil {
		return
	}
	r.unlink(uid, s)
	if !s.concerns || !hasOwners(s.pod) {
		r.say(uid, s, nil)
		r.settled(uid)
		return
	}
	left := s.since.Add(r.options.Hold).Sub(r.options.Clock())
	found := r.read(uid, s, left <= 0)
	r.metrics.lookups.WithLabelValues(outcome(found, s, left)).Inc()
	switch {
	case found.missing == "":
		s.complete = true
	case found.forever:
		r.say(uid, s, waits(s.pod, found.missing))
		r.settled(uid)
		return
	case s.complete:
		// An owner that is gone has said what it said for as long as its pods
		// live.
		r.settled(uid)
		return
	case left > 0:
		if s.pod.Spec.NodeName == "" {
			r.say(uid, s, waits(s.pod, found.missing))
		}
		r.pending[uid] = true
		r.queue.AddAfter(uid, left)
		return
	default:
		r.options.Log.Warn("not all owners could be read in time: the pod is treated by what is known of them",
			"pod", s.pod.Namespace+"/"+s.pod.Name, "missing", found.missing)
	}
	m := r.options.Rules.Membership(s.pod, found.group, found.owners)
	if m.Waits != nil && s.told != nil {
		// What runs stays the gang that it was while its owner made sense.
		kept := *s.told
		kept.Waits = m.Waits
		m = kept
	}
	r.say(uid, s, &m)
	r.settled(uid)
}

// say tells the ledger what changed. Members of one gang share its description.
func (r *Resolver) say(uid string, s *subject, m *kube.Membership) {
	if m != nil && reflect.DeepEqual(*m, kube.Membership{}) {
		m = nil
	}
	if m != nil && m.Group != nil {
		if known := r.groups[m.Group.Key]; known == nil || !reflect.DeepEqual(known.group, m.Group) {
			members := 0
			if known != nil {
				members = known.members
			}
			r.groups[m.Group.Key] = &shared{m.Group, members}
		}
		m.Group = r.groups[m.Group.Key].group
	}
	if reflect.DeepEqual(m, s.told) {
		return
	}
	if m != nil && m.Group != nil {
		r.groups[m.Group.Key].members++
	}
	if s.told != nil && s.told.Group != nil {
		key := s.told.Group.Key
		if r.groups[key].members--; r.groups[key].members == 0 {
			delete(r.groups, key)
		}
	}
	s.told = m
	r.options.Ledger.SetMembership(uid, m)
}

// put and drop keep a set of pods, by UID, for each key.
func put(sets map[string]map[string]bool, key, uid string) {
	if sets[key] == nil {
		sets[key] = map[string]bool{}
	}
	sets[key][uid] = true
}

func drop(sets map[string]map[string]bool, key, uid string) {
	delete(sets[key], uid)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
