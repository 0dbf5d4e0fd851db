// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// stand is a controller with a ledger whose watch is the test, and an API
// server that records what is written.
type stand struct {
	t       *testing.T
	ledger  *kube.Ledger
	client  *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
	events  *record.FakeRecorder
	control *Controller

	mu     sync.Mutex
	time   time.Time
	writes []string
	refuse func(write string) error // nil answers are carried out
}

func newStand(t *testing.T, evictor Evictor) *stand {
	s := &stand{t: t, time: time.Unix(1_800_000_000, 0), events: record.NewFakeRecorder(1000)}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s.client = fake.NewClientset()
	s.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{
		v1alpha1.QueueResource: "QueueList", v1alpha1.PodGroupResource: "PodGroupList",
	})
	s.client.PrependReactor("patch", "*", s.record)
	s.client.PrependReactor("create", "*", s.record)
	s.dynamic.PrependReactor("patch", "*", s.record)
	s.ledger = kube.NewLedger(kube.DefaultConfig(), s.now, slog.New(slog.DiscardHandler))
	var err error
	s.control, err = New(Options{
		Ledger: s.ledger, Client: s.client, Dynamic: s.dynamic, Log: slog.New(slog.DiscardHandler), Clock: s.now,
		Registry: prometheus.NewRegistry(), Recorder: s.events, Evictor: evictor, Config: kube.DefaultConfig(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time
}

func (s *stand) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = s.time.Add(d)
}

// record notes a write as "verb resource/subresource name body" and answers as
// an API server that has every object.
func (s *stand) record(action clienttesting.Action) (bool, runtime.Object, error) {
	what := action.GetResource().Resource
	if action.GetSubresource() != "" {
		what += "/" + action.GetSubresource()
	}
	name, body := "", ""
	if patch, ok := action.(clienttesting.PatchAction); ok {
		name, body = patch.GetName(), string(patch.GetPatch())
	}
	write := strings.TrimSpace(fmt.Sprintf("%s %s %s %s", action.GetVerb(), what, name, body))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(write); err != nil {
			return true, nil, err
		}
	}
	s.writes = append(s.writes, write)
	switch {
	case what == "configmaps":
		return false, nil, nil
	case strings.HasPrefix(what, "pods"):
		return true, &corev1.Pod{}, nil
	}
	return true, nil, nil
}

// written returns the writes whose text has every part, and forgets all.
func (s *stand) written(parts ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, w := range s.writes {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(w, p) }) {
			out = append(out, w)
		}
	}
	s.writes = nil
	return out
}

func (s *stand) node(name string, gpus int) {
	units := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"), v1alpha1.ResourceWholeGPU: units,
	}
	s.ledger.SetNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list},
	})
}

func (s *stand) queue(name string, quota int64) {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	q.Spec.Quota = v1alpha1.ResourceAmounts{v1alpha1.QuotaGPU: v1alpha1.AmountOf(*resource.NewQuantity(quota, resource.DecimalSI))}
	s.ledger.SetQueue(q)
}

// pod tells the ledger of a pod that asks for whole GPUs; change alters it.
func (s *stand) pod(name, queue string, gpus int, change ...func(*corev1.Pod)) {
	units := corev1.ResourceList{v1alpha1.ResourceWholeGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(s.now()),
			Labels: map[string]string{v1alpha1.LabelQueue: queue},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.GateQueue}},
			Containers:      []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: units, Requests: units}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	s.ledger.SetPod(p)
}

func running(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.SchedulingGates, p.Spec.NodeName, p.Status.Phase = nil, node, corev1.PodRunning
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	}
}

// run runs the controller's writers until the condition holds.
func (s *stand) run(holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error)
	go func() { done <- s.control.Run(ctx) }()
	for !holds() && ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
	}
	if ctx.Err() != nil {
		s.t.Errorf("nothing came of it; written: %s", strings.Join(s.written(), "\n"))
	}
	cancel()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

