// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

func simulate(t *testing.T, profile string) *Simulation {
	t.Helper()
	p, err := LoadProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Simulate(p, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestEmbeddedProfiles: each profile gives the machine that it promises.
func TestEmbeddedProfiles(t *testing.T) {
	type machine struct {
		GPUs int
		MiB  int64
		Last string
	}
	want := map[string]machine{
		"a100-40gb": {4, 4 * 40960, "NVIDIA A100-PCIE-40GB"},
		"dgx-a100":  {8, 8 * 40960, "NVIDIA A100-SXM4-40GB"},
		"dgx-h100":  {8, 8 * 81920, "NVIDIA H100 80GB HBM3"},
		"dgx-h200":  {8, 8 * 144384, "NVIDIA H200 141GB HBM3e"},
		"dgx-b200":  {8, 8 * 184320, "NVIDIA B200 180GB HBM3e"},
		"mixed":     {5, 2*81920 + 2*40960 + 15360, "Tesla T4"},
		"t4":        {4, 4 * 15360, "Tesla T4"},
	}
	got := map[string]machine{}
	for _, name := range Profiles() {
		gpus, err := simulate(t, name).GPUs()
		if err != nil {
			t.Fatal(err)
		}
		m := machine{GPUs: len(gpus), Last: gpus[len(gpus)-1].Model}
		for _, g := range gpus {
			m.MiB += g.TotalMiB
		}
		got[name] = m
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}

// TestUnknownMIGMode: a card whose mode cannot be read is none to hand out whole; one
// that knows no such mode is.
func TestUnknownMIGMode(t *testing.T) {
	s := simulate(t, "a100-40gb")
	mode := func(card int, ret nvml.Return) {
		s.cards[card].device.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, ret }
	}
	mode(1, nvml.ERROR_UNKNOWN)
	mode(2, nvml.ERROR_NOT_SUPPORTED)
	gpus, err := s.GPUs()
	if len(gpus) != 3 || err == nil || !strings.Contains(err.Error(), "reading the MIG mode of "+s.cards[1].device.UUID) {
		t.Errorf("%d GPUs, error %v", len(gpus), err)
	}
}

// TestUUIDsAreStable: the same node finds its cards again, another node has
// others.
func TestUUIDsAreStable(t *testing.T) {
	p, _ := LoadProfile("dgx-a100")
	uuids := func(seed string) map[string]bool {
		s, err := Simulate(p, seed)
		if err != nil {
			t.Fatal(err)
		}
		gpus, _ := s.GPUs()
		out := map[string]bool{}
		for _, g := range gpus {
			out[g.UUID] = true
		}
		return out
	}
	if diff := cmp.Diff(uuids("a"), uuids("a")); diff != "" {
		t.Error(diff)
	}
	for u := range uuids("b") {
		if uuids("a")[u] {
			t.Errorf("two nodes share %s", u)
		}
	}
}

// TestLostCardHidesNoOther guards R80 and NDP #231: enumeration goes on.
func TestLostCardHidesNoOther(t *testing.T) {
	s := simulate(t, "a100-40gb")
	all, _ := s.GPUs()
	s.SetLost(2, true)
	gpus, err := s.GPUs()
	if len(gpus) != 3 || err == nil || !strings.Contains(err.Error(), "index 2") {
		t.Errorf("%d GPUs, error %v", len(gpus), err)
	}
	if err := s.Probe(all[2].UUID); err == nil {
		t.Error("the lost card answers")
	}
	if err := s.Probe(all[1].UUID); err != nil {
		t.Error(err)
	}
	s.SetLost(2, false)
	if err := s.Probe(all[2].UUID); err != nil {
		t.Error(err)
	}
	s.SetNeedsReset(2, true)
	if err := s.Probe(all[2].UUID); err == nil || !strings.Contains(err.Error(), "needs a reset") {
		t.Errorf("err = %v", err)
	}
}

func TestWatchReportsTheCard(t *testing.T) {
	s := simulate(t, "a100-40gb")
	all, _ := s.GPUs()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan Event, 1)
	done := make(chan error)
	go func() { done <- s.Watch(ctx, func(e Event) { got <- e }) }()
	s.RaiseXID(3, 79)
	if e := <-got; e.XID != 79 || e.UUID != all[3].UUID {
		t.Errorf("event %+v, want XID 79 of %s", e, all[3].UUID)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMissingLibrary: a node without a driver gets one clear sentence.
func TestMissingLibrary(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	if err == nil || !strings.Contains(err.Error(), "is the NVIDIA driver installed") {
		t.Errorf("err = %v", err)
	}
}

func TestBadProfiles(t *testing.T) {
	for in, want := range map[string]string{
		"gpus: [{base: a101}]":                               `gpus[0].base is "a101", must be one of a100-pcie-40gb`,
		"gpus: [{model: X}]":                                 "gpus[0].memoryMiB is 0, must be from 1",
		"gpus: [{memoryMiB: 10}]":                            "gpus[0].model is empty",
		"gpus: [{model: X, memoryMiB: 10, count: -1}]":       "gpus[0].count is -1",
		"gpus: [{model: X, memoryMiB: 10, count: 65}]":       "gpus[0].count is 65",
		"gpus: [{model: X, memoryMiB: 10, numa: [0,1]}]":     "gpus[0].numa has 2 nodes",
		"gpus: [{model: X, memoryMiB: 10, reservedMiB: 10}]": "gpus[0].reservedMiB is 10",
		"gpus: [{model: X, memoryMiB: 10, usedMiB: 11}]":     "gpus[0].usedMiB is 11",
		"gpus: [{model: X, memMiB: 10}]":                     `unknown field "memMiB"`,
		"gpu: []":                                            `unknown field "gpu"`,

		"gpus: [{base: a30-pcie-24gb, count: 40}, {base: a30-pcie-24gb, count: 40}]": "more than 64 GPUs",
		"[": "not the expected YAML",
	} {
		if _, err := ParseProfile([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  error %v\n  want  %s", in, err, want)
		}
	}
	if _, err := LoadProfile("dgx-a1000"); err == nil || !strings.Contains(err.Error(), "dgx-a100, ") {
		t.Errorf("err = %v", err)
	}
}

func TestProfileFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte("gpus: [{model: L4, memoryMiB: 23034, reservedMiB: 434}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	gpus, err := simulate(t, file).GPUs()
	if err != nil || len(gpus) != 1 || gpus[0].ReservedMiB != 434 {
		t.Errorf("%+v, %v", gpus, err)
	}
}

func FuzzParseProfile(f *testing.F) {
	for _, name := range Profiles() {
		raw, _ := embedded.ReadFile("profiles/" + name + ".yaml")
		f.Add(raw)
	}
	f.Add([]byte("gpus: [{count: 9999999999, numa: [1]}]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseProfile(raw)
		if err != nil {
			return
		}
		s, err := Simulate(p, "node")
		if err != nil {
			t.Fatalf("a profile that parses cannot be simulated: %v", err)
		}
		want := 0
		for _, g := range p.GPUs {
			want += g.Count
		}
		if gpus, err := s.GPUs(); err != nil || len(gpus) != want {
			t.Fatalf("%d GPUs of %d, %v", len(gpus), want, err)
		}
	})
}
