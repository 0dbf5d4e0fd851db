// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/topology"
)

// tree is a cluster whose nodes are named zone-rack-host, each with the given
// number of whole GPUs, and n waiting pods of one GPU.
func tree(t *testing.T, gpus map[string]int, n int) (*model.Cluster, []*model.LivePod) {
	t.Helper()
	c := model.NewCluster(model.DefaultSettings())
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.SetTopology(model.Topology{Name: "net", Levels: []string{"zone", "rack", "host"}}))
	for name, count := range gpus {
		node := model.Node{Name: name, Ready: true, Labels: map[string]string{}, Allocatable: model.Quantities{"cpu": 64_000, "pods": 100}}
		for i, part := range strings.Split(name, "-") {
			node.Labels[[]string{"zone", "rack", "host"}[i]] = part
		}
		for g := range count {
			node.GPUs = append(node.GPUs, model.GPU{ID: fmt.Sprint(g), Model: "A", MemoryMiB: 1000, Healthy: true, Shareable: true})
		}
		must(c.SetNode(node))
	}
	var uids []string
	for i := range n {
		uid := fmt.Sprint("p", i)
		uids = append(uids, uid)
		must(c.SetPod(model.Pod{UID: uid, Name: uid, Workload: "ns/w", Claims: []model.GPUClaim{{Name: "c", Kind: model.WholeGPU, Count: 1}}}))
	}
	c.Settle()
	var pods []*model.LivePod
	for _, uid := range uids {
		pods = append(pods, c.PodByUID(uid))
	}
	return c, pods
}

func names(nodes []*model.LiveNode) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Spec.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

var twoZones = map[string]int{"a-r1-h1": 2, "a-r1-h2": 1, "a-r2-h3": 2, "b-r3-h4": 3, "b-r3-h5": 2, "b-r4-h6": 1}

