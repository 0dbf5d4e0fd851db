// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/place"
)

type tester interface {
	Helper()
	Fatal(args ...any)
}

// cluster has nodes with GPUs of 1000 MiB and what runs on them.
type cluster struct {
	t tester
	*model.Cluster
}

func newCluster(t tester, set ...func(*model.Settings)) cluster {
	s := model.DefaultSettings()
	for _, f := range set {
		f(&s)
	}
	return cluster{t, model.NewCluster(s)}
}

func (c cluster) node(name string, gpus int, cores amount.Amount) {
	c.t.Helper()
	n := model.Node{Name: name, Ready: true, Allocatable: model.Quantities{"cpu": cores * 1000, "pods": 100}}
	for i := range gpus {
		n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(i), Model: "A", MemoryMiB: 1000, Healthy: true, Shareable: true})
	}
	if err := c.SetNode(n); err != nil {
		c.t.Fatal(err)
	}
}

// pod adds a pod; on a node it takes the first GPUs with room.
func (c cluster) pod(uid, node string, cores amount.Amount, claims ...model.GPUClaim) *model.LivePod {
	c.t.Helper()
	p := model.Pod{UID: uid, Name: uid, Workload: "ns/" + uid, Request: model.Quantities{"cpu": cores * 1000}, Claims: claims}
	if node != "" {
		p.State, p.Node = model.Bound, node
	}
	if err := c.SetPod(p); err != nil {
		c.t.Fatal(err)
	}
	c.Settle()
	return c.PodByUID(uid)
}

func whole(n int) model.GPUClaim { return model.GPUClaim{Name: "c", Kind: model.WholeGPU, Count: n} }

func slice(milli int64) model.GPUClaim {
	return model.GPUClaim{Name: "c", Kind: model.GPUSlice, Count: 1, Milli: milli}
}

func spreadNodes(s *model.Settings) {
	s.NodeSpreadingGPU, s.NodeSpreadingCPU = model.Spread, model.Spread
}

// TestBest says, preference by preference, which node a pod gets.
func TestBest(t *testing.T) {
	tests := []struct {
		name  string
		set   []func(*model.Settings)
		build func(c cluster) *model.LivePod
		want  string
	}{
		{"pack fills the node with fewer free GPUs", nil, func(c cluster) *model.LivePod {
			c.pod("x", "n2", 1, whole(2))
			return c.pod("p", "", 1, whole(1))
		}, "n2"},
		{"spread takes the node with more free GPUs", []func(*model.Settings){spreadNodes}, func(c cluster) *model.LivePod {
			c.pod("x", "n1", 1, whole(2))
			return c.pod("p", "", 1, whole(1))
		}, "n2"},
		{"equal nodes by name", nil, func(c cluster) *model.LivePod { return c.pod("p", "", 1, whole(1)) }, "n1"},
		{"a share joins a GPU in use on a freer node", nil, func(c cluster) *model.LivePod {
			c.pod("x", "n1", 1, whole(3))
			c.pod("y", "n2", 1, slice(300))
			return c.pod("p", "", 1, slice(300))
		}, "n2"},
		{"unless that is switched off", []func(*model.Settings){func(s *model.Settings) { s.PreferSharedGPUNodes = false }}, func(c cluster) *model.LivePod {
			c.pod("x", "n1", 1, whole(3))
			c.pod("y", "n2", 1, slice(300))
			return c.pod("p", "", 1, slice(300))
		}, "n1"},
		{"pods without GPUs stay off GPU nodes", nil, func(c cluster) *model.LivePod {
			c.node("n9", 0, 64)
			return c.pod("p", "", 1)
		}, "n9"},
		{"and off nodes with MIG instances", nil, func(c cluster) *model.LivePod {
			c.node("n9", 0, 64)
			if err := c.SetNode(model.Node{Name: "n8", Ready: true, Allocatable: model.Quantities{"cpu": 64_000, "pods": 100, "mig-1g.10gb": 7}}); err != nil {
				c.t.Fatal(err)
			}
			return c.pod("p", "", 1)
		}, "n9"},
		{"room now before a fuller node that has to be waited for", nil, func(c cluster) *model.LivePod {
			c.pod("x", "n1", 1, whole(4))
			c.Evict(c.PodByUID("x"))
			return c.pod("p", "", 1, whole(4))
		}, "n2"},
		{"the nominated node before all others", nil, func(c cluster) *model.LivePod {
			c.pod("x", "n1", 1, whole(3))
			p := c.pod("p", "", 1, whole(1))
			spec := *p.Spec
			spec.NominatedNode = "n2"
			if err := c.SetPod(spec); err != nil {
				c.t.Fatal(err)
			}
			c.Settle()
			return p
		}, "n2"},
		{"no node", nil, func(c cluster) *model.LivePod { return c.pod("p", "", 1, whole(5)) }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, test.set...)
			c.node("n1", 4, 32)
			c.node("n2", 4, 32)
			p := test.build(c)
			for range 4 { // by scanning first, then by the tree
				got := ""
				if ch, ok := place.Best(c.Cluster, place.Query{Pod: p}); ok {
					got = ch.Node.Spec.Name
				}
				if got != test.want {
					t.Fatalf("got %q, want %q", got, test.want)
				}
			}
		})
	}
}

// The tree agrees with looking at every node, whatever happened in between.
func TestTreeAgreesWithScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, func(s *model.Settings) {
			s.NodeSpreadingGPU = model.Spreading(rapid.IntRange(0, 1).Draw(t, "nodes"))
			s.GPUSpreading = model.Spreading(rapid.IntRange(0, 1).Draw(t, "gpus"))
		})
		n := rapid.IntRange(1, 9).Draw(t, "number of nodes")
		for i := range n {
			c.node(fmt.Sprint("n", i), rapid.IntRange(0, 3).Draw(t, "GPUs"), amount.Amount(rapid.IntRange(1, 4).Draw(t, "cores")))
		}
		shapes := []model.GPUClaim{whole(1), whole(2), slice(300), slice(700)}
		var pods []*model.LivePod
		for i := range 12 {
			pods = append(pods, c.pod(fmt.Sprint("p", i), "", amount.Amount(i%2), shapes[i%len(shapes)]))
		}
		marks := []model.Mark{c.Mark()}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
			switch {
			case rapid.IntRange(0, 5).Draw(t, "undo") == 0:
				c.Undo(marks[rapid.IntRange(0, len(marks)-1).Draw(t, "to")])
				marks = marks[:1]
			case p.Phase.Active():
				c.Move(p, model.Place{})
			default:
				fast, ok := place.Best(c.Cluster, place.Query{Pod: p})
				slow, found := place.Best(c.Cluster, place.Query{Pod: p, Nodes: c.NodeList()})
				if ok != found || fast.Node != slow.Node || fast.Now != slow.Now {
					t.Fatalf("the tree says %+v %t, looking at all nodes %+v %t", fast, ok, slow, found)
				}
				if ok {
					place.Put(c.Cluster, p, fast, rapid.Bool().Draw(t, "later"))
				}
			}
			marks = append(marks, c.Mark())
		}
	})
}

func BenchmarkBest(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := newCluster(b)
			for i := range nodes {
				c.node(fmt.Sprintf("n%05d", i), 8, 64)
			}
			p := c.pod("p", "", 1, slice(250))
			b.ReportAllocs()
			for b.Loop() {
				mark := c.Mark()
				ch, ok := place.Best(c.Cluster, place.Query{Pod: p})
				if !ok {
					b.Fatal("no node")
				}
				place.Put(c.Cluster, p, ch, false)
				c.Undo(mark)
			}
		})
	}
}
