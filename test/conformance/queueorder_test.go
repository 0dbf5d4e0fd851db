// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/fairslice/fairslice/core/order"
)

type queueorderTable struct {
	ID, Summary         string
	Left, Right         queue
	LeftNeed, RightNeed quantities
	Total               quantities
	ExpectFirst         string
}

func TestQueueOrder(t *testing.T) {
	eachTable(t, "queueorder", func(t *testing.T, table *queueorderTable) {
		queues := tree(t, []queue{table.Left, table.Right}, table.Total)
		left := order.Turn{Queue: index(t, queues, table.Left.Name), Chunk: table.LeftNeed.vector(t, 0)}
		right := order.Turn{Queue: index(t, queues, table.Right.Name), Chunk: table.RightNeed.vector(t, 0)}
		want := map[string]int{"left": -1, "right": 1}[table.ExpectFirst]
		if want == 0 {
			t.Fatalf("expectFirst is %q, want left or right", table.ExpectFirst)
		}
		if got := order.Queues(queues, left, right); got != want {
			t.Errorf("left against right: got %d, want %d", got, want)
		}
		if got := order.Queues(queues, right, left); got != -want {
			t.Errorf("right against left: got %d, want %d", got, -want)
		}
	})
}
