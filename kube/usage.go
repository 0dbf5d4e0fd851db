// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"
	"time"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/usage"
)

// usageEvery is how often decisions take in what was used until now. Usage moves
// slowly against its half-life, and every change divides the cluster anew.
const usageEvery = time.Minute

// usageBook remembers what the queues used, if the configuration asks for it.
type usageBook struct {
	account *usage.Account // nil while usage does not count
	// parts are what decisions and status use, in millionths of the cluster, by
	// queue; readAt is when they were read off, in nanoseconds.
	parts  map[string]model.Quantities
	readAt int64
}

func newUsageBook(c Config) usageBook {
	if c.UsageHalfLife <= 0 {
		return usageBook{}
	}
	return usageBook{account: usage.New(usage.Options{Window: int64(c.UsageWindow), HalfLife: int64(c.UsageHalfLife)})}
}

// observeUsage notes what the queues hold from now on, and lets the next
// decisions know what they used until now.
func (l *Ledger) observeUsage(now int64) {
	u := &l.usage
	if u.account == nil {
		return
	}
	u.account.Observe(now, l.cluster.Tree())
	if u.readAt != 0 && now >= u.readAt && now-u.readAt < int64(usageEvery) {
		return
	}
	u.readAt = now
	before := u.parts
	u.parts = u.account.Parts(now)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(l.queues)) {
		if !maps.Equal(before[name], u.parts[name]) {
			changed = append(changed, name)
		}
	}
	l.feedQueues(changed...)
}

// CountsUsage is true if past usage moves the division of spare capacity.
func (l *Ledger) CountsUsage() bool { return l.config.UsageHalfLife > 0 }

// SaveUsage returns what the queues used until now, to be stored: at most that
// many of them, those that used most, with how many used anything. It must not be
// called where usage does not count.
func (l *Ledger) SaveUsage(most int) (data []byte, queues int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	l.usage.account.Observe(l.now(), l.cluster.Tree())
	return l.usage.account.MarshalLargest(most)
}

// RestoreUsage takes in what SaveUsage stored; the next cycle decides by it.
// Damaged data is an error, and what was known before still counts.
func (l *Ledger) RestoreUsage(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usage.account.UnmarshalBinary(data); err != nil {
		return err
	}
	l.usage.readAt = 0
	l.note()
	return nil
}
