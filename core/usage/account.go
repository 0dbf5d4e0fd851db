// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

const (
	million = 1_000_000
	billion = 1000 * million
	// slots bounds how finely a window is cut.
	slots = 64
	// forgotten is the number of half-lives after which nothing counts: the
	// weight is then below a millionth.
	forgotten = 20
)

// Options say how long usage is remembered, in nanoseconds.
type Options struct {
	// Window is how far back usage counts; a week if 0 or less.
	Window int64
	// HalfLife halves the weight of what is that old; no decay if 0 or less.
	HalfLife int64
}

const week = 7 * 24 * 3600 * billion

// Account is the usage of all queues. It is not safe for concurrent use.
type Account struct {
	window, halfLife, length int64

	resources []string // interned, in order of appearance
	closed    []slot   // oldest first
	open      openSlot
	last      observation
}

// slot is a finished piece of time.
type slot struct {
	from, to int64
	// capacity is the integral of capacity over the time, by resource.
	capacity []amount.Wide
	// parts are the used billionths of it, by queue and resource.
	parts map[string][]uint32
}

// openSlot is the piece of time that observations add to.
type openSlot struct {
	from     int64
	capacity []amount.Wide
	held     map[string][]amount.Wide
}

// observation is what holds since at; at is 0 before the first one.
type observation struct {
	at       int64
	capacity amount.Vector
	held     map[string]amount.Vector
}

// New returns an account that remembers nothing yet.
func New(o Options) *Account {
	a := &Account{window: o.Window, halfLife: max(0, o.HalfLife)}
	if a.window <= 0 {
		a.window = week
	}
	a.length = max(1, a.window/slots)
	if a.halfLife > 0 {
		if a.halfLife < a.window/forgotten {
			a.window = a.halfLife * forgotten
		}
		a.length = max(1, min(a.length, a.halfLife/4))
	}
	return a
}

// Observe says that from now on the queues hold what the tree has as allocated,
// of its total capacity. It is called when either changes, or at intervals that
// are short against the half-life. A clock that goes backwards adds nothing.
func (a *Account) Observe(now int64, t *model.QueueTree) {
	a.advance(now)
	if now < a.last.at {
		now = a.last.at
	}
	a.last = observation{at: now, held: make(map[string]amount.Vector, len(t.Queues))}
	index := make([]int, len(t.Resources))
	for r, name := range t.Resources {
		index[r] = a.intern(name)
	}
	spread := func(v amount.Vector) amount.Vector {
		out := make(amount.Vector, len(a.resources))
		for r, x := range v {
			out[index[r]] = max(0, x)
		}
		return out
	}
	a.last.capacity = spread(t.Total)
	for i := range t.Queues {
		if q := &t.Queues[i]; !amount.IsZero(q.Allocated) {
			a.last.held[q.Name] = spread(q.Allocated)
		}
	}
}

func (a *Account) intern(resource string) int {
	if i := slices.Index(a.resources, resource); i >= 0 {
		return i
	}
	a.resources = append(a.resources, resource)
	return len(a.resources) - 1
}

// advance accounts for the time since the last observation.
func (a *Account) advance(now int64) {
	if a.last.at == 0 {
		a.open.from = now
		return
	}
	if idle := now - a.window; a.last.at < idle {
		// Older time is outside the window already.
		a.settle(a.last.at)
		a.last.at, a.open.from = idle, idle
	}
	for a.last.at < now {
		end := (a.last.at/a.length + 1) * a.length
		a.accrue(min(end, now) - a.last.at)
		a.last.at = min(end, now)
		if a.last.at == end {
			a.settle(end)
		}
	}
	a.forget(now)
}

// accrue adds dt of the present observation to the open slot.
func (a *Account) accrue(dt int64) {
	o := &a.open
	o.capacity = grow(o.capacity, len(a.resources))
	for r, x := range a.last.capacity {
		o.capacity[r] = o.capacity[r].Add(amount.WideOf(x).Mul(amount.Amount(dt)))
	}
	if o.held == nil {
		o.held = map[string][]amount.Wide{}
	}
	for queue, v := range a.last.held {
		sum := grow(o.held[queue], len(a.resources))
		for r, x := range v {
			sum[r] = sum[r].Add(amount.WideOf(x).Mul(amount.Amount(dt)))
		}
		o.held[queue] = sum
	}
}

// settle closes the open slot at end and opens the next one.
func (a *Account) settle(end int64) {
	a.closed = a.finished(end)
	a.open = openSlot{from: end}
}

// finished returns all slots as if the open one ended now. A piece of a slot that
// a restart cut joins the piece before it.
func (a *Account) finished(now int64) []slot {
	if now <= a.open.from || len(a.open.capacity) == 0 {
		return a.closed
	}
	s, n := a.open.close(now), len(a.closed)
	if n > 0 && a.closed[n-1].from/a.length == s.from/a.length {
		return append(slices.Clone(a.closed[:n-1]), join(a.closed[n-1], s))
	}
	return append(slices.Clone(a.closed), s)
}

// close reads the open slot as if it ended now.
func (o *openSlot) close(end int64) slot {
	s := slot{from: o.from, to: end, capacity: slices.Clone(o.capacity), parts: make(map[string][]uint32, len(o.held))}
	for queue, sums := range o.held {
		parts := make([]uint32, len(sums))
		for r, sum := range sums {
			if !s.capacity[r].IsZero() {
				part, _ := amount.Portion(billion, sum, s.capacity[r])
				parts[r] = uint32(part)
			}
		}
		s.parts[queue] = parts
	}
	return s
}

// join merges two pieces of one slot; a restart makes them.
func join(x, y slot) slot {
	n := max(len(x.capacity), len(y.capacity))
	x.capacity, y.capacity = grow(x.capacity, n), grow(y.capacity, n)
	out := slot{from: x.from, to: y.to, capacity: make([]amount.Wide, n), parts: map[string][]uint32{}}
	for r := range out.capacity {
		out.capacity[r] = x.capacity[r].Add(y.capacity[r])
	}
	for _, s := range []slot{x, y} {
		for queue, parts := range s.parts {
			sum := grow(out.parts[queue], n)
			for r, part := range parts {
				if !out.capacity[r].IsZero() {
					weighted, _ := amount.Portion(amount.Amount(part), s.capacity[r], out.capacity[r])
					sum[r] += uint32(weighted)
				}
			}
			out.parts[queue] = sum
		}
	}
	return out
}

// forget drops slots that have left the window.
func (a *Account) forget(now int64) {
	a.closed = slices.DeleteFunc(a.closed, func(s slot) bool { return s.to <= now-a.window })
}

func grow[T any](s []T, n int) []T {
	for len(s) < n {
		var zero T
		s = append(s, zero)
	}
	return s
}
