// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Source says what the kubelet's records are worth.
type Source struct {
	// Complete records (from the checkpoint) name plain init containers too;
	// those from PodResources alone do not, and then what such containers of
	// living pods hold is kept. But the checkpoint may be older than what is
	// known: then what is known of living pods is kept.
	Complete bool
	// Settled records are complete for every earlier Allocate: they were read
	// from the checkpoint while the kubelet waits for our answer to the next one.
	Settled bool
}

// Sync takes the kubelet's records of all containers. It must not be called
// before the informer has seen all pods of the node.
func (b *Book) Sync(records []Record, from Source, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.holdings
	b.holdings = nil
	named := map[string]bool{}
	for _, r := range records {
		k, ours := b.cfg.Names.Kind(r.Resource)
		if !ours || len(r.IDs) == 0 {
			continue
		}
		owner, alive := b.resolve(r.Owner, now)
		named[owner.PodUID] = true
		if alive {
			b.confirm(before, owner, k, r.IDs, now)
		}
	}
	for _, h := range before {
		b.keep(h, from, now)
	}
	for uid := range b.gone {
		if !named[uid] {
			delete(b.gone, uid)
		}
	}
	for uid := range b.unknown {
		if !named[uid] {
			delete(b.unknown, uid)
		}
	}
	b.recount()
	if !sameHoldings(before, b.holdings) {
		b.trade()
		b.notify()
	}
}

// trade lets needs of the same shape exchange their plans: where a container
// holds what was planned for another that still waits, that one inherits its
// plan. So the plans that wait always fit beside what is held.
func (b *Book) trade() {
	waiting := b.waiting()
	for _, h := range b.holdings {
		p := b.pods[h.owner.PodUID]
		if p == nil || !h.confirmed {
			continue
		}
		for _, n := range p.needs {
			c := claim{n.owner, n.kind}
			if plan, traded := b.traded[c]; traded {
				n.plan = plan
			}
			if n.owner != h.owner || n.kind != h.kind || n.plan == nil || matches(n.plan, h.shares) {
				continue
			}
			at := slices.IndexFunc(waiting, func(w need) bool { return w.kind == n.kind && matches(w.plan, h.shares) })
			if at >= 0 {
				b.traded[claim{waiting[at].owner, n.kind}] = n.plan
				b.traded[c] = waiting[at].plan
				waiting[at].plan = n.plan
			}
		}
	}
}

// resolve completes an owner, and says whether its pod still holds devices.
func (b *Book) resolve(o Owner, now time.Time) (Owner, bool) {
	if api, static := b.mirror[o.PodUID]; static {
		o.PodUID = api
	}
	if o.PodUID == "" {
		for _, p := range b.pods {
			if p.namespace == o.Namespace && p.name == o.Pod && (o.PodUID == "" || !p.terminal) {
				o.PodUID = p.uid
			}
		}
	}
	if p, known := b.pods[o.PodUID]; known {
		o.Namespace, o.Pod = p.namespace, p.name
		return o, !p.terminal
	}
	if b.gone[o.PodUID] {
		return o, false
	}
	// The informer may lag behind the kubelet; but a checkpoint keeps pods that
	// were deleted while the plugin was down until the kubelet's next admission.
	key := o.PodUID
	if key == "" {
		key = o.Namespace + "/" + o.Pod
	}
	since, seen := b.unknown[key]
	if !seen {
		b.unknown[key], since = now, now
	}
	return o, now.Sub(since) < Grace
}

// confirm records devices that the kubelet says are in use.
func (b *Book) confirm(before []*holding, owner Owner, k pool.Kind, ids []string, now time.Time) {
	h := &holding{owner: owner, kind: k, ids: slices.Sorted(slices.Values(ids)), confirmed: true, at: now}
	h.shares, _ = b.pool.Shares(k, ids)
	for _, old := range before {
		if old.kind != k || !slices.Equal(old.ids, h.ids) {
			continue
		}
		h.at = old.at
		if !old.confirmed && old.owner != owner && old.owner.PodUID != owner.PodUID {
			b.counters.Mispredicted++
		}
	}
	b.holdings = append(b.holdings, h)
}

// keep decides whether an old holding that no record repeats stays.
func (b *Book) keep(h *holding, from Source, now time.Time) {
	for _, c := range b.holdings {
		if c.kind != h.kind {
			continue
		}
		same := c.owner == h.owner && h.owner != (Owner{})
		taken := c.owner.PodUID != h.owner.PodUID && overlaps(c.ids, h.ids)
		sibling := !b.isInit(h) && slices.Equal(c.ids, h.ids)
		if same || taken || sibling {
			return
		}
	}
	grace := Grace
	if from.Complete {
		grace = CheckpointGrace
	}
	switch {
	case !h.confirmed && now.Sub(h.at) < grace && (!from.Settled || b.midContainer(h)):
	case !from.Complete && b.isInit(h):
	case from.Complete && h.confirmed && b.isAlive(h):
	case h.confirmed:
		return
	default:
		b.counters.Orphaned++
		return
	}
	b.holdings = append(b.holdings, h)
}

// midContainer says whether h's container waits for another of our resources:
// the kubelet records a container after its last one.
func (b *Book) midContainer(h *holding) bool {
	p := b.pods[h.owner.PodUID]
	return p != nil && slices.ContainsFunc(p.needs, func(n need) bool {
		return n.kind != h.kind && n.owner == h.owner
	})
}

// isAlive says whether h is a living pod's. The kubelet takes nothing from one, yet
// its checkpoint may lack it: two writes of the file can come in the wrong order
// (pkg/kubelet/cm/devicemanager, writeCheckpoint), and nothing need change it again.
func (b *Book) isAlive(h *holding) bool {
	p := b.pods[h.owner.PodUID]
	return p != nil && !p.terminal
}

// isInit says whether a plain init container of a living pod holds h.
func (b *Book) isInit(h *holding) bool {
	p := b.pods[h.owner.PodUID]
	return p != nil && !p.terminal && slices.ContainsFunc(p.needs, func(n need) bool {
		return n.init && n.kind == h.kind && n.owner.Container == h.owner.Container
	})
}

// overlaps of two sorted lists.
func overlaps(a, b []string) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			return true
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return false
}

func sameHoldings(a, b []*holding) bool {
	return slices.EqualFunc(a, b, func(x, y *holding) bool {
		return x.owner == y.owner && x.kind == y.kind && x.confirmed == y.confirmed && slices.Equal(x.ids, y.ids)
	})
}
