// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

const (
	// Grace is how long a prediction, or a record of a pod that the informer does
	// not know, may stay unconfirmed before it is dropped; it has to outlast a
	// lagging watch.
	Grace = 15 * time.Second
	// CheckpointGrace is the same for a prediction that the checkpoint does not
	// repeat. The kubelet writes it right after each admission, so this only has
	// to outlast a slow disk.
	CheckpointGrace = 3 * time.Second
)

// Record is what the kubelet says that a container holds.
type Record struct {
	Owner
	Resource string
	IDs      []string
}

// holding is a set of devices in use.
type holding struct {
	owner Owner
	kind  pool.Kind
	ids   []string
	// confirmed by the kubelet, else predicted by Allocate.
	confirmed bool
	at        time.Time
	shares    []pool.Share // by card, from ids
}

// Config of a Book.
type Config struct {
	// Node is this node's name.
	Node string
	// Names of the resources.
	Names Names
	// AllowUnplanned gives slices and GiB to pods that the control plane did not
	// place, where no plan waits for the card.
	AllowUnplanned bool
}

// Counters of what deserves a look, since the start.
type Counters struct {
	// Mispredicted devices went to another container than Allocate guessed.
	Mispredicted int64
	// Drifted devices were on other GPUs than planned.
	Drifted int64
	// Refused calls of Allocate.
	Refused int64
	// Orphaned devices were given and then never used: the kubelet refused the
	// pod afterwards.
	Orphaned int64
}

// Book is the state described in the package comment.
type Book struct {
	cfg Config

	mu       sync.Mutex
	pool     *pool.Pool
	pods     map[string]*pod // by UID
	mirror   map[string]string
	gone     map[string]bool // UIDs seen deleted that a record may still name
	unknown  map[string]time.Time
	holdings []*holding
	// traded plans replace those of the annotations: see trade.
	traded   map[claim][]v1alpha1.AssignedGPU
	counters Counters
	unfit    map[string]string // why a card takes no new containers, by UUID
	grown    int64
	changed  chan struct{} // closed and replaced at each change
}

// NewBook returns a book of unused cards.
func NewBook(cfg Config, p *pool.Pool) *Book {
	return &Book{
		cfg: cfg, pool: p, pods: map[string]*pod{}, mirror: map[string]string{},
		gone: map[string]bool{}, unknown: map[string]time.Time{}, traded: map[claim][]v1alpha1.AssignedGPU{},
		unfit: map[string]string{}, changed: make(chan struct{}),
	}
}

// Changed returns a channel that is closed at the next change.
func (b *Book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// notify must be called with the lock held.
func (b *Book) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// mirrorAnnotation on a mirror pod is the UID by which the kubelet knows its
// static pod.
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Upsert takes a pod as the informer sees it; pods of other nodes are ignored.
func (b *Book) Upsert(p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Spec.NodeName != b.cfg.Node {
		return
	}
	read := readPod(p, b.cfg.Node, b.cfg.Names)
	if old := b.pods[read.uid]; old != nil {
		read.ended = old.ended
	}
	b.pods[read.uid] = read
	if static := p.Annotations[mirrorAnnotation]; static != "" {
		b.mirror[static] = read.uid
	}
	delete(b.unknown, read.uid)
	if read.terminal {
		b.release(read.uid)
	}
	b.notify()
}

// Delete takes the news that a pod is gone.
func (b *Book) Delete(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.pods[uid]; !known {
		return
	}
	delete(b.pods, uid)
	b.gone[uid] = true
	b.release(uid)
	b.notify()
}

// release frees what a pod certainly holds. What was only predicted for it may be
// another pod's: that stays in use until the kubelet's records decide.
func (b *Book) release(uid string) {
	b.holdings = slices.DeleteFunc(b.holdings, func(h *holding) bool { return h.confirmed && h.owner.PodUID == uid })
	for _, h := range b.holdings {
		if h.owner.PodUID == uid {
			h.owner = Owner{}
		}
	}
	maps.DeleteFunc(b.traded, func(c claim, _ []v1alpha1.AssignedGPU) bool { return c.owner.PodUID == uid })
	b.recount()
}

// recount sets the pool to what the holdings say.
func (b *Book) recount() {
	held := map[pool.Kind][]string{}
	for _, h := range b.holdings {
		held[h.kind] = append(held[h.kind], h.ids...)
	}
	before := b.rooms()
	b.pool.Replace(held)
	for i, room := range b.rooms() {
		if room > before[i] {
			b.grown++
			return
		}
	}
}

// rooms of all cards, each in a unit of its own.
func (b *Book) rooms() []int64 {
	gpus := b.pool.GPUs()
	out := make([]int64, len(gpus))
	for i, g := range gpus {
		out[i] = b.pool.Free(g.UUID)
	}
	return out
}

// Grown counts how often room on some card has grown, a card that became healthy
// again included.
func (b *Book) Grown() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grown
}

