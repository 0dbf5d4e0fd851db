// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Grant is a successful allocation.
type Grant struct {
	Kind pool.Kind
	// IDs, sorted.
	IDs []string
	// Shares by card, in card order.
	Shares []pool.Share
	// Predicted owner; the zero Owner if no pod is known that waits for it.
	Predicted Owner
}

// Refusal is an error for the pod's status.
type Refusal struct {
	// Reason is one sentence.
	Reason string
	// Transient refusals may be cured by what the informer has not seen yet.
	Transient bool
}

func (r *Refusal) Error() string { return r.Reason }

// Allocate decides on devices that the kubelet has chosen for one container. The
// error is a *Refusal. Until the call is final, devices that no known pod waits
// for are refused as transient: the informer may lag.
func (b *Book) Allocate(k pool.Kind, ids []string, final bool, now time.Time) (Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allocate(k, slices.Sorted(slices.Values(ids)), final, now)
}

// CountRefusal notes that the kubelet was told no.
func (b *Book) CountRefusal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counters.Refused++
}

// Undo gives back what Allocate granted for a call that failed later.
func (b *Book) Undo(g Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holdings = slices.DeleteFunc(b.holdings, func(h *holding) bool {
		return !h.confirmed && h.kind == g.Kind && slices.Equal(h.ids, g.IDs) && h.owner == g.Predicted
	})
	b.recount()
	b.notify()
}

func (b *Book) allocate(k pool.Kind, ids []string, final bool, now time.Time) (Grant, error) {
	if len(ids) == 0 {
		return Grant{}, &Refusal{Reason: fmt.Sprintf("the kubelet asks for no device of %s, at least one is needed", b.cfg.Names[k])}
	}
	shares, err := b.pool.Shares(k, ids)
	if err != nil {
		return Grant{}, &Refusal{Reason: err.Error()}
	}
	for _, s := range shares {
		if !b.pool.Healthy(s.GPU.UUID) {
			return Grant{}, &Refusal{Reason: fmt.Sprintf("GPU %s takes no new containers: %s", s.GPU.UUID, b.unfit[s.GPU.UUID])}
		}
	}
	reuse := b.takeBack(k, ids)
	b.recount()
	chosen, refusal := b.choose(k, shares, reuse, b.waiting())
	if refusal == nil && chosen == nil && !final {
		refusal = b.refuse(k, shares, nil)
	}
	if refusal != nil {
		return Grant{}, refusal
	}
	if err := b.pool.Take(k, ids); err != nil {
		return Grant{}, &Refusal{Reason: fmt.Sprintf("no room for %s: %s", describe(b.cfg.Names[k], shares), err), Transient: true}
	}
	g := Grant{Kind: k, IDs: ids, Shares: shares}
	if chosen != nil {
		g.Predicted = chosen.owner
		if chosen.plan != nil && !matches(chosen.plan, shares) {
			b.counters.Drifted++
		}
	}
	b.holdings = append(b.holdings, &holding{owner: g.Predicted, kind: k, ids: ids, shares: shares, at: now})
	b.notify()
	return g, nil
}

// takeBack drops holdings that the kubelet must have freed, because it hands out
// their devices again; but devices of a living pod's init container are being
// re-used (B6), and their pod is returned.
func (b *Book) takeBack(k pool.Kind, ids []string) (reusedBy string) {
	b.holdings = slices.DeleteFunc(b.holdings, func(h *holding) bool {
		if h.kind != k || !overlaps(h.ids, ids) {
			return false
		}
		if b.isInit(h) && b.hasLaterNeed(h.owner, k, int64(len(ids))) {
			reusedBy = h.owner.PodUID
			return false
		}
		if p := b.pods[h.owner.PodUID]; p != nil && h.confirmed {
			p.ended = true
		}
		return true
	})
	return reusedBy
}

// hasLaterNeed says whether a pod has another container that waits for so many.
func (b *Book) hasLaterNeed(o Owner, k pool.Kind, count int64) bool {
	return slices.ContainsFunc(b.pods[o.PodUID].needs, func(n need) bool {
		return n.kind == k && n.count == count && n.owner != o && !b.allocated(n)
	})
}

// choose finds the need that the devices are for; nil without a refusal means
// that they are given to a pod that is not known yet.
func (b *Book) choose(k pool.Kind, shares []pool.Share, reuse string, waiting []need) (*need, *Refusal) {
	count := int64(0)
	for _, s := range shares {
		count += s.Units
	}
	var fits []need
	for _, n := range waiting {
		if n.kind == k && n.count == count && (reuse == "" || n.owner.PodUID == reuse) {
			fits = append(fits, n)
		}
	}
	if reuse != "" && len(fits) > 0 {
		return &fits[0], nil
	}
	for i := range fits {
		if matches(fits[i].plan, shares) {
			return &fits[i], nil
		}
	}
	for i := range fits {
		if sameShape(fits[i].plan, shares) && b.breaksNoPlan(k, shares, waiting, &fits[i]) == nil {
			return &fits[i], nil
		}
	}
	return b.chooseUnplanned(k, shares, fits, waiting)
}

