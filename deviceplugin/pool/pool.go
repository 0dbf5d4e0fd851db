// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"
)

const (
	slicesPerGPU = 100
	mibPerGiB    = 1024
	// MaxDevices bounds the devices of one resource on a node. The kubelet
	// refuses a message of more than 4 MiB, about 150,000 of our short IDs;
	// every checkpoint it writes carries them all, so we stop far below.
	MaxDevices = 40_000
)

// GPU is a card as the pool sees it.
type GPU struct {
	// UUID as NVML reports it.
	UUID string
	// ID is the card's part in device IDs, from ShortIDs.
	ID string
	// MemoryMiB that containers may use, above 0.
	MemoryMiB int64
	// Instance is true for a MIG instance, which is handed out whole and as a device
	// of kind As alone; Milli is its part of its card in thousandths.
	Instance bool
	As       Kind
	Milli    int64
}

// Device is one device ID with the health to advertise.
type Device struct {
	ID      string
	Healthy bool
}

// Share is what a set of device IDs means on one card.
type Share struct {
	// GPU is the card.
	GPU GPU
	// Units is the number of IDs on it.
	Units int64
	// MilliGPU is the part of the card in thousandths, rounded up for memory.
	MilliGPU int64
	// MemoryMiB that the share may use, rounded down for slices.
	MemoryMiB int64
}

// Pool is the account of all cards of a node. It is not safe for concurrent
// use.
type Pool struct {
	cards []card
	byID  map[string]int
	kinds []Kind
}

type card struct {
	GPU
	bad  bool
	held map[Kind]map[int]bool // the numbers in use
}

// New returns a pool of unused, healthy cards.
func New(gpus []GPU) (*Pool, error) {
	p := &Pool{byID: make(map[string]int, len(gpus)), kinds: []Kind{Whole, Slice, Memory}}
	total := 0
	for i, g := range gpus {
		if g.MemoryMiB <= 0 {
			return nil, fmt.Errorf("GPU %s has %d MiB for containers, must be above 0", g.UUID, g.MemoryMiB)
		}
		if _, twice := p.byID[g.ID]; twice || g.ID == "" {
			return nil, fmt.Errorf("GPU %s has ID %q, must be set and unique", g.UUID, g.ID)
		}
		p.byID[g.ID] = i
		for g.Instance && g.As >= Kind(len(p.kinds)) {
			p.kinds = append(p.kinds, Kind(len(p.kinds)))
		}
		c := card{GPU: g, held: map[Kind]map[int]bool{}}
		p.cards = append(p.cards, c)
		total += max(c.count(Slice), c.count(Memory))
	}
	if total > MaxDevices {
		return nil, fmt.Errorf("%d GPUs make %d devices of one resource, at most %d are allowed: serve fewer GPUs", len(gpus), total, MaxDevices)
	}
	return p, nil
}

// Kinds lists the kinds of devices that there may be, in order.
func (p *Pool) Kinds() []Kind { return p.kinds }

// GPUs returns the cards in their order.
func (p *Pool) GPUs() []GPU {
	out := make([]GPU, len(p.cards))
	for i := range p.cards {
		out[i] = p.cards[i].GPU
	}
	return out
}

// count is the number of IDs that a kind has on the card.
func (c *card) count(k Kind) int {
	switch {
	case c.Instance && k == c.As, !c.Instance && k == Whole:
		return 1
	case c.Instance:
		return 0
	case k == Slice:
		return slicesPerGPU
	case k == Memory:
		return int(c.MemoryMiB / mibPerGiB)
	default:
		return 0
	}
}

// unit is the size of one device of a kind, in hundredths of a MiB.
func (c *card) unit(k Kind) int64 {
	switch k {
	case Slice:
		return c.MemoryMiB
	case Memory:
		return slicesPerGPU * mibPerGiB
	default:
		return slicesPerGPU * c.MemoryMiB
	}
}

// free may be negative after Replace.
func (c *card) free() int64 {
	free := slicesPerGPU * c.MemoryMiB
	for k, held := range c.held {
		free -= int64(len(held)) * c.unit(k)
	}
	return free
}

// room is how many more devices of a kind the card can give.
func (c *card) room(k Kind) int64 {
	if c.count(k) == 0 {
		return 0
	}
	return max(0, c.free()) / c.unit(k)
}

// Devices lists every ID of a kind, card by card and by number. Of the IDs that
// nobody holds, the lowest stay healthy.
func (p *Pool) Devices(k Kind) []Device {
	var out []Device
	for i := range p.cards {
		c := &p.cards[i]
		room := c.room(k)
		for n := range c.count(k) {
			healthy := c.held[k][n]
			if !healthy && room > 0 {
				healthy = true
				room--
			}
			out = append(out, Device{ID: deviceID(c.ID, k, n), Healthy: healthy && !c.bad})
		}
	}
	return out
}

