// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cdispec

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// TestARuntimeCanInject writes a specification and lets the CDI library, as a
// runtime would, inject one device.
func TestARuntimeCanInject(t *testing.T) {
	dir := t.TempDir()
	devices := []Device{{UUID: "GPU-fef8089b-4820", Minor: 0}, {UUID: "GPU-11111111-4820", Minor: 1}}
	if err := Write(dir, "", devices); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, "", devices); err != nil {
		t.Fatalf("a restart cannot replace the file: %v", err)
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 1 || files[0].Name() != FileName {
		t.Errorf("the CDI directory holds %v", files)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	spec := &oci.Spec{}
	if _, err := cache.InjectDevices(spec, Name(Kind, "GPU-fef8089b-4820")); err != nil {
		t.Fatal(err)
	}
	if want := "FAIRSLICE_CDI_GPU_FEF8089B_4820=GPU-fef8089b-4820"; !slices.Contains(spec.Process.Env, want) {
		t.Errorf("environment %v lacks %s", spec.Process.Env, want)
	}
	if _, err := cache.InjectDevices(&oci.Spec{}, Name(Kind, "GPU-other")); err == nil {
		t.Error("an unknown device was injected")
	}
}

// TestDeviceNodes: the card's own node, and those control nodes that exist.
func TestDeviceNodes(t *testing.T) {
	dir, dev := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dev, "nvidiactl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, dev, []Device{{UUID: "GPU-a", Minor: 3}}); err != nil {
		t.Fatal(err)
	}
	spec, err := cdi.ReadSpec(filepath.Join(dir, FileName), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := spec.Devices[0].ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidia3" {
		t.Errorf("device nodes %v", n)
	}
	if n := spec.ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidiactl" {
		t.Errorf("control nodes %v", n)
	}
}
