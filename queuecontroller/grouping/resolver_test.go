// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// books stands in for the ledger: it keeps what it was told.
type books struct {
	mu       sync.Mutex
	said     map[string]string // by UID, as show writes it; missing is nothing
	last     map[string]*kube.Membership
	ignored  map[string]bool // namespaces that concern nobody
	asked    func()          // called when somebody asks whether a pod concerns anybody
	synced   bool
	sharedBy map[*kube.Group]int
}

func (b *books) SetMembership(uid string, m *kube.Membership) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m == nil {
		delete(b.said, uid)
		return
	}
	b.said[uid], b.last[uid] = show(*m), m
	b.sharedBy[m.Group]++
}

func (b *books) Concerns(pod *corev1.Pod) bool {
	b.mu.Lock()
	concerns, asked := !b.ignored[pod.Namespace], b.asked
	b.mu.Unlock()
	if asked != nil {
		asked()
	}
	return concerns
}

func (b *books) Synced(source string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced = source == kube.GroupingSource
}

func (b *books) isSynced() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.synced
}

func (b *books) of(uid string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[uid]
}

// rig is a resolver over fake clients.
type rig struct {
	t *testing.T
	*books
	*Resolver
	dyn       *dynamicfake.FakeDynamicClient
	metadata  *metadatafake.FakeMetadataClient
	discovery *discovery
}

// discovery is a mapper that does not list the hidden kinds.
type discovery struct {
	meta.RESTMapper
	mu     sync.Mutex
	hidden map[schema.GroupKind]bool
}

func (d *discovery) hide(kind schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hidden[kind.GroupKind()] = true
}

func (d *discovery) show(kind schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hidden, kind.GroupKind())
}

func (d *discovery) serve(mapper meta.RESTMapper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.RESTMapper = mapper
}

func (d *discovery) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hidden[kind] {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return d.RESTMapper.RESTMapping(kind, versions...)
}

var jobSetKind = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}

// served are the kinds that the fake API server has, with whether a rule reads
// their spec.
var served = map[schema.GroupVersionKind]string{
	jobSetKind: "jobsets",
	{Group: "batch", Version: "v1", Kind: "Job"}:                          "jobs",
	{Group: "ray.io", Version: "v1", Kind: "RayCluster"}:                  "rayclusters",
	{Group: "example.org", Version: "v1", Kind: "Widget"}:                 "widgets",
	{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"}: "podgroups",
}

// laterJobSets is a version that is served only from some time on.
var laterJobSets = schema.GroupVersionResource{Group: jobSetKind.Group, Version: "v1", Resource: "jobsets"}

func newRig(t *testing.T, hold time.Duration) *rig {
	lists := map[schema.GroupVersionResource]string{}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}})
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, plural := range served {
		lists[kind.GroupVersion().WithResource(plural)] = kind.Kind + "List"
		mapper.AddSpecific(kind, kind.GroupVersion().WithResource(plural), kind.GroupVersion().WithResource(plural), meta.RESTScopeNamespace)
	}
	kinds := &discovery{RESTMapper: mapper, hidden: map[schema.GroupKind]bool{}}
	lists[laterJobSets] = "JobSetList"
	r := &rig{
		t: t, discovery: kinds,
		books:    &books{said: map[string]string{}, last: map[string]*kube.Membership{}, ignored: map[string]bool{}, sharedBy: map[*kube.Group]int{}},
		dyn:      dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists),
		metadata: metadatafake.NewSimpleMetadataClient(scheme),
	}
	r.Resolver = NewResolver(Options{
		Ledger: r.books, Dynamic: r.dyn, Metadata: r.metadata, Mapper: kinds, Hold: hold,
		Rules: Rules{QueueLabel: v1alpha1.LabelQueue}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// put creates or replaces an object of a kind that a rule reads.
func (r *rig) put(text string) *unstructured.Unstructured {
	r.t.Helper()
	u := (&world{t: r.t}).parse(text)
	plural := served[u.GroupVersionKind()]
	api := r.dyn.Resource(u.GroupVersionKind().GroupVersion().WithResource(plural)).Namespace("team")
	if err := create(api, u); err != nil {
		r.t.Fatal(err)
	}
	return u
}

func create(api dynamic.ResourceInterface, u *unstructured.Unstructured) error {
	_, err := api.Create(context.Background(), u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = api.Update(context.Background(), u, metav1.UpdateOptions{})
	}
	return err
}

// observe makes a pod of an owner and returns its UID.
func (r *rig) observe(name, kind, owner, uid string, labels map[string]string) string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID("uid-" + name), Labels: labels,
	}}
	if kind != "" {
		for gvk := range served {
			if gvk.Kind == kind {
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: gvk.GroupVersion().String(), Kind: kind, Name: owner, UID: types.UID(uid), Controller: new(true),
				}}
			}
		}
	}
	r.Observe(pod)
	return string(pod.UID)
}

