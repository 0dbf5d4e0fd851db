// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"testing"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/reclaim"
)

type reclaimableTable struct {
	ID, Summary          string
	Check                string
	SaturationMultiplier json.Number
	Queues               []queue
	Reclaimer            struct {
		Queue       string
		Preemptible bool
		Need        quantities
	}
	Victims []struct {
		Queue string
		Units []quantities
	}
	// Of the two rules: two queues side by side.
	Need            quantities
	ReclaimerQueue  queue
	VictimQueue     queue
	VictimRemaining quantities
	Expect          bool
}

func TestReclaimable(t *testing.T) {
	checks := map[string]func(*testing.T, *reclaimableTable) bool{
		"mayReclaim":         mayReclaim,
		"mayTakeVictims":     mayTakeVictims,
		"ruleOverFairShare":  ruleOverFairShare,
		"ruleGuaranteeQuota": ruleGuaranteeQuota,
	}
	eachTable(t, "reclaimable", func(t *testing.T, table *reclaimableTable) {
		check, ok := checks[table.Check]
		if !ok {
			t.Fatalf("unknown check %q", table.Check)
		}
		if got := check(t, table); got != table.Expect {
			t.Errorf("%s: got %v, want %v", table.Summary, got, table.Expect)
		}
	})
}

func (table *reclaimableTable) claim(t *testing.T, queues *model.QueueTree) reclaim.Claim {
	return reclaim.Claim{
		Queue: index(t, queues, table.Reclaimer.Queue),
		Need:  table.Reclaimer.Need.vector(t, 0), Preemptible: table.Reclaimer.Preemptible,
	}
}

func mayReclaim(t *testing.T, table *reclaimableTable) bool {
	queues := tree(t, table.Queues, nil)
	return reclaim.MayClaim(queues, table.claim(t, queues))
}

func mayTakeVictims(t *testing.T, table *reclaimableTable) bool {
	queues := tree(t, table.Queues, nil)
	permission := reclaim.NewPermission(queues, table.claim(t, queues), int64(parse(t, table.SaturationMultiplier, 1000)))
	for _, v := range table.Victims {
		for _, unit := range v.Units {
			if _, ok := permission.Take(index(t, queues, v.Queue), unit.vector(t, 0)); !ok {
				return false
			}
		}
	}
	return permission.Allowed()
}

func (table *reclaimableTable) pair(t *testing.T) (queues *model.QueueTree, claimant, victim int) {
	queues = tree(t, []queue{table.ReclaimerQueue, table.VictimQueue}, nil)
	return queues, index(t, queues, table.ReclaimerQueue.Name), index(t, queues, table.VictimQueue.Name)
}

func ruleOverFairShare(t *testing.T, table *reclaimableTable) bool {
	queues, _, victim := table.pair(t)
	return reclaim.OverFairShare(queues, victim, table.VictimRemaining.vector(t, 0), table.Need.vector(t, 0))
}

func ruleGuaranteeQuota(t *testing.T, table *reclaimableTable) bool {
	queues, claimant, victim := table.pair(t)
	return reclaim.GuaranteesQuota(queues, claimant, victim, table.VictimRemaining.vector(t, 0), table.Need.vector(t, 0))
}
