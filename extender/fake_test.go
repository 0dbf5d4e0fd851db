// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// fakeLedger is a ledger with a fixed plan: every pod has one planned node.
type fakeLedger struct {
	mu       sync.Mutex
	notReady error
	nodes    map[string]bool
	pods     map[string]*kube.PodView
	victims  map[string][]string
	panicOn  string
	onForget func(uid string)
	forgot   []string
	doubted  []string
}

func newFakeLedger(nodes ...string) *fakeLedger {
	l := &fakeLedger{nodes: map[string]bool{}, pods: map[string]*kube.PodView{}, victims: map[string][]string{}}
	for _, n := range nodes {
		l.nodes[n] = true
	}
	return l
}

// plan adds a pod of its own, planned on node ("" leaves it waiting).
func (l *fakeLedger) plan(uid, node string) *kube.PodView {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &kube.PodView{
		UID: uid, Namespace: "ns", Name: uid, Queue: "q", Interested: true, Workload: "ns/" + uid,
		PlannedNode: node, Startable: true, Gang: kube.GangView{Minimum: 1},
	}
	if node == "" {
		v.Reason = &explain.Reason{Code: explain.OverLimit, Message: "queue q: limit of 1 GPU reached"}
	}
	l.pods[uid] = v
	return v
}

func (l *fakeLedger) planGang(gang string, minimum int, node string, uids ...string) {
	for _, uid := range uids {
		v := l.plan(uid, node)
		v.Workload, v.Gang.Minimum = gang, minimum
	}
}

func (l *fakeLedger) remove(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

func (l *fakeLedger) Ready() error { return l.notReady }

func (l *fakeLedger) Lookup(uid string) (kube.PodView, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if uid != "" && uid == l.panicOn {
		panic("asked to")
	}
	v, ok := l.pods[uid]
	if !ok {
		return kube.PodView{}, false
	}
	view := *v
	for _, m := range l.pods {
		if m.Workload != v.Workload {
			continue
		}
		switch {
		case m.Bound:
			view.Gang.Bound++
		case m.Assumed:
			view.Gang.Assumed++
		case m.PlannedNode != "":
			view.Gang.Promised++
		}
	}
	return view, true
}

func (l *fakeLedger) GangReady(workload string) (ready bool, have, need int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	need = 1
	for _, m := range l.pods {
		if m.Workload == workload {
			need = m.Gang.Minimum
			if m.Assumed || m.Bound {
				have++
			}
		}
	}
	return have >= need, have, need
}

func (l *fakeLedger) Feasible(uid string, nodes []string) (ok []string, failed map[string]explain.Reason) {
	failed = map[string]explain.Reason{}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.pods[uid]
	for _, n := range nodes {
		switch {
		case !l.nodes[n]:
			failed[n] = explain.Reason{Code: kube.NodeUnknown, Message: "unknown node yet"}
		case v.PlannedNode == n:
			ok = append(ok, n)
		case v.Reason != nil:
			failed[n] = *v.Reason
		}
	}
	return ok, failed
}

func (l *fakeLedger) Assume(uid, node string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.pods[uid]
	if v == nil || v.PlannedNode != node {
		return "", errors.New("it is planned elsewhere")
	}
	v.Assumed = true
	return fmt.Sprintf("%s on %s", uid, node), nil
}

func (l *fakeLedger) ConfirmBound(uid string) { l.set(uid, func(v *kube.PodView) { v.Bound = true }) }

func (l *fakeLedger) Forget(uid string) {
	if l.onForget != nil {
		l.onForget(uid)
	}
	l.set(uid, func(v *kube.PodView) { v.Assumed = false })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgot = append(l.forgot, uid)
}

func (l *fakeLedger) Doubt(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted = append(l.doubted, uid)
}

func (l *fakeLedger) set(uid string, change func(*kube.PodView)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.pods[uid]; v != nil {
		change(v)
	}
}

// until waits for a state of the pods.
func (l *fakeLedger) until(t *testing.T, reached func() bool) {
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		done := reached()
		l.mu.Unlock()
		if done {
			return
		}
	}
	t.Error("the ledger did not reach the state within 10s")
}

func (l *fakeLedger) VictimsFor(uid string) (string, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.pods[uid]; v != nil && len(l.victims[uid]) > 0 {
		return v.PlannedNode, l.victims[uid]
	}
	return "", nil
}

// fakeAPI is an API server that knows pods by UID and can be told to fail.
type fakeAPI struct {
	mu          sync.Mutex
	bound       map[string]string
	annotations map[string]string
	gone        map[string]bool
	writes      int
	// fail, if set, is asked before each write; a non-nil error is returned,
	// after the write when applied is true.
	fail func(uid string, try int) (err error, applied bool)
	down bool
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{bound: map[string]string{}, annotations: map[string]string{}, gone: map[string]bool{}}
}

func (a *fakeAPI) Bind(_ context.Context, pod PodKey, node string, annotations map[string]string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes++
	if a.down {
		return errNetwork{}
	}
	if a.fail != nil {
		if err, applied := a.fail(pod.UID, a.writes); err != nil {
			if applied {
				a.bound[pod.UID] = node
			}
			return err
		}
	}
	if a.gone[pod.UID] || a.bound[pod.UID] != "" {
		return errors.New("conflict")
	}
	a.bound[pod.UID] = node
	for _, v := range annotations {
		a.annotations[pod.UID] = v
	}
	return nil
}

func (a *fakeAPI) BoundTo(_ context.Context, pod PodKey) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.down:
		return "", errNetwork{}
	case a.gone[pod.UID]:
		return "", ErrPodGone
	}
	return a.bound[pod.UID], nil
}

type errNetwork struct{}

func (errNetwork) Error() string        { return "connection refused" }
func (errNetwork) Timeout() bool        { return true }
func (errNetwork) Temporary() bool      { return true }
func (errNetwork) Is(target error) bool { return target == syscall.ECONNREFUSED }
