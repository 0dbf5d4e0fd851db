// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// version is the first byte of a stored account.
const version = 1

var errStored = errors.New("stored usage is damaged")

// MarshalBinary writes the account as it is at its last observation, in the
// least room: names once, numbers as varints, queues that used nothing not at
// all. Equal accounts give equal bytes.
//
// Layout after the version byte, all numbers unsigned varints, names as length
// and bytes: resources; queues; slots, each with its start, its length, the
// capacity of each resource as upper and lower half, and the entries of queues
// with usage: queue, then the billionths of each resource.
func (a *Account) MarshalBinary() ([]byte, error) {
	data, _ := a.MarshalLargest(math.MaxInt)
	return data, nil
}

// MarshalLargest is MarshalBinary of at most n queues, those that used most, and
// says how many used anything.
func (a *Account) MarshalLargest(n int) (data []byte, used int) {
	all := a.finished(a.last.at)
	index := map[string]bool{}
	for _, s := range all {
		for queue, parts := range s.parts {
			if slices.Max(append(parts, 0)) > 0 {
				index[queue] = true
			}
		}
	}
	queues := slices.Sorted(maps.Keys(index))
	used = len(queues)
	if n < used {
		queues = a.largest(queues)[:n]
		slices.Sort(queues)
	}
	out := appendNames([]byte{version}, a.resources)
	out = appendNames(out, queues)
	out = binary.AppendUvarint(out, uint64(len(all)))
	for _, s := range all {
		out = appendSlot(out, s, len(a.resources), queues)
	}
	return out, used
}

// largest sorts queues by what they used up to now, over all resources.
func (a *Account) largest(queues []string) []string {
	sums := map[string]amount.Amount{}
	for queue, parts := range a.Parts(a.last.at) {
		for _, part := range parts {
			sums[queue] = sums[queue].Add(part)
		}
	}
	slices.SortStableFunc(queues, func(x, y string) int { return cmp.Compare(sums[y], sums[x]) })
	return queues
}

func appendSlot(out []byte, s slot, resources int, queues []string) []byte {
	out = binary.AppendUvarint(out, uint64(s.from))
	out = binary.AppendUvarint(out, uint64(s.to-s.from))
	for _, c := range grow(slices.Clone(s.capacity), resources) {
		hi, lo := c.Halves()
		out = binary.AppendUvarint(binary.AppendUvarint(out, hi), lo)
	}
	var entries []byte
	n := uint64(0)
	for i, queue := range queues {
		parts := grow(slices.Clone(s.parts[queue]), resources)
		if resources == 0 || slices.Max(parts) == 0 {
			continue
		}
		n++
		entries = binary.AppendUvarint(entries, uint64(i))
		for _, p := range parts {
			entries = binary.AppendUvarint(entries, uint64(p))
		}
	}
	return append(binary.AppendUvarint(out, n), entries...)
}

func appendNames(out []byte, names []string) []byte {
	out = binary.AppendUvarint(out, uint64(len(names)))
	for _, n := range names {
		out = append(binary.AppendUvarint(out, uint64(len(n))), n...)
	}
	return out
}

// UnmarshalBinary replaces what the account remembers by what MarshalBinary
// wrote, whatever options it was written under. Damaged input is an error and
// changes nothing.
func (a *Account) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != version {
		return fmt.Errorf("%w: its version is not %d", errStored, version)
	}
	in := reader{rest: data[1:]}
	resources, queues := in.names(), in.names()
	var closed []slot
	for range in.count() {
		closed = append(closed, in.slot(len(resources), queues))
		if in.failed {
			break
		}
		if n := len(closed); n > 1 && closed[n-1].from < closed[n-2].to {
			return fmt.Errorf("%w: its slots overlap", errStored)
		}
	}
	if in.failed || len(in.rest) > 0 {
		return fmt.Errorf("%w: it has the wrong length", errStored)
	}
	a.resources, a.closed = resources, closed
	a.open, a.last = openSlot{}, observation{}
	return nil
}

// reader takes numbers and names off the front; failed is set when there are
// none.
type reader struct {
	rest   []byte
	failed bool
}

func (in *reader) number() uint64 {
	x, n := binary.Uvarint(in.rest)
	if n <= 0 {
		in.failed, in.rest = true, nil
		return 0
	}
	in.rest = in.rest[n:]
	return x
}

// count reads a number of things that each take at least one byte.
func (in *reader) count() int {
	n := in.number()
	if n > uint64(len(in.rest)) {
		in.failed = true
		return 0
	}
	return int(n)
}

func (in *reader) names() []string {
	var out []string
	for range in.count() {
		n := in.count()
		if in.failed {
			return nil
		}
		out = append(out, string(in.rest[:n]))
		in.rest = in.rest[n:]
	}
	return out
}

func (in *reader) slot(resources int, queues []string) slot {
	from, length := in.number(), in.number()
	s := slot{from: int64(from), to: int64(from + length), parts: map[string][]uint32{}}
	if s.from < 0 || s.to < s.from {
		in.failed = true
	}
	for range resources {
		hi, lo := in.number(), in.number()
		s.capacity = append(s.capacity, amount.WideFrom(hi, lo))
	}
	for range in.count() {
		queue := in.number()
		if in.failed || queue >= uint64(len(queues)) {
			in.failed = true
			return s
		}
		var parts []uint32
		for range resources {
			part := in.number()
			in.failed = in.failed || part > billion
			parts = append(parts, uint32(part))
		}
		s.parts[queues[queue]] = parts
	}
	return s
}
