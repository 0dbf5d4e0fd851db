// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// world is an API server with its watch, as far as the ledger can see: what is
// true, and events on their way, in order for each name.
type world struct {
	ledger *Ledger
	now    time.Time
	pods   map[string]*corev1.Pod // the truth, by UID
	nodes  map[string]int         // GPUs by name
	events []event                // not delivered yet
	next   int
	// doubted are binds whose outcome the ledger was not told: uid → what was
	// asked for.
	doubted map[string]doubtedBind
}

type event struct {
	name string
	pod  *corev1.Pod // nil for a deletion
	uid  string
}

type doubtedBind struct{ node, assignment string }

const gpuMiB = 40960

func newWorld(t *rapid.T) *world {
	w := &world{now: time.Unix(1_800_000_000, 0), pods: map[string]*corev1.Pod{}, nodes: map[string]int{}, doubted: map[string]doubtedBind{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		w.nodes[fmt.Sprintf("n%d", i)] = rapid.IntRange(1, 3).Draw(t, "gpus")
	}
	w.restart()
	return w
}

// restart makes a new ledger from what is true now.
func (w *world) restart() {
	w.ledger = NewLedger(DefaultConfig(), func() time.Time { return w.now }, slog.New(slog.DiscardHandler))
	w.events = nil
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		w.ledger.SetPod(w.pods[uid].DeepCopy())
	}
	p := player{ledger: w.ledger}
	for name := range w.nodes {
		w.setNode(name)
	}
	p.queue("q", args{"quota": "2"})
	p.queue("r", args{})
}

func (w *world) setNode(name string) {
	n := nodeOf(name)
	n.Annotations = map[string]string{v1alpha1.AnnotationGPUs: inventoryOf(name, w.nodes[name], gpuMiB, w.nodes[name])}
	setCount(n.Status.Allocatable, v1alpha1.ResourceGPUSlice, 100*w.nodes[name])
	setCount(n.Status.Allocatable, v1alpha1.ResourceGPUMemory, w.nodes[name]*(gpuMiB/1024))
	setCount(n.Status.Allocatable, v1alpha1.ResourceWholeGPU, w.nodes[name])
	w.ledger.SetNode(n)
}

// tell puts what is true of a pod on its way.
func (w *world) tell(uid string, name string) {
	e := event{name: name, uid: uid}
	if pod := w.pods[uid]; pod != nil {
		e.pod = pod.DeepCopy()
	}
	w.events = append(w.events, e)
}

// deliver delivers the oldest event of a name that has one.
func (w *world) deliver(t *rapid.T) {
	if len(w.events) == 0 {
		t.Skip("nothing is on its way")
	}
	name := w.events[rapid.IntRange(0, len(w.events)-1).Draw(t, "event")].name
	i := slices.IndexFunc(w.events, func(e event) bool { return e.name == name })
	e := w.events[i]
	w.events = slices.Delete(w.events, i, i+1)
	w.hand(e)
}

func (w *world) hand(e event) {
	if e.pod == nil {
		w.ledger.RemovePod(e.uid)
		return
	}
	w.ledger.SetPod(e.pod)
}

func (w *world) create(t *rapid.T) {
	name := fmt.Sprintf("p%d", rapid.IntRange(0, 7).Draw(t, "name"))
	for _, pod := range w.pods {
		if pod.Name == name {
			t.Skip("the name is in use")
		}
	}
	w.next++
	a := args{"uid": fmt.Sprintf("u%d", w.next), "queue": rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue"), "owner": "o"}
	kind := rapid.SampledFrom([]string{"gpu", "slice", "mem"}).Draw(t, "kind")
	a[kind] = map[string]string{
		"gpu":   fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "gpus")),
		"slice": fmt.Sprint(rapid.IntRange(1, 100).Draw(t, "slices")),
		"mem":   fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "gib")),
	}[kind]
	if rapid.Bool().Draw(t, "gated") {
		a["gated"] = ""
	}
	w.pods[a["uid"]] = podOf(name, a, w.now)
	w.tell(a["uid"], name)
}

