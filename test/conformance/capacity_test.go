// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/capacity"
	"github.com/fairslice/fairslice/core/explain"
)

type capacityTable struct {
	ID, Summary string
	Check       string
	Queues      []queue
	Request     struct {
		Queue       string
		Preemptible bool
		Need        quantities
	}
	Expect       bool
	ExpectReason string
}

func TestCapacity(t *testing.T) {
	codes := map[string]explain.Code{
		"overLimit": explain.OverLimit, "nonPreemptibleOverQuota": explain.NonPreemptibleOverQuota,
	}
	eachTable(t, "capacity", func(t *testing.T, table *capacityTable) {
		queues := tree(t, table.Queues, nil)
		leaf, need := index(t, queues, table.Request.Queue), table.Request.Need.vector(t, 0)
		var got *explain.Reason
		switch table.Check {
		case "fitsLimit":
			got = capacity.CheckLimit(queues, leaf, need)
		case "fitsQuota":
			if !table.Request.Preemptible {
				got = capacity.CheckQuota(queues, leaf, need)
			}
		case "fitsCapacity":
			got = capacity.Check(queues, leaf, need, table.Request.Preemptible)
		default:
			t.Fatalf("unknown check %q", table.Check)
		}
		if (got == nil) != table.Expect {
			t.Fatalf("got %+v, want to fit: %v", got, table.Expect)
		}
		if got == nil {
			return
		}
		if want := codes[table.ExpectReason]; got.Code != want {
			t.Errorf("reason is %s, want %s", got.Code, want)
		}
		if !strings.Contains(got.Message, "queue "+got.Queue+": ") {
			t.Errorf("message %q does not name queue %s", got.Message, got.Queue)
		}
	})
}
