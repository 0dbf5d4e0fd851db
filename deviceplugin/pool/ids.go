// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// minShortID is the length of a short ID unless two cards share a prefix.
const minShortID = 8

// ShortIDs returns a short, stable form of each UUID: its first 8 hexadecimal
// digits, longer by 4 until no two are equal. It depends on the set of UUIDs
// alone, not on their order.
func ShortIDs(uuids []string) ([]string, error) {
	bare := make([]string, len(uuids))
	for i, u := range uuids {
		bare[i] = bareUUID(u)
		if bare[i] == "" {
			return nil, fmt.Errorf("GPU %d has UUID %q, which holds no letter or digit", i, u)
		}
		if at := slices.Index(bare[:i], bare[i]); at >= 0 {
			return nil, fmt.Errorf("GPUs %d and %d have the same UUID %q", at, i, u)
		}
	}
	for n := minShortID; ; n += 4 {
		short := make([]string, len(bare))
		for i, b := range bare {
			short[i] = b[:min(n, len(b))]
		}
		if allDifferent(short) {
			return short, nil
		}
	}
}

// bareUUID drops "GPU-" or "MIG-" and whatever a device ID could not carry.
func bareUUID(uuid string) string {
	uuid = strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(uuid, "MIG-"), "GPU-"))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, uuid)
}

func allDifferent(ids []string) bool {
	sorted := slices.Sorted(slices.Values(ids))
	return len(slices.Compact(sorted)) == len(ids)
}

// Kind says which resource a device belongs to.
type Kind int

// The kinds of devices. From Profiles on, each is one profile of MIG instances.
const (
	Whole Kind = iota
	Slice
	Memory
	Profiles
)

// Parts says whether the devices of the kind are parts of a GPU.
func (k Kind) Parts() bool { return k == Slice || k == Memory }

// String names the kind as logs and metrics do.
func (k Kind) String() string {
	switch k {
	case Whole:
		return "whole"
	case Slice:
		return "slice"
	case Memory:
		return "memory"
	default:
		return "mig" + strconv.Itoa(int(k-Profiles))
	}
}

// deviceID is the inverse of Pool.locate.
func deviceID(gpu string, k Kind, n int) string {
	if !k.Parts() {
		return gpu
	}
	return gpu + "-" + strconv.Itoa(n)
}

// locate finds the card and number that a device ID stands for.
func (p *Pool) locate(k Kind, id string) (card, n int, err error) {
	gpu, number := id, ""
	if k.Parts() {
		gpu, number, _ = strings.Cut(id, "-")
	}
	card, known := p.byID[gpu]
	if !known || p.cards[card].count(k) == 0 {
		return 0, 0, fmt.Errorf("device %q belongs to no GPU that this plugin serves", id)
	}
	if !k.Parts() {
		return card, 0, nil
	}
	n, err = strconv.Atoi(number)
	if err != nil || n < 0 || n >= p.cards[card].count(k) || strconv.Itoa(n) != number {
		return 0, 0, fmt.Errorf("device %q must end in a number from 0 to %d", id, p.cards[card].count(k)-1)
	}
	return card, n, nil
}
