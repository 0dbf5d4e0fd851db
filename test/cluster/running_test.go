// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// leastRunning follows every change of the pods with the prefix from now on, in
// the order in which the API server made them. It returns the number that holds a
// node and is not asked to leave: now, and at the moment when it was smallest.
func (f fixture) leastRunning(prefix string) (now int, least func() int) {
	f.t.Helper()
	var mu sync.Mutex
	running := map[types.UID]bool{}
	settled, fewest := false, 0
	note := func(object any, gone bool) {
		if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unseen.Obj
		}
		p, ok := object.(*corev1.Pod)
		if !ok || !strings.HasPrefix(p.Name, prefix) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		if gone || ended || p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
			delete(running, p.UID)
		} else {
			running[p.UID] = true
		}
		if settled {
			fewest = min(fewest, len(running))
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(f.Client, 0, informers.WithNamespace(metav1.NamespaceDefault))
	pods := factory.Core().V1().Pods().Informer()
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(p any) { note(p, false) },
		UpdateFunc: func(_, p any) { note(p, false) },
		DeleteFunc: func(p any) { note(p, true) },
	})
	f.must(err)
	stop := make(chan struct{})
	f.t.Cleanup(func() { close(stop) })
	factory.Start(stop)
	cache.WaitForCacheSync(f.ctx.Done(), registration.HasSynced)
	mu.Lock()
	defer mu.Unlock()
	settled, fewest = true, len(running)
	return fewest, func() int {
		mu.Lock()
		defer mu.Unlock()
		return fewest
	}
}

// neverDropped checks that what ran before never became less, apart from what was
// moved.
func (f fixture) neverDropped(before, least, moved int) {
	f.t.Helper()
	if least < before-moved {
		f.t.Errorf("of %d jobs that ran only %d did at one moment, and %d were moved", before, least, moved)
	}
}