// SetHealthy marks a card as fit or unfit for new containers; false if the pool
// has no such card.
func (p *Pool) SetHealthy(uuid string, healthy bool) bool {
	for i := range p.cards {
		if p.cards[i].UUID == uuid {
			p.cards[i].bad = !healthy
			return true
		}
	}
	return false
}

// Healthy says whether the card takes new containers.
func (p *Pool) Healthy(uuid string) bool {
	i := slices.IndexFunc(p.cards, func(c card) bool { return c.UUID == uuid })
	return i >= 0 && !p.cards[i].bad
}

// Shares groups device IDs by card, in card order. Errors name the first ID
// that the pool does not know, or that appears twice.
func (p *Pool) Shares(k Kind, ids []string) ([]Share, error) {
	units := make([]map[int]bool, len(p.cards))
	for _, id := range ids {
		i, n, err := p.locate(k, id)
		if err != nil {
			return nil, err
		}
		if units[i] == nil {
			units[i] = map[int]bool{}
		}
		if units[i][n] {
			return nil, fmt.Errorf("device %q is named twice", id)
		}
		units[i][n] = true
	}
	var out []Share
	for i := range p.cards {
		if n := int64(len(units[i])); n > 0 {
			out = append(out, p.cards[i].share(k, n))
		}
	}
	return out, nil
}

func (c *card) share(k Kind, units int64) Share {
	size := units * c.unit(k)
	total := slicesPerGPU * c.MemoryMiB
	milli := (size*1000 + total - 1) / total
	if c.Instance {
		milli = c.Milli
	}
	return Share{GPU: c.GPU, Units: units, MilliGPU: milli, MemoryMiB: size / slicesPerGPU}
}

// Take holds the IDs, all or none. An ID that is held already is not charged
// again: a container may re-use the devices of its pod's init container.
func (p *Pool) Take(k Kind, ids []string) error {
	if _, err := p.Shares(k, ids); err != nil {
		return err
	}
	fresh := make([]int64, len(p.cards))
	for _, id := range ids {
		i, n, _ := p.locate(k, id)
		if !p.cards[i].held[k][n] {
			fresh[i]++
		}
	}
	for i, want := range fresh {
		c := &p.cards[i]
		if room := c.room(k); want > room {
			return fmt.Errorf("GPU %s has room for %d more %s devices, %d are asked for", c.UUID, room, k, want)
		}
	}
	p.set(k, ids, true)
	return nil
}

// Drop gives the IDs back. IDs that nobody holds, or of unknown cards, are
// ignored.
func (p *Pool) Drop(k Kind, ids []string) { p.set(k, ids, false) }

// Replace sets what is held to exactly these IDs, without a check of the room.
// IDs of unknown cards are ignored.
func (p *Pool) Replace(held map[Kind][]string) {
	for i := range p.cards {
		clear(p.cards[i].held)
	}
	for k, ids := range held {
		p.set(k, ids, true)
	}
}

func (p *Pool) set(k Kind, ids []string, hold bool) {
	for _, id := range ids {
		i, n, err := p.locate(k, id)
		switch {
		case err != nil:
		case hold:
			if p.cards[i].held[k] == nil {
				p.cards[i].held[k] = map[int]bool{}
			}
			p.cards[i].held[k][n] = true
		default:
			delete(p.cards[i].held[k], n)
		}
	}
}

// Room is how many more devices of a kind the card can give, whatever its
// health; 0 for an unknown card.
func (p *Pool) Room(uuid string, k Kind) int64 {
	for i := range p.cards {
		if p.cards[i].UUID == uuid {
			return p.cards[i].room(k)
		}
	}
	return 0
}

// Free is what the card can still give, in a unit of its own; negative where more
// is held than it has, and 0 for an unknown card.
func (p *Pool) Free(uuid string) int64 {
	for i := range p.cards {
		if p.cards[i].UUID == uuid {
			return p.cards[i].free()
		}
	}
	return 0
}

// RoomBeside is Room after setting aside shares that are planned but not yet
// taken. It may be negative.
func (p *Pool) RoomBeside(uuid string, k Kind, planned map[Kind]int64) int64 {
	for i := range p.cards {
		c := &p.cards[i]
		if c.UUID != uuid {
			continue
		}
		free := c.free()
		for other, units := range planned {
			free -= units * c.unit(other)
		}
		if c.count(k) == 0 {
			return 0
		}
		if free < 0 {
			return -1
		}
		return free / c.unit(k)
	}
	return 0
}

// Held is the number of devices of a kind that are in use on the card.
func (p *Pool) Held(uuid string, k Kind) int {
	for i := range p.cards {
		if p.cards[i].UUID == uuid {
			return len(p.cards[i].held[k])
		}
	}
	return 0
}

// Overdrawn lists the UUIDs of cards of which more is held than they have.
func (p *Pool) Overdrawn() []string {
	var out []string
	for i := range p.cards {
		if p.cards[i].free() < 0 {
			out = append(out, p.cards[i].UUID)
		}
	}
	return out
}