// chooseUnplanned is rule B3.
func (b *Book) chooseUnplanned(k pool.Kind, shares []pool.Share, fits, waiting []need) (*need, *Refusal) {
	at := slices.IndexFunc(fits, func(n need) bool { return n.plan == nil })
	if k.Parts() && (!b.cfg.AllowUnplanned || len(shares) > 1) || at < 0 && len(fits) > 0 {
		return nil, b.refuse(k, shares, fits)
	}
	if err := b.breaksNoPlan(k, shares, waiting, nil); err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, nil
	}
	return &fits[at], nil
}

// breaksNoPlan checks rule B4.
func (b *Book) breaksNoPlan(k pool.Kind, shares []pool.Share, waiting []need, but *need) *Refusal {
	others := planned(waiting, but)
	for _, s := range shares {
		if room := b.pool.RoomBeside(s.GPU.UUID, k, others[s.GPU.UUID]); room >= s.Units {
			continue
		}
		for _, n := range waiting {
			if slices.ContainsFunc(n.plan, func(g v1alpha1.AssignedGPU) bool { return g.UUID == s.GPU.UUID }) && (but == nil || n.owner != but.owner) {
				return &Refusal{Reason: fmt.Sprintf("GPU %s is planned for %s", s.GPU.UUID, n.owner), Transient: true}
			}
		}
		return &Refusal{Reason: fmt.Sprintf("GPU %s has no room for %s", s.GPU.UUID, describe(b.cfg.Names[k], []pool.Share{s})), Transient: true}
	}
	return nil
}

// refuse says why no need takes the devices.
func (b *Book) refuse(k pool.Kind, shares []pool.Share, fits []need) *Refusal {
	resource := b.cfg.Names[k]
	what := describe(resource, shares)
	if len(fits) == 0 {
		return &Refusal{Transient: true, Reason: fmt.Sprintf(
			"no pod bound to node %s waits for %s: was the pod placed by a scheduler with the Fairslice extender?", b.cfg.Node, what)}
	}
	for _, n := range fits {
		if n.plan == nil {
			continue
		}
		if len(n.plan) != len(shares) || !sameShape(n.plan, shares) {
			return &Refusal{Reason: fmt.Sprintf("the kubelet chose %s devices %s, which is not how it was planned for %s: %s", resource, describeShares(shares), n.owner, describePlan(n.plan))}
		}
		return &Refusal{Transient: true, Reason: fmt.Sprintf(
			"the kubelet chose %s devices %s instead of what was planned for %s (%s), and that would break another plan",
			resource, describeShares(shares), n.owner, describePlan(n.plan))}
	}
	owner := fits[0].owner
	why := b.pods[owner.PodUID].noPlan
	if why == "" {
		why = fmt.Sprintf("its annotation %s has no entry for %d %s of this container", v1alpha1.AnnotationGPUAssignment, fits[0].count, resource)
	}
	return &Refusal{Reason: fmt.Sprintf(
		"%s asks for %s and has no GPU planned: %s; only pods placed by a scheduler with the Fairslice extender get %s (is spec.nodeName or another scheduler set?)",
		owner, what, why, resource)}
}

// matches says whether the plan names exactly these cards with these units. A
// plan without UUIDs (whole GPUs) matches any cards.
func matches(plan []v1alpha1.AssignedGPU, shares []pool.Share) bool {
	if len(plan) != len(shares) || plan == nil {
		return false
	}
	left := slices.Clone(plan)
	for _, s := range shares {
		at := slices.IndexFunc(left, func(g v1alpha1.AssignedGPU) bool { return g.UUID == s.GPU.UUID && g.Units == s.Units })
		if at < 0 {
			at = slices.IndexFunc(left, func(g v1alpha1.AssignedGPU) bool { return g.UUID == "" && g.Units == s.Units })
		}
		if at < 0 {
			return false
		}
		left = slices.Delete(left, at, at+1)
	}
	return true
}

// sameShape says whether the plan has the same units per card, on any cards.
func sameShape(plan []v1alpha1.AssignedGPU, shares []pool.Share) bool {
	if len(plan) != len(shares) || plan == nil {
		return false
	}
	a, b := make([]int64, 0, len(plan)), make([]int64, 0, len(plan))
	for i := range plan {
		a, b = append(a, plan[i].Units), append(b, shares[i].Units)
	}
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// describe is "25 fairslice.io/gpu-slice", over several cards with their number.
func describe(resource string, shares []pool.Share) string {
	sum := int64(0)
	for _, s := range shares {
		sum += s.Units
	}
	if len(shares) == 1 {
		return fmt.Sprintf("%d %s", sum, resource)
	}
	return fmt.Sprintf("%d %s over %d GPUs", sum, resource, len(shares))
}

// describeShares is "10 of GPU-…, 15 of GPU-…".
func describeShares(shares []pool.Share) string { return describePlan(assigned(shares)) }

func describePlan(plan []v1alpha1.AssignedGPU) string {
	parts := make([]string, 0, len(plan))
	for _, g := range plan {
		name := g.UUID
		if name == "" {
			name = "any GPU"
		}
		parts = append(parts, fmt.Sprintf("%d of %s", g.Units, name))
	}
	return strings.Join(parts, ", ")
}
