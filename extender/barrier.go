// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"sync"
)

// barrier holds the bind calls of a gang's members until enough have arrived.
// It keeps no count of its own: whether a gang is complete is the ledger's
// answer, asked again at each arrival, so a member that was bound before a
// restart counts and one that left does not.
type barrier struct {
	mu    sync.Mutex
	gangs map[string]*gate
}

// gate is open once its channel is closed.
type gate struct {
	opened  chan struct{}
	waiting int
}

// pass blocks until complete() holds for some arrival of this gang, or ctx is
// done: then giveUp() takes the member out of the ledger before anybody else is
// counted. Both are called with the barrier locked and must be quick.
func (b *barrier) pass(ctx context.Context, gang string, complete func() bool, giveUp func()) error {
	g := b.arrive(gang, complete)
	if g == nil {
		return nil
	}
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
	}
	return b.leave(gang, g, ctx.Err(), giveUp)
}

// arrive opens the gate, or returns the one to wait at.
func (b *barrier) arrive(gang string, complete func() bool) *gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gangs[gang]
	if complete() {
		if g != nil {
			close(g.opened)
			delete(b.gangs, gang)
		}
		return nil
	}
	if g == nil {
		g = &gate{opened: make(chan struct{})}
		if b.gangs == nil {
			b.gangs = map[string]*gate{}
		}
		b.gangs[gang] = g
	}
	g.waiting++
	return g
}

// leave takes a member out unless the gate opened in the same moment: from
// then on the others bind in the belief that this one does.
func (b *barrier) leave(gang string, g *gate, cause error, giveUp func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-g.opened:
		return nil
	default:
	}
	g.waiting--
	if g.waiting == 0 {
		delete(b.gangs, gang)
	}
	giveUp()
	return cause
}
