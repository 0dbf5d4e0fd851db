// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
)

func config(t *testing.T) Config {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fairslice")
	write(t, program, "version 1")
	return Config{CDIDir: t.TempDir(), StateDir: t.TempDir(), Program: program, NVMLLibrary: "/lib/nvml.so", CgroupRoot: "/sys/fs/cgroup"}
}

var slice = enforce.Container{
	ID: enforce.ContainerID("r", []string{"a"}),
	Shares: []enforce.Share{
		{UUID: gpuB, Index: 1, MemoryMiB: 20480, ComputeMilli: 500}, {UUID: gpuA, Index: 0, MemoryMiB: 10240, ComputeMilli: 250},
	},
}

// inject does what a runtime does with the container's CDI devices.
func inject(t *testing.T, cfg Config, e enforce.Edits) (*oci.Spec, error) {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(cfg.CDIDir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	spec := &oci.Spec{}
	_, err = cache.InjectDevices(spec, e.CDIDevices...)
	return spec, err
}

// TestARuntimeRunsTheHook: a createRuntime hook with the container's limits, whose
// program exists on the host.
func TestARuntimeRunsTheHook(t *testing.T) {
	cfg := config(t)
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := l.Prepare(slice)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := inject(t, cfg, edits)
	if err != nil || spec.Hooks == nil || len(spec.Hooks.CreateRuntime) != 1 {
		t.Fatalf("hooks %+v, error %v", spec.Hooks, err)
	}
	h := spec.Hooks.CreateRuntime[0]
	want := []string{
		"fairslice-hook", "hook", "--cgroup-root=/sys/fs/cgroup", "--nvml-library=/lib/nvml.so",
		"--limit=" + gpuA + "=10737418240", "--limit=" + gpuB + "=21474836480",
	}
	if !slices.Equal(h.Args, want) || h.Timeout == nil || *h.Timeout != hookSeconds {
		t.Errorf("hook %+v, want %q", h, want)
	}
	if got, err := os.ReadFile(h.Path); err != nil || string(got) != "version 1" {
		t.Errorf("the hook's program: %q, %v", got, err)
	}
	if edits, err := l.Prepare(enforce.Container{ID: "w", Whole: true}); err != nil || len(edits.CDIDevices) > 0 {
		t.Errorf("whole GPUs: %+v, %v", edits, err)
	}
}

// TestRebootEmptiesTheCDIDirectory: the kubelet goes on with its old answer, so the
// device must be there again before the container starts.
func TestRebootEmptiesTheCDIDirectory(t *testing.T) {
	cfg := config(t)
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := l.Prepare(slice)
	if err != nil {
		t.Fatal(err)
	}
	cfg.CDIDir = t.TempDir()
	if _, err := inject(t, cfg, edits); err == nil {
		t.Fatal("a container was started without its limit")
	}
	write(t, cfg.Program, "version 2")
	if l, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	spec, err := inject(t, cfg, edits)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(spec.Hooks.CreateRuntime[0].Path); string(got) != "version 2" {
		t.Errorf("the hook's program after an upgrade: %q", got)
	}
	file := filepath.Join(cfg.CDIDir, specName(slice.ID))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(slice.ID, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := inject(t, cfg, edits); err != nil {
		t.Error("after Start:", err)
	}
	if err := l.Start("another", 0); err != nil {
		t.Error("a container without a limit:", err)
	}
}

func TestKeep(t *testing.T) {
	cfg := config(t)
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := l.Prepare(slice)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(cfg.StateDir, "cgroup", slice.ID+".json"), past, past); err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(map[string]bool{slice.ID: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := inject(t, cfg, edits); err != nil {
		t.Error("a container in use lost its device:", err)
	}
	if err := l.Keep(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := inject(t, cfg, edits); err == nil {
		t.Error("an ended container keeps its device")
	}
}