// eventually waits until the ledger was told a text with all the parts.
func (r *rig) eventually(uid string, parts ...string) {
	r.t.Helper()
	missing := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		missing = ""
		for _, part := range parts {
			if !strings.Contains(r.of(uid), part) {
				missing = part
			}
		}
		if missing == "" {
			return
		}
	}
	r.t.Fatalf("of pod %s the ledger was told %q, which lacks %q", uid, r.of(uid), missing)
}

const trainSet = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: js}
spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: %d}}}]}
`

var ofTrain = map[string]string{labelReplicatedJob: "w", labelJobIndex: "0"}

func TestAPodIsHeldUntilItsOwnersAreRead(t *testing.T) {
	r := newRig(t, time.Minute)
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	if got := r.of(uid); !strings.HasPrefix(got, "GroupUnknown: pod team/a waits until its owner JobSet team/train is read") {
		t.Fatalf("at once the ledger is told %q, must be told to hold the pod", got)
	}
	r.Listed()
	if r.isSynced() {
		t.Fatal("the source is synced while a pod is held")
	}
	r.put(fmt.Sprintf(trainSet, 4))
	r.eventually(uid, "team/jobset/train@js", `"minMember":4`)
	if !r.isSynced() {
		t.Error("the source is not synced though every pod is settled")
	}
}

func TestTheNextPodIsKnownAtOnce(t *testing.T) {
	r := newRig(t, time.Minute)
	r.put(fmt.Sprintf(trainSet, 2))
	r.eventually(r.observe("a", "JobSet", "train", "js", ofTrain), "team/jobset/train@js")
	uid := r.observe("b", "JobSet", "train", "js", ofTrain)
	if got := r.of(uid); !strings.HasPrefix(got, "team/jobset/train@js") {
		t.Fatalf("at once the ledger is told %q, must be told the gang", got)
	}
	if n := len(r.sharedBy); n != 2 { // nil, while held, and the gang
		t.Errorf("two members of one gang have %d descriptions, must share one", n-1)
	}
}

func TestTheMinimumFollowsTheOwner(t *testing.T) {
	r := newRig(t, time.Minute)
	r.put(fmt.Sprintf(trainSet, 2))
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.eventually(uid, `"minMember":2`)
	r.put(fmt.Sprintf(trainSet, 6))
	r.eventually(uid, `"minMember":6`)
	r.put(fmt.Sprintf(trainSet, 3))
	r.eventually(uid, `"minMember":3`)
}

func TestARunningGangStaysOneWhenItsOwnerMakesNoSense(t *testing.T) {
	r := newRig(t, time.Minute)
	r.put(fmt.Sprintf(trainSet, 2))
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.eventually(uid, `"minMember":2`)
	r.put(fmt.Sprintf(trainSet, -1))
	r.eventually(uid, "InvalidRequest: JobSet team/train: spec.replicatedJobs[0].template.spec.parallelism is -1, must be a whole number from 0 to 100000")
	r.books.mu.Lock()
	gang := r.last[uid].Group
	r.books.mu.Unlock()
	if gang == nil || gang.Key != "team/jobset/train@js" {
		t.Errorf("the gang is now %+v", gang)
	}
	r.put(fmt.Sprintf(trainSet, 3))
	r.eventually(uid, "team/jobset/train@js", `"minMember":3`)
}

func TestWhatAnOwnerSaidHoldsWhenItIsGone(t *testing.T) {
	r := newRig(t, time.Millisecond)
	u := r.put(fmt.Sprintf(trainSet, 2))
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.eventually(uid, `"minMember":2`)
	api := r.dyn.Resource(jobSetKind.GroupVersion().WithResource("jobsets")).Namespace("team")
	if err := api.Delete(context.Background(), u.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	r.eventually(uid, "team/jobset/train@js")
}

func TestAnOwnerThatNeverComesHoldsThePodForAWhile(t *testing.T) {
	r := newRig(t, 150*time.Millisecond)
	uid := r.observe("a", "JobSet", "gone", "js", ofTrain)
	r.Listed()
	r.eventually(uid, "GroupUnknown")
	deadline := time.Now().Add(5 * time.Second)
	for r.of(uid) != "" {
		if time.Now().After(deadline) {
			t.Fatalf("the pod is held for ever: %s", r.of(uid))
		}
		time.Sleep(5 * time.Millisecond)
	}
	// Late is better than never.
	u := (&world{t: t}).parse(fmt.Sprintf(trainSet, 2))
	u.SetName("gone")
	if err := create(r.dyn.Resource(jobSetKind.GroupVersion().WithResource("jobsets")).Namespace("team"), u); err != nil {
		t.Fatal(err)
	}
	r.eventually(uid, "team/jobset/gone@js")
}

func TestAKindThatMayNotBeReadEndsTheWalk(t *testing.T) {
	r := newRig(t, time.Minute)
	r.metadata.PrependReactor("list", "jobsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}, "", nil)
	})
	r.put(`
