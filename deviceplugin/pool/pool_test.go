// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newPool(t interface{ Fatal(...any) }, memMiB ...int64) *Pool {
	var gpus []GPU
	for i, m := range memMiB {
		gpus = append(gpus, GPU{UUID: fmt.Sprintf("GPU-%08d", i), ID: fmt.Sprintf("%08d", i), MemoryMiB: m})
	}
	p, err := New(gpus)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ids are the device IDs of card 0, from number a to b−1.
func ids(k Kind, gpu, a, b int) []string {
	var out []string
	for n := a; n < b; n++ {
		out = append(out, deviceID(fmt.Sprintf("%08d", gpu), k, n))
	}
	return out
}

func healthy(p *Pool, k Kind) int {
	n := 0
	for _, d := range p.Devices(k) {
		if d.Healthy {
			n++
		}
	}
	return n
}

// TestOnePool: what one resource holds, the other two lose, to the device
// (DESIGN §3; an idle 40 GiB card is 1 whole, 100 slices, 40 GiB).
func TestOnePool(t *testing.T) {
	type left struct{ Whole, Slice, Memory int }
	for _, tc := range []struct {
		name string
		kind Kind
		take []string
		want left // healthy IDs, those in use included
	}{
		{"idle", Whole, nil, left{1, 100, 40}},
		{"whole", Whole, ids(Whole, 0, 0, 1), left{1, 0, 0}},
		{"one slice", Slice, ids(Slice, 0, 0, 1), left{0, 100, 39}},
		{"a quarter", Slice, ids(Slice, 0, 0, 25), left{0, 100, 30}},
		{"one GiB", Memory, ids(Memory, 0, 0, 1), left{0, 97, 40}},
		{"half by memory", Memory, ids(Memory, 0, 20, 40), left{0, 50, 40}},
		{"all slices", Slice, ids(Slice, 0, 0, 100), left{0, 100, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPool(t, 40960)
			if err := p.Take(tc.kind, tc.take); err != nil {
				t.Fatal(err)
			}
			got := left{healthy(p, Whole), healthy(p, Slice), healthy(p, Memory)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("healthy IDs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMixedSizes guards GSE #219: each card has its own size.
func TestMixedSizes(t *testing.T) {
	p := newPool(t, 16384, 8192)
	if err := p.Take(Memory, ids(Memory, 0, 0, 12)); err != nil {
		t.Fatal(err)
	}
	if err := p.Take(Memory, ids(Memory, 0, 12, 16)); err != nil {
		t.Errorf("4 GiB left on the first card: %v", err)
	}
	if err := p.Take(Memory, ids(Memory, 1, 0, 8)); err != nil {
		t.Errorf("the second card is idle: %v", err)
	}
	if err := p.Take(Memory, ids(Memory, 1, 8, 9)); err == nil {
		t.Error("the 9th GiB of an 8 GiB card was handed out")
	}
}

// TestUsableMemoryIsFloored: half a GiB is no device, and is no loss to slices.
func TestUsableMemoryIsFloored(t *testing.T) {
	p := newPool(t, 15*1024+512)
	if got := len(p.Devices(Memory)); got != 15 {
		t.Errorf("%d GiB devices, want 15", got)
	}
	if err := p.Take(Memory, ids(Memory, 0, 0, 15)); err != nil {
		t.Fatal(err)
	}
	// 512 MiB are left; a slice is 158.72 MiB.
	if got := healthy(p, Slice); got != 3 {
		t.Errorf("%d slices beside 15 GiB, want 3", got)
	}
}

// TestSmallCard: a card below 1 GiB has no GiB device and still has slices.
func TestSmallCard(t *testing.T) {
	p := newPool(t, 500)
	if got := len(p.Devices(Memory)); got != 0 {
		t.Errorf("%d GiB devices on 500 MiB", got)
	}
	if err := p.Take(Slice, ids(Slice, 0, 0, 100)); err != nil {
		t.Error(err)
	}
}

// TestBadCardTakesAllIDs guards NDP's one-replica defect (D 65): a critical
// XID marks every ID of the card, those in use included, and no other card's.
func TestBadCardTakesAllIDs(t *testing.T) {
	p := newPool(t, 40960, 40960)
	if err := p.Take(Slice, ids(Slice, 0, 0, 4)); err != nil {
		t.Fatal(err)
	}
	p.SetHealthy("GPU-00000000", false)
	if got := healthy(p, Slice); got != 100 {
		t.Errorf("%d healthy slices, want the other card's 100", got)
	}
	p.SetHealthy("GPU-00000000", true)
	if got := healthy(p, Slice); got != 200 {
		t.Errorf("%d healthy slices after recovery, want 200", got)
	}
}

// TestReplaceMayOverdraw guards HAMi #1181: a card that shrank below its use is
// full, never 17 TB free.
func TestReplaceMayOverdraw(t *testing.T) {
	p := newPool(t, 8192)
	p.Replace(map[Kind][]string{Memory: ids(Memory, 0, 0, 8), Slice: ids(Slice, 0, 0, 50), Whole: {"gone"}})
	if got := p.Overdrawn(); len(got) != 1 {
		t.Errorf("overdrawn cards: %v", got)
	}
	if got := p.Room("GPU-00000000", Slice); got != 0 {
		t.Errorf("room for %d slices on an overdrawn card", got)
	}
	p.Drop(Memory, ids(Memory, 0, 0, 8))
	p.Drop(Memory, ids(Memory, 0, 0, 8)) // twice: nothing is given back twice
	if got := p.Room("GPU-00000000", Slice); got != 50 {
		t.Errorf("room for %d slices, want 50", got)
	}
}

func TestShares(t *testing.T) {
	p := newPool(t, 40960, 81920)
	got, err := p.Shares(Memory, append(ids(Memory, 1, 0, 20), ids(Memory, 0, 3, 23)...))
	if err != nil {
		t.Fatal(err)
	}
	want := []Share{
		{GPU: p.GPUs()[0], Units: 20, MilliGPU: 500, MemoryMiB: 20480},
		{GPU: p.GPUs()[1], Units: 20, MilliGPU: 250, MemoryMiB: 20480},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "-", "00000000-100", "00000000--1", "00000000-01", "00000000-x", "ffffffff-0", "00000000", strings.Repeat("9", 99)} {
		if _, err := p.Shares(Slice, []string{bad}); err == nil {
			t.Errorf("device %q was accepted", bad)
		}
	}
	if _, err := p.Shares(Slice, []string{"00000000-1", "00000000-1"}); err == nil {
		t.Error("a device named twice was accepted")
	}
}

func TestShortIDs(t *testing.T) {
	for _, tc := range []struct{ uuids, want []string }{
		{[]string{"GPU-fef8089b-4820-abfc-e83e-94318197576e"}, []string{"fef8089b"}},
		{[]string{"GPU-fef8089b-4820-abfc", "GPU-fef8089b-4821-abfc"}, []string{"fef8089b4820", "fef8089b4821"}},
		{[]string{"A", "GPU-b"}, []string{"a", "b"}},
	} {
		got, err := ShortIDs(tc.uuids)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("ShortIDs(%q) = %q, %v; want %q", tc.uuids, got, err, tc.want)
		}
	}
	for _, bad := range [][]string{{""}, {"GPU-"}, {"GPU-a1", "GPU-a1"}} {
		if _, err := ShortIDs(bad); err == nil {
			t.Errorf("ShortIDs(%q) gave no error", bad)
		}
	}
}

// TestTooManyDevices guards GSE #16: refuse at start, with the reason.
func TestTooManyDevices(t *testing.T) {
	var gpus []GPU
	for i := range 500 {
		gpus = append(gpus, GPU{UUID: fmt.Sprint("GPU-", i), ID: fmt.Sprint(i), MemoryMiB: 144384})
	}
	if _, err := New(gpus); err == nil || !strings.Contains(err.Error(), "at most 40000") {
		t.Errorf("err = %v", err)
	}
}

// withInstances adds MIG instances to a pool: of profile 0, 1, …, or −1 as GPUs.
func withInstances(t interface{ Fatal(...any) }, p *Pool, profiles []int) *Pool {
	gpus := p.GPUs()
	for i, profile := range profiles {
		as := Whole
		if profile >= 0 {
			as = Profiles + Kind(profile)
		}
		gpus = append(gpus, GPU{UUID: fmt.Sprintf("MIG-%08d", 100+i), ID: fmt.Sprintf("%08d", 100+i), MemoryMiB: 4864, Instance: true, As: as, Milli: 142})
	}
	p, err := New(gpus)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestInstances: a MIG instance is one device of one kind, whatever its size, and
// has no slices and no GiB; a resource of another profile does not know it (NDP PR
// #1807).
func TestInstances(t *testing.T) {
	p := withInstances(t, newPool(t, 40960), []int{0, 0, 1, -1})
	left := func() string {
		var out []string
		for _, k := range p.Kinds() {
			out = append(out, fmt.Sprintf("%s %d/%d", k, healthy(p, k), len(p.Devices(k))))
		}
		return strings.Join(out, ", ")
	}
	if got, want := left(), "whole 2/2, slice 100/100, memory 40/40, mig0 2/2, mig1 1/1"; got != want {
		t.Errorf("idle: %s, want %s", got, want)
	}
	if err := p.Take(Profiles, []string{"00000100"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Take(Whole, []string{"00000103"}); err != nil {
		t.Fatal(err)
	}
	// An instance in use stays healthy; nobody else's room has changed.
	if got, want := left(), "whole 2/2, slice 100/100, memory 40/40, mig0 2/2, mig1 1/1"; got != want {
		t.Errorf("two in use: %s, want %s", got, want)
	}
	for _, k := range p.Kinds() {
		if room := p.Room("MIG-00000100", k); room != 0 {
			t.Errorf("an instance in use has room for %d %s devices", room, k)
		}
		want := int64(0)
		if k == Profiles {
			want = 1
		}
		if room := p.Room("MIG-00000101", k); room != want {
			t.Errorf("an idle instance has room for %d %s devices, want %d", room, k, want)
		}
	}
	s, err := p.Shares(Profiles, []string{"00000100"})
	if err != nil || len(s) != 1 || s[0].MilliGPU != 142 || s[0].MemoryMiB != 4864 || s[0].Units != 1 {
		t.Errorf("share %+v, %v", s, err)
	}
	for k, id := range map[Kind]string{Whole: "00000100", Profiles: "00000102", Profiles + 1: "00000103", Slice: "00000100-0", Memory: "00000103-0"} {
		if _, err := p.Shares(k, []string{id}); err == nil || !strings.Contains(err.Error(), "belongs to no GPU") {
			t.Errorf("%s device %s: %v", k, id, err)
		}
	}
	if got, err := ShortIDs([]string{"GPU-aaaaaaaa-0001", "MIG-aaaaaaaa-0002", "MIG-bbbbbbbb-0001"}); err != nil || got[0] != "aaaaaaaa0001" || got[2] != "bbbbbbbb0001" {
		t.Errorf("IDs %v, %v", got, err)
	}
}

// TestPoolProperties checks P1 to P4 of the package comment for random sequences.
func TestPoolProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 200_000), 1, 3).Draw(t, "MiB")
		p := withInstances(t, newPool(t, sizes...), rapid.SliceOfN(rapid.IntRange(-1, 1), 0, 4).Draw(t, "instances"))
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			k := rapid.SampledFrom(p.Kinds()).Draw(t, "kind")
			all := p.Devices(k)
			if len(all) == 0 {
				continue
			}
			from := rapid.IntRange(0, len(all)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(all)).Draw(t, "to")
			var some []string
			for _, d := range all[from:to] {
				some = append(some, d.ID)
			}
			if rapid.Bool().Draw(t, "take") {
				_ = p.Take(k, some)
			} else {
				p.Drop(k, some)
			}
			checkInvariants(t, p)
		}
	})
}

func checkInvariants(t *rapid.T, p *Pool) {
	if over := p.Overdrawn(); over != nil {
		t.Fatalf("P1: %v are overdrawn", over)
	}
	held := map[Kind][]string{}
	for _, k := range p.Kinds() {
		var free []string
		for _, d := range p.Devices(k) {
			i, n, _ := p.locate(k, d.ID)
			switch inUse := p.cards[i].held[k][n]; {
			case inUse && !d.Healthy:
				t.Fatalf("P3: %s %s is in use and unhealthy", k, d.ID)
			case inUse:
				held[k] = append(held[k], d.ID)
			case d.Healthy:
				free = append(free, d.ID)
			}
		}
		// The healthy free IDs can be taken in any order.
		rand.New(rand.NewSource(1)).Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
		for n, id := range free {
			if err := p.Take(k, []string{id}); err != nil {
				t.Fatalf("P2: healthy %s device %s (%d of %d) cannot be taken: %v", k, id, n, len(free), err)
			}
		}
		p.Drop(k, free)
	}
	fresh, _ := New(p.GPUs())
	fresh.Replace(held)
	for _, k := range p.Kinds() {
		if diff := cmp.Diff(p.Devices(k), fresh.Devices(k)); diff != "" {
			t.Fatalf("P4: history shows in the %s devices:\n%s", k, diff)
		}
	}
}
