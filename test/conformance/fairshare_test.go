// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

type fairshareTable struct {
	ID, Summary     string
	Kind            string
	Total           quantities
	KValue          json.Number
	Queues          []queue
	ExpectFairShare map[string]quantities
	ExpectRemaining quantities
}

func TestFairShare(t *testing.T) {
	eachTable(t, "fairshare", func(t *testing.T, table *fairshareTable) {
		queues := tree(t, table.Queues, table.Total)
		switch table.Kind {
		case "oneResource", "allResources", "tree":
		case "overQuotaOnly":
			startFromShares(t, queues, table.Queues)
		default:
			t.Fatalf("unknown kind %q", table.Kind)
		}
		spare := fairshare.Divide(queues, int64(parse(t, table.KValue, 1000)))
		for name, want := range table.ExpectFairShare {
			check(t, name, queues.Queues[index(t, queues, name)].FairShare, want)
		}
		check(t, "remaining", spare, table.ExpectRemaining)
	})
}

// startFromShares makes the shares that the queues already have their quotas,
// on top of the total, so that only the spare is left to divide.
func startFromShares(t *testing.T, tree *model.QueueTree, queues []queue) {
	for _, q := range queues {
		before := q.FairShareBefore.vector(t, 0)
		tree.Queues[index(t, tree, q.Name)].Quota = before
		amount.AddTo(tree.Total, before)
	}
}