apiVersion: batch/v1
kind: Job
metadata:
  name: train-w-0
  uid: j
  annotations: {fairslice.io/min-member: "2"}
  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: js, controller: true}]
spec: {parallelism: 2}
`)
	r.eventually(r.observe("a", "Job", "train-w-0", "j", nil), "team/job/train-w-0@j", `"minMember":2`)
}

// TestAKindThatNoPodHasIsForgotten: whoever writes another kind into every pod does
// not make us ask for all of them for ever.
func TestAKindThatNoPodHasIsForgotten(t *testing.T) {
	r := newRig(t, time.Millisecond)
	widget := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"}
	r.metadata.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "example.org", Resource: "widgets"}, "", nil)
	})
	uid := r.observe("a", "Widget", "w", "w", nil)
	for end := time.Now().Add(5 * time.Second); r.values()["kinds refused"] == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	r.open(t.Context(), widget.GroupKind())
	r.want("while a pod has it", map[string]float64{"kinds refused": 1, "errors_total Widget.example.org": 2})
	r.Forget(uid)
	r.open(t.Context(), widget.GroupKind())
	r.want("after the pod is gone", map[string]float64{"kinds refused": 0, "errors_total Widget.example.org": 0})
}

func TestAKindThatIsInstalledAMomentLater(t *testing.T) {
	r := newRig(t, time.Minute)
	gone := schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "a", UID: "uid-a", Labels: map[string]string{labelRayNodeType: "head"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "c", UID: "c", Controller: new(true)}},
	}}
	r.discovery.hide(gone)
	r.Observe(pod)
	r.eventually("uid-a", "GroupUnknown")
	r.put(`
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: c, uid: c}
spec: {workerGroupSpecs: [{groupName: gpu, replicas: 2}]}
`)
	r.discovery.show(gone)
	r.eventually("uid-a", "team/raycluster/c@c", "leader")
}

// TestAVersionThatIsServedNoMore: the gangs of the kind stay, and its next objects
// are read in the version that is served instead.
func TestAVersionThatIsServedNoMore(t *testing.T) {
	r := newRig(t, time.Minute)
	var gone atomic.Bool
	refuse := func(a clienttesting.Action) error {
		if gone.Load() && a.GetResource().Version == jobSetKind.Version {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}
		return nil
	}
	early := watch.NewFake()
	r.dyn.PrependReactor("list", "jobsets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := refuse(a)
		return err != nil, nil, err
	})
	r.dyn.PrependWatchReactor("jobsets", func(a clienttesting.Action) (bool, watch.Interface, error) {
		return a.GetResource().Version == jobSetKind.Version, early, refuse(a)
	})
	r.put(fmt.Sprintf(trainSet, 2))
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.eventually(uid, `"minMember":2`)

	for name, size := range map[string]int{"train": 3, "next": 4} {
		u := (&world{t: t}).parse(fmt.Sprintf(trainSet, size))
		u.SetAPIVersion(laterJobSets.GroupVersion().String())
		if u.SetName(name); name == "next" {
			u.SetUID("next")
		}
		if err := create(r.dyn.Resource(laterJobSets).Namespace("team"), u); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{laterJobSets.GroupVersion()})
	mapper.AddSpecific(laterJobSets.GroupVersion().WithKind("JobSet"), laterJobSets, laterJobSets, meta.RESTScopeNamespace)
	r.discovery.serve(mapper)
	gone.Store(true)
	early.Stop()
	next := r.observe("b", "JobSet", "next", "next", ofTrain)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(r.of(next), "team/jobset/next@next") && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !strings.Contains(r.of(uid), "team/jobset/train@js") {
			t.Fatalf("meanwhile the gang that runs became %q", r.of(uid))
		}
	}
	r.eventually(next, "team/jobset/next@next", `"minMember":4`)
	r.eventually(uid, "team/jobset/train@js", `"minMember":3`)
	r.want("after the version is gone", map[string]float64{"kinds readable": 1, "cached_objects JobSet.jobset.x-k8s.io": 2})
}

func TestANamedGroupThatDoesNotExistIsWaitedFor(t *testing.T) {
	r := newRig(t, time.Millisecond)
	uid := r.observe("a", "", "", "", map[string]string{labelCoscheduling: "g"})
	r.eventually(uid, "pod team/a waits until its group PodGroup (scheduling.x-k8s.io) team/g, which does not exist, is created")
	r.put(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, uid: g}
spec: {minMember: 5}
`)
	r.eventually(uid, "team/podgroup/g@g", `"minMember":5`)
}