func (s *stand) count(parts ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.writes {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(w, p) }) {
			n++
		}
	}
	return n
}

// TestNominatedBeforeUngated: the scheduler must find the node named when it
// first sees the pod.
func TestNominatedBeforeUngated(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("q", 1)
	s.pod("a", "q", 1)
	s.run(func() bool { return s.count("schedulingGates") > 0 })
	got := s.written("patch pods", " a ")
	if len(got) < 2 || !strings.Contains(got[0], `patch pods/status a {"metadata":{"uid":"uid-a"},"status":{"nominatedNodeName":"n1"}}`) ||
		!strings.Contains(got[1], `{"metadata":{"uid":"uid-a"},"spec":{"schedulingGates":[{"$patch":"delete","name":"fairslice.io/queue"}]}}`) {
		t.Errorf("written %q, want the nomination, then the removal of the gate", got)
	}
}

// TestGateStaysWhenThePromiseGoes while the node is being named.
func TestGateStaysWhenThePromiseGoes(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("q", 1)
	s.pod("a", "q", 1)
	s.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "status" {
			s.ledger.RemoveNode("n1")
			s.ledger.Decide()
		}
		return false, nil, nil
	})
	s.ledger.Decide()
	if err := s.control.start(t.Context(), "uid-a"); err != nil {
		t.Error(err)
	}
	if s.count("patch pods/status a") != 1 || s.count("schedulingGates") != 0 {
		t.Errorf("written %q, want the nomination alone", s.written())
	}
}

// TestNominationIsTakenBack from a pod with the gate that has no place there: one
// whose promise went between the two writes, or whose leader was killed then.
// kube-scheduler would keep the room free for it.
func TestNominationIsTakenBack(t *testing.T) {
	const back = `patch pods/status a {"metadata":{"uid":"uid-a"},"status":{"nominatedNodeName":null}}`
	s := newStand(t, nil)
	s.queue("q", 1)
	s.pod("a", "q", 1, func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
	taken := false
	s.run(func() bool {
		if !taken && s.count(back) == 1 {
			taken = true
			s.pod("a", "q", 1)
			s.node("n2", 1)
		}
		return s.count("schedulingGates") > 0
	})
	if s.count(back) != 1 || s.count(`"nominatedNodeName":"n2"`) == 0 {
		t.Errorf("written %q, want n1 taken back once, then n2", s.written())
	}
}

// TestWhatAPodDoesNotShowIsWrittenAgain after a moment: kube-scheduler takes the
// name of the node away when it could not use it.
func TestWhatAPodDoesNotShowIsWrittenAgain(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("q", 1)
	s.pod("a", "q", 1)
	s.control.cycle()
	if err := s.control.start(t.Context(), "uid-a"); err != nil {
		t.Fatal(err)
	}
	queued := s.control.starts.queue.Len()
	next := s.control.cycle()
	if s.control.starts.queue.Len() != queued {
		t.Error("it is written again at once")
	}
	if next != echo {
		t.Errorf("the next cycle comes in %s, want %s", next, echo)
	}
}

// TestFailedWriteHoldsNobodyUp: one pod's write is refused again and again,
// others start meanwhile, and it starts once the writes pass (CASES R103).
func TestFailedWriteHoldsNobodyUp(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 4)
	s.queue("q", 4)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.pod(name, "q", 1)
	}
	failures := 0
	s.refuse = func(write string) error {
		if strings.Contains(write, "patch pods/status a ") && failures < 4 {
			failures++
			return errors.New("connection lost")
		}
		return nil
	}
	s.run(func() bool { return s.count("schedulingGates", " a ") > 0 })
	var order []string
	for _, w := range s.written("schedulingGates") {
		order = append(order, strings.Fields(w)[2])
	}
	if failures != 4 || len(order) != 4 || order[3] != "a" {
		t.Errorf("gates removed in the order %v after %d failures, want each once and a last, after 4", order, failures)
	}
}

