// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// TestAnyOrderOfAdmissions is the identity invariant of a node (GPU-sharing
// reports 25, 27, 30, 56): the control plane plans pods until the cards are
// full; the kubelet admits them in any order, and can name only devices. Every
// pod gets a share of its shape, no card is over, and after the corrections the
// annotations say what the kubelet recorded. With and without the checkpoint.
func TestAnyOrderOfAdmissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode("8192", "16384", "8192")
		order := planFull(t, n)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		checkpoint := rapid.Bool().Draw(t, "checkpoint")
		for _, uid := range order {
			p := n.pods[uid]
			k, count := request(p)
			n.now = n.now.Add(time.Second)
			if checkpoint {
				n.book.Sync(n.records, Source{Complete: true, Settled: true}, n.now)
			}
			ids, certain := n.book.Prefer(k, n.available(k), nil, count)
			if !certain {
				t.Fatalf("%s: no pod waits for %d %s", uid, count, k)
			}
			if _, err := n.book.Allocate(k, ids, true, n.now); err != nil {
				t.Fatalf("%s: %v", uid, err)
			}
			n.records = append(n.records, Record{Owner: Owner{PodUID: uid, Container: "main"}, Resource: DefaultNames()[k], IDs: ids})
		}
		n.book.Sync(n.records, Source{Complete: true}, n.now.Add(Grace))
		checkTruth(t, n, len(order))
	})
}

// planFull adds pods with plans, each on one or two cards, until a few in a row do
// not fit.
func planFull(t *rapid.T, n *node) []string {
	ledger := newNode("8192", "16384", "8192").book.pool
	taken := map[string]bool{}
	var order []string
	for misses := 0; misses < 3 && len(order) < 40; {
		kind := rapid.SampledFrom([]string{"slice", "slice", "memory", "whole"}).Draw(t, "kind")
		size := map[string]int{"slice": rapid.SampledFrom([]int{10, 25, 30, 50}).Draw(t, "n"), "memory": rapid.IntRange(1, 4).Draw(t, "n"), "whole": 1}[kind]
		var plan []string
		for g := range 3 {
			uuid := fmt.Sprint("g", g)
			if len(plan) < rapid.IntRange(1, 2).Draw(t, "cards") && ledger.Room(uuid, kindOf[kind]) >= int64(size) {
				plan = append(plan, fmt.Sprintf("%s=%d", uuid, size))
				if err := ledger.Take(kindOf[kind], firstFree(ledger, taken, kindOf[kind], uuid, size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if plan == nil {
			misses++
			continue
		}
		uid := fmt.Sprintf("p%02d", len(order))
		b := buildPod(uid, "n1", n.now)
		if err := b.container("main", fmt.Sprintf("%s:%d@%s", kind, size*len(plan), strings.Join(plan, ","))); err != nil {
			t.Fatal(err)
		}
		n.pods[uid] = b.build()
		n.book.Upsert(n.pods[uid])
		order = append(order, uid)
	}
	return order
}

// firstFree takes the lowest IDs of a card that are not taken yet.
func firstFree(p *pool.Pool, taken map[string]bool, k pool.Kind, uuid string, size int) []string {
	var out []string
	for _, d := range p.Devices(k) {
		gpu, _, _ := strings.Cut(d.ID, "-")
		key := k.String() + d.ID
		if gpu == uuid && d.Healthy && !taken[key] && len(out) < size {
			out = append(out, d.ID)
			taken[key] = true
		}
	}
	return out
}

func request(p *corev1.Pod) (pool.Kind, int) {
	for name, q := range p.Spec.Containers[0].Resources.Limits {
		k, _ := DefaultNames().Kind(string(name))
		return k, int(q.Value())
	}
	return 0, 0
}

func checkTruth(t *rapid.T, n *node, pods int) {
	if over := n.book.pool.Overdrawn(); over != nil {
		t.Fatalf("%v are overdrawn", over)
	}
	for _, c := range n.book.Corrections() {
		n.pods[c.Pod].Annotations[v1alpha1.AnnotationGPUAssignment], _ = c.Assignment.Encode()
		n.book.Upsert(n.pods[c.Pod])
	}
	if left := n.book.Corrections(); len(left) > 0 {
		t.Fatalf("corrections do not settle: %+v", left)
	}
	held := n.book.Allocations()
	if len(held) != pods {
		t.Fatalf("%d allocations for %d pods", len(held), pods)
	}
	for _, a := range held {
		written, err := v1alpha1.DecodeAssignment(n.pods[a.Owner.Pod].Annotations[v1alpha1.AnnotationGPUAssignment])
		if err != nil {
			t.Fatal(err)
		}
		if !matches(written.Containers[0].GPUs, a.Shares) {
			t.Fatalf("%s: annotation %+v, devices %+v", a.Owner, written.Containers[0].GPUs, a.Shares)
		}
	}
}

// TestAnythingFromTheKubelet: whatever IDs and records arrive, no card is handed
// out twice and nothing panics.
func TestAnythingFromTheKubelet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode("4096", "2500")
		for i := range 4 {
			b := buildPod(fmt.Sprint("p", i), "n1", n.now)
			_ = b.container(rapid.SampledFrom([]string{"main", "init"}).Draw(t, "c"), rapid.SampledFrom([]string{
				"slice:10@g0=10", "slice:10@g1=10", "memory:2@g0=2", "whole:1@g0=1", "whole:1", "slice:20@g0=10,g1=10",
			}).Draw(t, "request"))
			n.pods[string(b.UID)] = b.build()
			n.book.Upsert(b.Pod)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n.now = n.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "s")) * time.Second)
			k := pool.Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
			size := rapid.SampledFrom([]int{1, 2, 10, 20}).Draw(t, "size")
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				ids := n.available(k)
				ids = ids[:min(size, len(ids))]
				if _, err := n.book.Allocate(k, ids, true, n.now); err == nil {
					n.records = append(n.records, Record{
						Owner:    Owner{PodUID: fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "owner")), Container: "main"},
						Resource: DefaultNames()[k], IDs: ids,
					})
				}
			case 1:
				ids, _ := n.book.Prefer(k, n.available(k), nil, size)
				if len(ids) > size {
					t.Fatalf("%d IDs proposed for %d", len(ids), size)
				}
			case 2:
				n.book.Sync(n.records, Source{Complete: rapid.Bool().Draw(t, "complete"), Settled: rapid.Bool().Draw(t, "settled")}, n.now)
			case 3:
				uid := fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod"))
				n.book.Delete(uid)
				n.records = slices.DeleteFunc(n.records, func(r Record) bool { return r.PodUID == uid })
			}
			if over := n.book.pool.Overdrawn(); over != nil {
				t.Fatalf("%v are overdrawn", over)
			}
		}
	})
}
