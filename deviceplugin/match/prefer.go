// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Prefer proposes size of the available IDs, those in must among them, for the
// container that the kubelet most likely asks for. certain is false when no
// pod that waits for so many is known yet: then the proposal is only the least
// harmful one, and it pays to ask again once the informer has caught up.
func (b *Book) Prefer(k pool.Kind, available, must []string, size int) (ids []string, certain bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	byCard := b.byCard(k, available)
	mustCard := b.byCard(k, must)
	reuse := b.holderOf(k, must)
	waiting := b.waiting()
	for _, n := range waiting {
		if n.kind != k || n.count != int64(size) || reuse != "" && n.owner.PodUID != reuse {
			continue
		}
		certain = true
		if ids := follow(n.plan, byCard, mustCard); ids != nil {
			return ids, true
		}
	}
	return b.leastHarm(k, byCard, mustCard, size, waiting), certain
}

// byCard sorts known IDs by card UUID, lowest number first.
func (b *Book) byCard(k pool.Kind, ids []string) map[string][]string {
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	out := map[string][]string{}
	for _, d := range b.pool.Devices(k) {
		if known[d.ID] {
			// A device that is listed belongs to a card.
			s, _ := b.pool.Shares(k, []string{d.ID})
			out[s[0].GPU.UUID] = append(out[s[0].GPU.UUID], d.ID)
		}
	}
	return out
}

// holderOf is the pod whose init container holds one of the IDs.
func (b *Book) holderOf(k pool.Kind, ids []string) string {
	sorted := slices.Sorted(slices.Values(ids))
	for _, h := range b.holdings {
		if h.kind == k && overlaps(h.ids, sorted) && b.isInit(h) {
			return h.owner.PodUID
		}
	}
	return ""
}

// follow takes what the plan says; nil if the IDs do not allow it.
func follow(plan []v1alpha1.AssignedGPU, byCard, must map[string][]string) []string {
	if len(plan) == 0 {
		return nil
	}
	var out []string
	forced := 0
	for _, g := range plan {
		ids := pick(byCard[g.UUID], must[g.UUID], g.Units)
		if ids == nil {
			return nil
		}
		out = append(out, ids...)
		forced += len(must[g.UUID])
	}
	for _, ids := range must {
		forced -= len(ids)
	}
	if forced != 0 {
		return nil // some that must be taken are on cards off the plan
	}
	return out
}

// pick takes n IDs, those that must be taken first.
func pick(available, must []string, n int64) []string {
	if int64(len(must)) > n {
		return nil
	}
	out := slices.Clone(must)
	for _, id := range available {
		if int64(len(out)) == n {
			break
		}
		if !slices.Contains(must, id) {
			out = append(out, id)
		}
	}
	if int64(len(out)) < n {
		return nil
	}
	return out
}

// leastHarm keeps to one card where it can, away from cards with plans, and to
// the fullest such card. Whole GPUs are taken from cards without plans first.
// Cards that would be refused come last: the kubelet may not know yet that they
// have no room.
func (b *Book) leastHarm(k pool.Kind, byCard, must map[string][]string, size int, waiting []need) []string {
	plans := planned(waiting, nil)
	cards := b.pool.GPUs()
	slices.SortStableFunc(cards, func(x, y pool.GPU) int {
		if c := len(must[y.UUID]) - len(must[x.UUID]); c != 0 {
			return c
		}
		if full := b.isFull(x.UUID, k, size); full != b.isFull(y.UUID, k, size) {
			if full {
				return 1
			}
			return -1
		}
		if c := len(plans[x.UUID]) - len(plans[y.UUID]); c != 0 {
			return c
		}
		return len(byCard[x.UUID]) - len(byCard[y.UUID])
	})
	forced := 0
	for _, ids := range must {
		forced += len(ids)
	}
	for _, c := range cards {
		if len(must[c.UUID]) != forced {
			continue
		}
		if ids := pick(byCard[c.UUID], must[c.UUID], int64(size)); ids != nil {
			return ids
		}
	}
	var out []string
	for _, ids := range must {
		out = append(out, ids...)
	}
	slices.Sort(out)
	for _, c := range cards {
		for _, id := range byCard[c.UUID] {
			if len(out) < size && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// isFull says whether a card gives no more of the kind, or no part of that size.
func (b *Book) isFull(uuid string, k pool.Kind, size int) bool {
	if !k.Parts() {
		size = 1 // of each card
	}
	return !b.pool.Healthy(uuid) || b.pool.Room(uuid, k) < int64(size)
}
