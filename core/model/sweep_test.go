// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"
)

// A cluster through which thousands of differing pods have passed remembers
// only those that are there, and counts as one that never saw the others.
func TestForgottenShapesAndRules(t *testing.T) {
	add := func(c *Cluster, i int) {
		name := fmt.Sprint("p", i)
		p := Pod{
			UID: name, Name: name, Workload: "ns/w", State: Bound, Node: "n", Labels: map[string]string{"app": name},
			Request:    Quantities{ResourceCPU: 1},
			Affinities: []PodAffinity{{MatchLabels: map[string]string{"app": name}, TopologyKey: "host", Anti: true}},
		}
		if err := c.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	fresh := func() *Cluster {
		c := NewCluster(DefaultSettings())
		if err := c.SetNode(Node{Name: "n", Ready: true, Labels: map[string]string{"host": "n"}}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := fresh()
	for i := range 3000 {
		add(c, i)
		if i >= 3 {
			c.RemovePod(fmt.Sprint("p", i))
		}
		if i%100 == 0 {
			c.Settle()
		}
	}
	c.Settle()
	if len(c.shapes) > 300 || len(c.terms) > 400 {
		t.Errorf("3 pods are left, and %d shapes and %d rules", len(c.shapes), len(c.terms))
	}
	want := fresh()
	for i := range 3 {
		add(want, i)
	}
	want.Settle()
	if c.Digest() != want.Digest() {
		t.Errorf("accounts differ:\n%s\n%s", c.Dump(), want.Dump())
	}
}