// some draws one of the true pods that pass.
func (w *world) some(t *rapid.T, pass func(*corev1.Pod) bool) *corev1.Pod {
	var uids []string
	for uid, pod := range w.pods {
		if pass(pod) {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 {
		t.Skip("no such pod")
	}
	slices.Sort(uids)
	return w.pods[rapid.SampledFrom(uids).Draw(t, "pod")]
}

func (w *world) change(t *rapid.T, pass func(*corev1.Pod) bool, change func(*corev1.Pod)) {
	pod := w.some(t, pass)
	change(pod)
	w.tell(string(pod.UID), pod.Name)
}

func (w *world) remove(t *rapid.T) {
	pod := w.some(t, func(*corev1.Pod) bool { return true })
	delete(w.pods, string(pod.UID))
	w.tell(string(pod.UID), pod.Name)
}

// start carries out what a cycle wants to start.
func (w *world) decide(actions ...cycle.Action) {
	for _, s := range w.ledger.Decide(actions...).Starts {
		if pod := w.pods[s.Pod.UID]; pod != nil {
			pod.Status.NominatedNodeName = s.Node
			pod.Spec.SchedulingGates = nil
			w.tell(s.Pod.UID, pod.Name)
		}
	}
}

// bind is what kube-scheduler and the extender do for one pod.
func (w *world) bind(t *rapid.T) {
	known := w.ledger.UIDs()
	if len(known) == 0 {
		t.Skip("no pod")
	}
	uid := rapid.SampledFrom(known).Draw(t, "uid")
	node := rapid.SampledFrom(slices.Sorted(maps.Keys(w.nodes))).Draw(t, "node")
	assignment, err := w.ledger.Assume(uid, node)
	if err != nil {
		return
	}
	switch rapid.SampledFrom([]string{"answered", "refused", "doubted", "lost"}).Draw(t, "outcome") {
	case "answered":
		if w.land(uid, node, assignment) {
			w.ledger.ConfirmBound(uid)
		} else {
			w.ledger.Forget(uid)
		}
	case "refused":
		w.ledger.Forget(uid)
	case "doubted":
		w.doubted[uid] = doubtedBind{node, assignment}
		w.ledger.Doubt(uid)
	case "lost":
		w.doubted[uid] = doubtedBind{node, assignment}
	}
}

// land is the API server's side of a bind.
func (w *world) land(uid, node, assignment string) bool {
	pod := w.pods[uid]
	if pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 {
		return pod != nil && pod.Spec.NodeName == node
	}
	pod.Spec.NodeName = node
	pod.Annotations[v1alpha1.AnnotationGPUAssignment] = assignment
	w.tell(uid, pod.Name)
	return true
}

// settle lets the doubted binds land or not, and then has them read back.
func (w *world) settle(t *rapid.T) {
	for _, uid := range slices.Sorted(maps.Keys(w.doubted)) {
		if rapid.Bool().Draw(t, "landed") {
			w.land(uid, w.doubted[uid].node, w.doubted[uid].assignment)
		}
	}
	clear(w.doubted)
	w.now = w.now.Add(settleAge + time.Second)
	for _, ref := range w.ledger.Unsettled(settleAge) {
		pod := w.pods[ref.UID]
		if pod != nil {
			pod = pod.DeepCopy()
		}
		w.ledger.ReadBack(ref, pod)
	}
}

// check holds at every step: no GPU is over its size.
func (w *world) check(t *rapid.T) {
	milli, mib := map[string]int64{}, map[string]int64{}
	for _, pod := range w.ledger.Dump().Pods {
		if pod.State == "promised" && len(pod.Awaits) > 0 {
			continue // its room is that of the pods that it waits for
		}
		for _, u := range pod.GPUs {
			milli[u.GPU] += u.Milli
			mib[u.GPU] += u.MemoryMiB
		}
	}
	for gpu := range milli {
		if milli[gpu] > milliPerGPU || mib[gpu] > gpuMiB {
			t.Fatalf("GPU %s has %d thousandths and %d MiB taken:\n%+v", gpu, milli[gpu], mib[gpu], w.ledger.Dump())
		}
	}
}

// checkSettled holds once every event was delivered: the ledger has the API
// server's pods and no other, each where it is.
func (w *world) checkSettled(t *rapid.T) {
	for _, e := range w.events {
		w.hand(e)
	}
	w.events = nil
	if got, want := w.ledger.UIDs(), slices.Sorted(maps.Keys(w.pods)); !slices.Equal(got, want) {
		t.Fatalf("the ledger has %v, the API server %v", got, want)
	}
	for _, pod := range w.ledger.Dump().Pods {
		truth := w.pods[pod.UID]
		ended := truth.Status.Phase == corev1.PodSucceeded || truth.Status.Phase == corev1.PodFailed
		switch {
		case ended && (pod.State != "released" || len(pod.GPUs) > 0):
			t.Fatalf("pod %s has ended and is %+v", pod.UID, pod)
		case !ended && truth.Spec.NodeName != "" && (pod.State != "bound" || pod.Node != truth.Spec.NodeName):
			t.Fatalf("pod %s is on %s and is %+v", pod.UID, truth.Spec.NodeName, pod)
		}
	}
}

// TestLedgerNeverOverbooks plays random orders of creation, events, cycles,
// binds with every outcome, ends, deletions, lost watches and restarts.
func TestLedgerNeverOverbooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		live := func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning
		}
		bound := func(pod *corev1.Pod) bool { return live(pod) && pod.Spec.NodeName != "" }
		t.Repeat(map[string]func(*rapid.T){
			"":        w.check,
			"create":  w.create,
			"deliver": w.deliver,
			"decide":  func(*rapid.T) { w.decide(cycle.Allocate) },
			"decide all": func(*rapid.T) {
				w.decide()
			},
			"consolidate": func(t *rapid.T) { w.ledger.Consolidate(rapid.Bool().Draw(t, "dry run")) },
			"pending": func(*rapid.T) {
				for _, queue := range []string{"q", "missing"} {
					w.ledger.Pending(queue)
				}
			},
			"bind":   w.bind,
			"settle": w.settle,
			"run": func(t *rapid.T) {
				w.change(t, bound, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
			},
			"end": func(t *rapid.T) {
				w.change(t, bound, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
			},
			"delete": func(t *rapid.T) {
				w.change(t, live, func(p *corev1.Pod) { setLife(p, lifeOf(p, "deleting"), w.now) })
			},
			"remove": w.remove,
			"filter": func(t *rapid.T) {
				if known := w.ledger.UIDs(); len(known) > 0 {
					w.ledger.Feasible(rapid.SampledFrom(known).Draw(t, "uid"), slices.Sorted(maps.Keys(w.nodes)))
				}
			},
			"flap": func(t *rapid.T) {
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.nodes))).Draw(t, "node")
				w.ledger.RemoveNode(name)
				w.setNode(name)
			},
			"relist": func(t *rapid.T) { w.checkSettled(t) },
			"lost watch": func(t *rapid.T) {
				// The events are lost; the next list brings what is true and the
				// deletions that the informer's store can tell.
				w.events = nil
				for _, uid := range w.ledger.UIDs() {
					if w.pods[uid] == nil {
						w.ledger.RemovePod(uid)
					}
				}
				for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
					w.ledger.SetPod(w.pods[uid].DeepCopy())
				}
				w.checkSettled(t)
			},
			"restart": func(t *rapid.T) {
				w.settle(t) // a new leader comes after the old one's binds ended
				w.restart()
				w.decide()
			},
		})
		w.checkSettled(t)
	})
}