// TestCandidates says which node sets are tried, in order.
func TestCandidates(t *testing.T) {
	tests := []struct {
		name                string
		pods                int
		required, preferred string
		want                []string
	}{
		{"a required level: domains that fit, fullest first", 3, "rack", "", []string{"a-r1-h1 a-r1-h2", "b-r3-h4 b-r3-h5"}},
		{"a wider level", 5, "zone", "", []string{"a-r1-h1 a-r1-h2 a-r2-h3", "b-r3-h4 b-r3-h5 b-r4-h6"}},
		{"only one is large enough", 6, "zone", "", []string{"b-r3-h4 b-r3-h5 b-r4-h6"}},
		{
			"a preferred level first, then up to the required one", 3, "zone", "rack",
			[]string{"a-r1-h1 a-r1-h2", "b-r3-h4 b-r3-h5", "a-r1-h1 a-r1-h2 a-r2-h3", "b-r3-h4 b-r3-h5 b-r4-h6"},
		},
		{
			"preferred alone goes up to everything", 6, "", "rack",
			[]string{"b-r3-h4 b-r3-h5 b-r4-h6", "a-r1-h1 a-r1-h2 a-r2-h3 b-r3-h4 b-r3-h5 b-r4-h6"},
		},
		{
			"down to one host", 3, "zone", "host",
			[]string{"b-r3-h4", "a-r1-h1 a-r1-h2", "b-r3-h4 b-r3-h5", "a-r1-h1 a-r1-h2 a-r2-h3", "b-r3-h4 b-r3-h5 b-r4-h6"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, pods := tree(t, twoZones, test.pods)
			k := &model.TopologyConstraint{Topology: "net", Required: test.required, Preferred: test.preferred}
			sets, reason := topology.Candidates(c, k, pods, nil, nil)
			if reason != nil {
				t.Fatal(reason.Message)
			}
			var got []string
			for _, s := range sets {
				got = append(got, names(s.Nodes))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// A sub-group stays within the nodes that its parent chose, and with members
// that run in their domain.
func TestCandidatesWithin(t *testing.T) {
	c, pods := tree(t, twoZones, 2)
	k := &model.TopologyConstraint{Topology: "net", Required: "rack"}
	var zoneB []*model.LiveNode
	for _, n := range c.NodeList() {
		if strings.HasPrefix(n.Spec.Name, "b") {
			zoneB = append(zoneB, n)
		}
	}
	sets, _ := topology.Candidates(c, k, pods, zoneB, nil)
	if len(sets) != 1 || names(sets[0].Nodes) != "b-r3-h4 b-r3-h5" {
		t.Errorf("within zone b: %d sets", len(sets))
	}
	sets, _ = topology.Candidates(c, k, pods, nil, []*model.LiveNode{c.NodeNamed("a-r2-h3")})
	if len(sets) != 1 || names(sets[0].Nodes) != "a-r2-h3" {
		t.Errorf("with a member on a-r2-h3: %d sets", len(sets))
	}
}

// Where a gang has to span preferred domains, the roomier rank higher.
func TestRankPrefersRoom(t *testing.T) {
	c, pods := tree(t, twoZones, 6)
	sets, reason := topology.Candidates(c, &model.TopologyConstraint{Topology: "net", Required: "zone", Preferred: "rack"}, pods, nil, nil)
	if reason != nil || sets[0].Rank == nil {
		t.Fatal("no rank", reason)
	}
	if r3, r4 := sets[0].Rank(c.NodeNamed("b-r3-h4")), sets[0].Rank(c.NodeNamed("b-r4-h6")); r3 <= r4 {
		t.Errorf("rack r3 with 5 GPUs has rank %d, r4 with 1 has %d", r3, r4)
	}
}

// A preferred level alone never forbids: where the topology has no room, its nodes
// are tried together with those outside of it, which do not carry all labels.
func TestPreferredReachesOutside(t *testing.T) {
	for _, gpus := range []map[string]int{{"a-r1-h1": 1, "x": 1}, {"a-r1-h1": 0, "x": 2}, {"x": 2}} {
		c, pods := tree(t, gpus, 2)
		sets, reason := topology.Candidates(c, &model.TopologyConstraint{Topology: "net", Preferred: "rack"}, pods, nil, nil)
		if reason != nil || len(sets) != 1 || !strings.HasSuffix(names(sets[0].Nodes), "x") {
			t.Errorf("%v: got %d sets, reason %+v", gpus, len(sets), reason)
		}
		if _, reason := topology.Candidates(c, &model.TopologyConstraint{Topology: "net", Required: "rack"}, pods, nil, nil); reason == nil {
			t.Errorf("%v: a required level allows nodes outside", gpus)
		}
	}
}

func TestCandidatesSayWhyNot(t *testing.T) {
	tests := []struct {
		name string
		k    model.TopologyConstraint
		pods int
		code explain.Code
		want string
	}{
		{"no such topology", model.TopologyConstraint{Topology: "none", Required: "rack"}, 1, explain.TopologyInvalid, `topology "none" does not exist`},
		{"no level", model.TopologyConstraint{Topology: "net"}, 1, explain.TopologyInvalid, "without a required or a preferred level"},
		{"no such level", model.TopologyConstraint{Topology: "net", Required: "row"}, 1, explain.TopologyInvalid, "its levels are zone, rack, host"},
		{"no domain", model.TopologyConstraint{Topology: "net", Required: "rack"}, 6, explain.TopologyDoesNotFit, "b/r3 comes closest with room for 5"},
		{"not even all", model.TopologyConstraint{Topology: "net", Required: "rack"}, 12, explain.TopologyDoesNotFit, "room for 11 of 12 pods"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, pods := tree(t, twoZones, test.pods)
			_, reason := topology.Candidates(c, &test.k, pods, nil, nil)
			if reason == nil || reason.Code != test.code || !strings.Contains(reason.Message, test.want) {
				t.Errorf("got %+v, want %s with %q", reason, test.code, test.want)
			}
		})
	}
}