// SetFit says why a card takes no new containers, as half a sentence about it; ""
// means that it takes them.
func (b *Book) SetFit(uuid, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fit := why == ""
	if b.unfit[uuid] == why && b.pool.Healthy(uuid) == fit || !b.pool.SetHealthy(uuid, fit) {
		return
	}
	delete(b.unfit, uuid)
	if fit {
		b.grown++
	} else {
		b.unfit[uuid] = why
	}
	b.notify()
}

// Touch tells everyone who waits for a change to look again.
func (b *Book) Touch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notify()
}

// Devices lists the IDs of a kind with the health to advertise.
func (b *Book) Devices(k pool.Kind) []pool.Device {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pool.Devices(k)
}

// Counters returns the counters.
func (b *Book) Counters() Counters {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counters
}

// Use is how many devices of each kind are in use on a card.
type Use struct {
	UUID string
	Held map[pool.Kind]int
	Room map[pool.Kind]int64
}

// Uses lists the cards in order.
func (b *Book) Uses() []Use {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Use
	for _, g := range b.pool.GPUs() {
		u := Use{UUID: g.UUID, Held: map[pool.Kind]int{}, Room: map[pool.Kind]int64{}}
		for _, k := range b.pool.Kinds() {
			u.Held[k], u.Room[k] = b.pool.Held(g.UUID, k), b.pool.Room(g.UUID, k)
		}
		out = append(out, u)
	}
	return out
}

// Allocation is what one container holds.
type Allocation struct {
	Owner     Owner
	Kind      pool.Kind
	IDs       []string
	Shares    []pool.Share
	Confirmed bool
}

// Allocations lists what is held, ordered by owner and kind.
func (b *Book) Allocations() []Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Allocation
	for _, h := range b.holdings {
		out = append(out, Allocation{Owner: h.owner, Kind: h.kind, IDs: slices.Clone(h.ids), Shares: h.shares, Confirmed: h.confirmed})
	}
	slices.SortFunc(out, func(x, y Allocation) int {
		return compareStrings(x.Owner.Namespace, y.Owner.Namespace, x.Owner.Pod, y.Owner.Pod, x.Owner.PodUID, y.Owner.PodUID,
			x.Owner.Container, y.Owner.Container, x.Kind.String(), y.Kind.String(), fmt.Sprint(x.IDs), fmt.Sprint(y.IDs))
	})
	return out
}

// compareStrings compares pairs until one differs.
func compareStrings(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] < pairs[i+1] {
			return -1
		}
		if pairs[i] > pairs[i+1] {
			return 1
		}
	}
	return 0
}

// allocated says whether the need holds devices already.
func (b *Book) allocated(n need) bool {
	return slices.ContainsFunc(b.holdings, func(h *holding) bool {
		return h.kind == n.kind && h.owner.PodUID == n.owner.PodUID && h.owner.Container == n.owner.Container
	})
}

// waiting lists the needs that hold nothing yet, in the order of rule B2; those of
// containers that the kubelet cannot have come to yet are last.
func (b *Book) waiting() []need {
	var pods []*pod
	lastGiven := map[string]time.Time{}
	for _, h := range b.holdings {
		if h.at.After(lastGiven[h.owner.PodUID]) {
			lastGiven[h.owner.PodUID] = h.at
		}
	}
	for _, p := range b.pods {
		if !p.terminal {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(p, q *pod) int {
		if p.ended != q.ended {
			if p.ended {
				return 1
			}
			return -1
		}
		// The kubelet finishes one pod before it begins the next.
		if c := lastGiven[q.uid].Compare(lastGiven[p.uid]); c != 0 {
			return c
		}
		return p.before(q)
	})
	var next, later []need
	for _, p := range pods {
		container := "" // the first that waits: the kubelet comes to the others after it
		for _, n := range p.needs {
			if b.allocated(n) {
				continue
			}
			if plan, traded := b.traded[claim{n.owner, n.kind}]; traded {
				n.plan = plan
			}
			n.ended = p.ended
			if container = cmp.Or(container, n.owner.Container); n.owner.Container == container {
				next = append(next, n)
			} else {
				later = append(later, n)
			}
		}
	}
	return slices.Concat(next, later)
}

// planned sums the plans, by card UUID and kind, of waiting needs but one.
func planned(waiting []need, but *need) map[string]map[pool.Kind]int64 {
	out := map[string]map[pool.Kind]int64{}
	for _, n := range waiting {
		if n.ended || but != nil && n.owner == but.owner && n.kind == but.kind {
			continue
		}
		for _, g := range n.plan {
			if out[g.UUID] == nil {
				out[g.UUID] = map[pool.Kind]int64{}
			}
			out[g.UUID][n.kind] += g.Units
		}
	}
	return out
}
