// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"
)

func migMachine(t *testing.T, gpus string) *Simulation {
	t.Helper()
	p, err := ParseProfile([]byte("name: test\ngpus:\n" + gpus))
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

// TestInstancesAreListed: with profile, memory, the driver's numbers and the part of
// the card's compute; a card without MIG mode, or without instances, has none.
func TestInstancesAreListed(t *testing.T) {
	s := migMachine(t, "- {base: a100-sxm4-40gb, numa: [1], mig: {3g.20gb: 1, 1g.5gb: 2, 1g.5gb+me: 1}}\n- {base: a30-pcie-24gb, mig: {1g.6gb: 4}}\n- {base: h200-sxm5, mig: {}}\n- {base: b200-sxm5}")
	gpus, err := s.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	seen := map[string]bool{}
	for _, g := range gpus {
		got = append(got, fmt.Sprintf("card %d mig=%t", g.Index, g.MIG))
		for _, i := range g.Instances {
			if seen[i.UUID] || !strings.HasPrefix(i.UUID, "MIG-") || i.Card != g.UUID || i.Index != g.Index || i.Minor != g.Minor || i.NUMANode != g.NUMANode || i.Model != g.Model {
				t.Errorf("instance %+v of card %+v", i, g)
			}
			seen[i.UUID] = true
			got = append(got, fmt.Sprintf("%s gi%d/ci%d %d MiB %d‰ shared=%t", i.Profile, i.GPUInstance, i.ComputeInstance, i.TotalMiB, i.ComputeMilli, i.Shared))
			if err := s.Probe(i.UUID); err != nil {
				t.Error(err)
			}
		}
	}
	want := []string{
		"card 0 mig=true",
		"3g.20gb gi1/ci0 19968 MiB 428‰ shared=false",
		"1g.5gb gi2/ci0 4864 MiB 142‰ shared=false",
		"1g.5gb gi3/ci0 4864 MiB 142‰ shared=false",
		"1g.5gb+me gi4/ci0 4864 MiB 142‰ shared=false",
		"card 1 mig=true",
		"1g.6gb gi1/ci0 5836 MiB 250‰ shared=false",
		"1g.6gb gi2/ci0 5836 MiB 250‰ shared=false",
		"1g.6gb gi3/ci0 5836 MiB 250‰ shared=false",
		"1g.6gb gi4/ci0 5836 MiB 250‰ shared=false",
		"card 2 mig=true",
		"card 3 mig=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInstanceFaults: an instance that was destroyed does not answer, its
// neighbours do; with the card go all of them.
func TestInstanceFaults(t *testing.T) {
	s := migMachine(t, "- {base: a100-sxm4-40gb, mig: {1g.5gb: 3}}")
	all, _ := s.GPUs()
	answers := func() string {
		var out strings.Builder
		for _, i := range all[0].Instances {
			fmt.Fprintf(&out, "%t ", s.Probe(i.UUID) == nil)
		}
		return strings.TrimSpace(out.String())
	}
	s.DestroyInstance(0, 1, true)
	if got := answers(); got != "true false true" {
		t.Errorf("one destroyed: %s", got)
	}
	if now, err := s.GPUs(); err != nil || len(now[0].Instances) != 2 {
		t.Errorf("%+v, %v", now, err)
	}
	s.DestroyInstance(0, 1, false)
	s.SetNeedsReset(0, true)
	if got := answers(); got != "false false false" {
		t.Errorf("the card needs a reset: %s", got)
	}
	s.SetNeedsReset(0, false)
	s.SetLost(0, true)
	if got := answers(); got != "false false false" {
		t.Errorf("the card is lost: %s", got)
	}
	s.SetLost(0, false)
	if got := answers(); got != "true true true" {
		t.Errorf("all is well again: %s", got)
	}
}

// TestProcessesOfAnInstance are its own.
func TestProcessesOfAnInstance(t *testing.T) {
	s := migMachine(t, "- {base: a100-sxm4-40gb, mig: {1g.5gb: 2}}")
	all, _ := s.GPUs()
	s.SetInstanceProcesses(0, 1, SimulatedProcess{PID: 7, UsedMiB: 100, In: []ListedIn{Compute, Detailed}})
	for i, want := range [][]Process{{}, {{PID: 7, UsedBytes: 100 << 20}}} {
		uuid := all[0].Instances[i].UUID
		got, err := s.Processes(uuid)
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("instance %d has %+v, %v", i, got, err)
		}
		if m, err := s.Memory(uuid); err != nil || m.UsedMiB != int64(100*i) || m.TotalMiB != 4864 {
			t.Errorf("instance %d uses %+v, %v", i, m, err)
		}
	}
}

// TestProfileNames: what the driver says wins; without it the sizes decide, in the
// figures of NVIDIA's tables.
func TestProfileNames(t *testing.T) {
	for _, tc := range []struct {
		device          string
		gi, ci          uint32
		mib             uint64
		card            int64
		want            string
		fromDeviceAlone bool
	}{
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 1, 1, 4864, 40960, "1g.5gb", false},
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", 1, 1, 4864, 40960, "1g.5gb+me", true},
		{"NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", 3, 1, 40448, 81559, "1c.3g.40gb", false},
		{"NVIDIA H100 80GB HBM3 MIG 1g.20gb", 1, 1, 20096, 81559, "1g.20gb", false},
		{"NVIDIA A30 MIG 1g.6gb", 1, 1, 5952, 24576, "1g.6gb", false},
		{"NVIDIA H200 MIG 1g.18gb", 1, 1, 16384, 143771, "1g.18gb", false},
		{"NVIDIA H200 MIG 3g.71gb", 3, 3, 71424, 143771, "3g.71gb", false},
		{"NVIDIA RTX PRO 6000 MIG 1g.24gb-me", 1, 1, 24000, 97887, "1g.24gb-me", true},
		{"NVIDIA A100 MIG nonsense", 7, 7, 40192, 40960, "7g.40gb", false},
	} {
		attributes := nvml.DeviceAttributes{GpuInstanceSliceCount: tc.gi, ComputeInstanceSliceCount: tc.ci, MemorySizeMB: tc.mib}
		for _, name := range []string{tc.device, ""} {
			if name == "" && tc.fromDeviceAlone {
				continue
			}
			m := &mock.Device{GetNameFunc: func() (string, nvml.Return) { return name, nvml.SUCCESS }}
			if got := profileOf(m, attributes, tc.card); got != tc.want {
				t.Errorf("device %q: %s, want %s", name, got, tc.want)
			}
		}
	}
}

// TestMIGProfiles: a simulated card has only the profiles of its model, and no more
// of them than fit.
func TestMIGProfiles(t *testing.T) {
	for _, tc := range []struct{ gpu, err string }{
		{"{base: a100-sxm4-40gb, mig: {1g.5gb: 7}}", ""},
		{"{base: a100-sxm4-40gb, mig: {4g.20gb: 1, 3g.20gb: 1}}", ""},
		{"{base: a100-sxm4-40gb, mig: {1g.10gb: 5}}", "mig has 5 instances of 1g.10gb, must be from 1 to 4"},
		{"{base: a100-sxm4-40gb, mig: {1g.5gb: 0}}", "mig has 0 instances of 1g.5gb, must be from 1 to 7"},
		{"{base: a100-sxm4-40gb, mig: {1g.5gb: 5, 3g.20gb: 1}}", "mig needs 8 compute slices and 44288 MiB of a card that has 7 and 40960"},
		{"{base: a100-sxm4-40gb, mig: {1g.10gb: 3, 3g.20gb: 1}}", "mig needs 6 compute slices and 49536 MiB"},
		{"{base: a100-sxm4-40gb, mig: {1g.6gb: 1}}", `mig has profile "1g.6gb", must be of 1g.10gb, 1g.5gb, 1g.5gb+me, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb`},
		{"{model: T4, memoryMiB: 15360, mig: {1g.5gb: 1}}", "mig needs base"},
		{"{base: a100-sxm4-40gb, mig: {}, usedMiB: 5}", "usedMiB must be 0 on cards in MIG mode"},
	} {
		_, err := ParseProfile([]byte("gpus:\n- " + tc.gpu))
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: %v, want %q", tc.gpu, err, tc.err)
		}
	}
}