// TestGonePodIsNoError: a pod that is gone is not tried again.
func TestGonePodIsNoError(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("q", 1)
	s.pod("a", "q", 1)
	s.refuse = func(string) error { return apierrors.NewNotFound(corev1.Resource("pods"), "a") }
	s.ledger.Decide()
	if err := s.control.start(t.Context(), "uid-a"); err != nil {
		t.Error(err)
	}
	if err := s.control.start(t.Context(), "uid-never-seen"); err != nil {
		t.Error(err)
	}
}

// TestBacklogIsListed: a queue is listed while pods wait in it and a moment
// longer, so that it does not flap; other queues are not.
func TestBacklogIsListed(t *testing.T) {
	s := newStand(t, nil)
	backlog := s.control.backlog
	keys := func() []string {
		m, err := s.client.CoreV1().ConfigMaps("fairslice-system").Get(t.Context(), "fairslice-backlog", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return sortedKeys(m.Data)
	}
	backlog.write(t.Context(), []string{"q"})
	if got := keys(); !slices.Equal(got, []string{"q"}) {
		t.Fatalf("listed %v, want q", got)
	}
	s.written()
	s.advance(backlogLinger / 2)
	backlog.write(t.Context(), nil)
	if got := s.written(); len(got) > 0 {
		t.Errorf("written %v while nothing changed", got)
	}
	s.advance(backlogLinger)
	backlog.write(t.Context(), []string{"r"})
	if got := keys(); !slices.Equal(got, []string{"r"}) {
		t.Errorf("listed %v, want r", got)
	}
}

// TestBacklogWithoutNamesThatAreNoKeys: a queue that can have no pods that are
// gated does not keep the others from being listed.
func TestBacklogWithoutNamesThatAreNoKeys(t *testing.T) {
	s := newStand(t, nil)
	s.refuse = func(write string) error {
		if strings.Contains(write, "no key!") {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "fairslice-backlog", nil)
		}
		return nil
	}
	s.control.backlog.write(t.Context(), []string{"no key!", "q"})
	if len(s.written("patch configmaps", `"q"`)) != 1 {
		t.Error("the queue is not listed")
	}
}

// TestBacklogRetries: refused writes are tried again with growing delays.
func TestBacklogRetries(t *testing.T) {
	s := newStand(t, nil)
	tries := 0
	s.refuse = func(string) error { tries++; return errors.New("no") }
	for range 100 {
		s.control.backlog.write(t.Context(), []string{"q"})
		s.advance(10 * time.Millisecond)
	}
	if tries < 3 || tries > 8 {
		t.Errorf("%d tries within a second, want a few", tries)
	}
	s.refuse = nil
	s.advance(retryMost)
	s.control.backlog.write(t.Context(), []string{"q"})
	if len(s.written("patch configmaps", `"q"`)) != 1 {
		t.Error("the queue is not listed after the API server is back")
	}
}

// TestAPausedLeaderDoesNothing: a process that was paused and lost the lease
// neither decides nor writes what it had decided before.
func TestAPausedLeaderDoesNothing(t *testing.T) {
	var lost sync.Mutex
	leads := true
	s := newStand(t, nil)
	answer := func() error {
		lost.Lock()
		defer lost.Unlock()
		if !leads {
			return errors.New("the lease is lost")
		}
		return nil
	}
	s.control.options.Leads = answer
	s.control.starts.leads = answer
	s.node("n1", 2)
	s.queue("q", 2)
	s.pod("a", "q", 1)
	s.control.cycle() // decided, not written yet
	lost.Lock()
	leads = false
	lost.Unlock()
	s.pod("b", "q", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.control.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := s.written(); len(got) > 0 {
		t.Errorf("written %q without the lease", got)
	}
	if view, _ := s.ledger.Lookup("uid-b"); view.PlannedNode != "" {
		t.Error("a cycle ran without the lease")
	}
}