func TestPodsThatConcernNobodyAreLeftAlone(t *testing.T) {
	r := newRig(t, time.Minute)
	r.ignored["team"] = true
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	if got := r.of(uid); got != "" || len(r.kinds) != 0 {
		t.Fatalf("of a pod without a queue the ledger is told %q, and %d kinds are watched", got, len(r.kinds))
	}
	r.books.mu.Lock()
	delete(r.ignored, "team") // the namespace got a queue
	r.books.mu.Unlock()
	r.Reconsider("team")
	r.eventually(uid, "GroupUnknown")
}

// TestANamespaceGetsAQueueWhileItsPodIsObserved: the pod is not forgotten between
// the question whether it concerns anybody and its entry.
func TestANamespaceGetsAQueueWhileItsPodIsObserved(t *testing.T) {
	r := newRig(t, time.Minute)
	r.ignored["team"] = true
	reconsidered := make(chan struct{})
	var once sync.Once
	r.asked = func() {
		once.Do(func() {
			r.books.mu.Lock()
			delete(r.ignored, "team")
			r.books.mu.Unlock()
			go func() { defer close(reconsidered); r.Reconsider("team") }()
			select {
			case <-reconsidered:
			case <-time.After(100 * time.Millisecond): // it waits for the pod to be entered
			}
		})
	}
	uid := r.observe("a", "JobSet", "train", "js", ofTrain)
	<-reconsidered
	if got := r.of(uid); !strings.HasPrefix(got, "GroupUnknown") {
		t.Errorf("the ledger is told %q, must be told to hold the pod", got)
	}
}

func TestAnotherPodOfTheSameName(t *testing.T) {
	r := newRig(t, time.Minute)
	r.put(fmt.Sprintf(trainSet, 2))
	first := r.observe("a", "JobSet", "train", "js", ofTrain)
	r.eventually(first, "team/jobset/train@js")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", UID: "later"}}
	r.Observe(pod)
	if got := r.of(first); got != "" {
		t.Errorf("the earlier pod of the name still has %q", got)
	}
	r.Forget("later")
	r.Resolver.mu.Lock()
	defer r.Resolver.mu.Unlock()
	if len(r.pods)+len(r.names)+len(r.namespaces)+len(r.dependents)+len(r.groups)+len(r.pending) != 0 {
		t.Errorf("after the last pod is gone there is left: pods %v, names %v, dependents %v, gangs %v, pending %v",
			r.pods, r.names, r.dependents, r.groups, r.pending)
	}
}