// lifeOf keeps a pod's life as it is, and adds to it.
func lifeOf(p *corev1.Pod, more ...string) args {
	a := args{"node": p.Spec.NodeName, "phase": string(p.Status.Phase), "nominated": p.Status.NominatedNodeName}
	for _, key := range more {
		a[key] = ""
	}
	return a
}

// TestChurnLeavesNothing: a thousand pods of one name, one after the other, the
// old one's deletion late in half of the rounds, leave no trace (CASES R95).
func TestChurnLeavesNothing(t *testing.T) {
	p := newPlayer()
	l := p.ledger
	p.node("n1", args{"gpus": "1"})
	p.queue("q", args{})
	before := ""
	for i := range 1000 {
		uid := fmt.Sprintf("u%d", i)
		if before != "" && i%2 == 0 {
			l.RemovePod(before)
		}
		l.SetPod(podOf("a", args{"uid": uid, "queue": "q", "gpu": "1"}, p.time))
		l.RemovePod(before)
		if ok, failed := l.Feasible(uid, []string{"n1"}); len(ok) != 1 {
			t.Fatalf("round %d: %v", i, failed)
		}
		if _, err := l.Assume(uid, "n1"); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		switch i % 3 {
		case 0:
			l.ConfirmBound(uid)
		case 1:
			l.Forget(uid)
		}
		before = uid
	}
	l.RemovePod(before)
	l.Decide()
	left := map[string]int{
		"pods": len(l.pods), "names": len(l.names), "workloads": len(l.workloads), "dirty": len(l.dirty),
		"timed": len(l.index.timed), "namespaces": len(l.index.namespaces), "holds": len(l.holds),
		"troubles": len(l.troubles), "arrivals": len(l.arrivals), "memberships": len(l.memberships),
	}
	for _, s := range l.index.states {
		left["states"] += len(s)
	}
	l.cluster.Pods(func(model.Pod) bool { left["the cluster's pods"]++; return true })
	l.cluster.Workloads(func(model.Workload) bool { left["the cluster's workloads"]++; return true })
	for what, n := range left {
		if n != 0 {
			t.Errorf("%s: %d are left", what, n)
		}
	}
}

// TestConcurrentUse calls everything at once; with -race it is a proof that
// nothing is shared without the lock.
func TestConcurrentUse(t *testing.T) {
	p := newPlayer()
	l := p.ledger
	for i := range 4 {
		p.node(fmt.Sprintf("n%d", i), args{"gpus": "4"})
	}
	p.queue("q", args{})
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 50 {
				uid := fmt.Sprintf("w%d-%d", worker, i)
				l.SetPod(podOf(uid, args{"queue": "q", "slice": "25"}, time.Unix(1_800_000_000, 0)))
				ok, _ := l.Feasible(uid, []string{"n0", "n1", "n2", "n3"})
				if len(ok) == 1 {
					if _, err := l.Assume(uid, ok[0]); err == nil {
						l.ConfirmBound(uid)
					}
				}
				l.Lookup(uid)
				l.VictimsFor(uid)
				l.Decide()
				l.Dump()
				l.Queues()
				l.Waiting()
				if i%2 == 0 {
					l.RemovePod(uid)
				}
			}
		})
	}
	wait.Wait()
	milli := map[string]int64{}
	for _, pod := range l.Dump().Pods {
		for _, u := range pod.GPUs {
			milli[u.GPU] += u.Milli
		}
	}
	for gpu, n := range milli {
		if n > milliPerGPU {
			t.Errorf("GPU %s has %d thousandths taken", gpu, n)
		}
	}
}
