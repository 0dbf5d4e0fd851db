// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// quantities are amounts by the files' resource names.
type quantities map[string]json.Number

// queue is a queue as all four kinds of tables write it.
type queue struct {
	Name, Parent            string
	Priority                int32
	CreationOrder           int64
	Quota, Limit            quantities
	OverQuotaWeight         quantities
	Request, FairShare      quantities
	FairShareBefore         quantities
	Usage                   quantities // parts of the cluster, 0 to 1
	Allocated               quantities
	AllocatedNonPreemptible quantities
}

var resources = []struct{ file, core string }{
	{"gpu", model.ResourceGPU},
	{"cpuMilli", model.ResourceCPU},
	{"memoryBytes", model.ResourceMemory},
}

// eachTable runs f on every file of an area, decoded into a fresh T.
func eachTable[T any](t *testing.T, area string, f func(t *testing.T, table *T)) {
	dir := os.Getenv("FAIRSLICE_CONFORMANCE_DIR")
	if dir == "" {
		dir = "."
	}
	files, err := filepath.Glob(filepath.Join(dir, area, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables in %s (%v)", filepath.Join(dir, area), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			table := new(T)
			if err := json.Unmarshal(content, table); err != nil {
				t.Fatal(err)
			}
			f(t, table)
		})
	}
}

// vector translates quantities; missing ones are missing.
func (q quantities) vector(t *testing.T, missing amount.Amount) amount.Vector {
	t.Helper()
	v := make(amount.Vector, len(resources))
	for r, name := range resources {
		v[r] = missing
		if n, set := q[name.file]; set {
			v[r] = parse(t, n, model.Unit(name.core))
		}
	}
	return v
}

// usage translates parts of the cluster to millionths.
func (q quantities) usage(t *testing.T) amount.Vector {
	t.Helper()
	v := make(amount.Vector, len(resources))
	for r, name := range resources {
		if n, set := q[name.file]; set {
			v[r] = parse(t, n, 1_000_000)
		}
	}
	return v
}

// parse reads a decimal number of units to the nearest smallest unit (some
// numbers carry the float noise of their source: 32.54999999999996); −1 is
// Unlimited.
func parse(t *testing.T, n json.Number, unit amount.Amount) amount.Amount {
	t.Helper()
	if n == "-1" {
		return amount.Unlimited
	}
	x, ok := new(big.Rat).SetString(n.String())
	if !ok {
		t.Fatalf("%q is no number", n)
	}
	x.Mul(x, new(big.Rat).SetInt64(int64(unit)))
	x.Add(x, big.NewRat(1, 2))
	whole := new(big.Int).Div(x.Num(), x.Denom())
	if !whole.IsInt64() {
		t.Fatalf("%s is out of range", n)
	}
	return amount.Amount(whole.Int64())
}

// tree builds the queue accounts. Roots divide total.
func tree(t *testing.T, queues []queue, total quantities) *model.QueueTree {
	t.Helper()
	byName := map[string]queue{}
	for _, q := range queues {
		byName[q.Name] = q
	}
	depth := func(q queue) (d int) {
		for q.Parent != "" {
			q, d = byName[q.Parent], d+1
		}
		return d
	}
	queues = slices.Clone(queues)
	slices.SortFunc(queues, func(a, b queue) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a.Name, b.Name))
	})
	out := &model.QueueTree{
		Resources: []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory},
		Total:     total.vector(t, 0),
	}
	for i, q := range queues {
		node := model.QueueNode{
			Name: q.Name, Parent: model.NoQueue, Priority: q.Priority, CreatedAt: q.CreationOrder,
			Quota: q.Quota.vector(t, 0), Limit: q.Limit.vector(t, amount.Unlimited),
			Weight: q.OverQuotaWeight.vector(t, 0), Usage: q.Usage.usage(t),
			FairShare: q.FairShare.vector(t, 0), Request: q.Request.vector(t, 0),
			Allocated:               q.Allocated.vector(t, 0),
			AllocatedNonPreemptible: q.AllocatedNonPreemptible.vector(t, 0),
			PreemptMinRuntime:       -1, ReclaimMinRuntime: -1,
		}
		if q.Parent == "" {
			out.Roots = append(out.Roots, i)
		} else {
			parent, ok := out.Index(q.Parent)
			if !ok {
				t.Fatalf("queue %s: parent %s is not in the table", q.Name, q.Parent)
			}
			node.Parent = parent
			out.Queues[parent].Children = append(out.Queues[parent].Children, i)
		}
		out.Queues = append(out.Queues, node)
	}
	return out
}

func index(t *testing.T, tree *model.QueueTree, name string) int {
	t.Helper()
	i, ok := tree.Index(name)
	if !ok {
		t.Fatalf("queue %s is not in the table", name)
	}
	return i
}

// check compares a vector with the quantities that a table expects of it.
func check(t *testing.T, what string, got amount.Vector, want quantities) {
	t.Helper()
	for r, name := range resources {
		n, set := want[name.file]
		if !set {
			continue
		}
		if expected := parse(t, n, model.Unit(name.core)); got[r] != expected {
			t.Errorf("%s: %s is %s, want %s", what, name.file, show(got[r], name.core), show(expected, name.core))
		}
	}
}

func show(a amount.Amount, resource string) string {
	if unit := model.Unit(resource); unit > 1 {
		return fmt.Sprintf("%d.%03d", a/unit, a%unit)
	}
	return fmt.Sprint(int64(a))
}
