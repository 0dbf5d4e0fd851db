// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// openStandin loads a library by the path that the driver's goes.
func openStandin(t *testing.T) Library {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "testdata/nvml.c", "-o", library).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lib, err := Open(library)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lib.Close() })
	return lib
}

// TestInstancesOfALibrary: the same as of the simulation by a library that is opened
// at run time, where indexes have gaps and compute instances share a GPU instance.
func TestInstancesOfALibrary(t *testing.T) {
	lib := openStandin(t)
	gpus, err := lib.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range gpus {
		got = append(got, fmt.Sprintf("%s minor %d, %d MiB, MIG mode %t", g.Model, g.Minor, g.TotalMiB, g.MIG))
		for _, i := range g.Instances {
			got = append(got, fmt.Sprintf("%s %s gi%d/ci%d minor %d %d MiB %d‰ shared=%t", i.UUID[:12], i.Profile, i.GPUInstance, i.ComputeInstance, i.Minor, i.TotalMiB, i.ComputeMilli, i.Shared))
		}
	}
	want := []string{
		"NVIDIA A100-SXM4-40GB minor 4, 40960 MiB, MIG mode true",
		"MIG-00000000 1g.5gb+me gi13/ci0 minor 4 4864 MiB 142‰ shared=false",
		"MIG-22222222 2g.10gb gi3/ci0 minor 4 9856 MiB 285‰ shared=false",
		"MIG-33333333 1c.3g.20gb gi1/ci0 minor 4 19968 MiB 142‰ shared=true",
		"MIG-44444444 2c.3g.20gb gi1/ci1 minor 4 19968 MiB 285‰ shared=true",
		"Tesla T4 minor 5, 15360 MiB, MIG mode false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one := gpus[0].Instances[1].UUID
	if err := lib.Probe(one); err != nil {
		t.Error(err)
	}
	if p, err := lib.Processes(one); err != nil || len(p) != 1 || p[0] != (Process{PID: 4711, UsedBytes: 100 << 20}) {
		t.Errorf("processes %+v, %v", p, err)
	}
	t.Setenv("STANDIN_DESTROYED", "2")
	if err := lib.Probe(one); err == nil {
		t.Error("an instance that is gone answers")
	}
	if again, err := lib.GPUs(); err != nil || len(again[0].Instances) != 3 {
		t.Errorf("%+v, %v", again, err)
	}
}
