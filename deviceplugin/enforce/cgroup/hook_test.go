// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	gpuA = "GPU-fef8089b-4820-abfc-e83e-94318197576e"
	gpuB = "GPU-11111111-4820-abfc-e83e-94318197576e"
)

// nvml and oldNVML are stand-ins for the driver's library.
var nvml, oldNVML string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "cgroup")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		nvml, oldNVML = filepath.Join(dir, "new.so"), filepath.Join(dir, "old.so")
		for _, args := range [][]string{{"-o", nvml}, {"-DOLD", "-o", oldNVML}} {
			args = append([]string{"-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "testdata/nvml.c"}, args...)
			if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "gcc: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// host has a process 7 in the control group /kubepods/pod1/c1.
func host(t *testing.T) Hook {
	t.Helper()
	h := Hook{
		Proc: t.TempDir(), CgroupRoot: t.TempDir(),
		Limits: []Limit{{gpuA, 10 << 30}, {gpuB, 5<<30 + 1}},
		Open:   func() (Driver, error) { return Open(nvml) },
	}
	for _, dir := range []string{filepath.Join(h.Proc, "7"), filepath.Join(h.CgroupRoot, "kubepods/pod1/c1")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(h.Proc, "7", "cgroup"), "0::/kubepods/pod1/c1\n")
	write(t, filepath.Join(h.CgroupRoot, "cgroup.controllers"), "dmem\n")
	return h
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const state = `{"ociVersion":"1.2.0","id":"c1","status":"creating","pid":7,"bundle":"/b","annotations":{"x":"y"}}`

// TestHookLimitsTheLeaf: each GPU's hard limit to the byte, the soft limit 0, on the
// container's own control group and on none above it.
func TestHookLimitsTheLeaf(t *testing.T) {
	h := host(t)
	if err := h.Run(strings.NewReader(state)); err != nil {
		t.Fatal(err)
	}
	for gpu, want := range map[string]string{gpuA: "0 10737418240", gpuB: "0 5368709121"} {
		got, err := os.ReadFile(filepath.Join(h.CgroupRoot, "kubepods/pod1/c1/limit."+gpu))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", gpu, got, err, want)
		}
	}
	above, _ := filepath.Glob(filepath.Join(h.CgroupRoot, "kubepods/limit.*"))
	pod, _ := filepath.Glob(filepath.Join(h.CgroupRoot, "kubepods/pod1/limit.*"))
	if len(above)+len(pod) > 0 {
		t.Errorf("limits above the leaf: %v %v", above, pod)
	}
}

// TestHookFailsClosed: whatever goes wrong is an error with one sentence, and the
// runtime does not start the container.
func TestHookFailsClosed(t *testing.T) {
	for _, tc := range []struct {
		name, state, refusal string
		spoil                func(*testing.T, *Hook)
	}{
		{name: "no state", state: "", refusal: "OCI state"},
		{name: "garbage", state: "{", refusal: "OCI state"},
		{name: "no pid", state: `{"id":"c1"}`, refusal: "pid 0, must be above 0"},
		{name: "process gone", state: `{"id":"c1","pid":8}`, refusal: "finding the control group of container c1"},
		{name: "no limit", state: state, refusal: "no limit is given", spoil: func(_ *testing.T, h *Hook) { h.Limits = nil }},
		{name: "version 1", state: state, refusal: "no control group of version 2", spoil: func(t *testing.T, h *Hook) {
			write(t, filepath.Join(h.Proc, "7", "cgroup"), "4:memory:/kubepods/pod1/c1\n")
		}},
		{name: "no driver", state: state, refusal: "loading /nowhere.so", spoil: func(_ *testing.T, h *Hook) {
			h.Open = func() (Driver, error) { return Open("/nowhere.so") }
		}},
		{name: "old driver", state: state, refusal: "older than R615", spoil: func(_ *testing.T, h *Hook) {
			h.Open = func() (Driver, error) { return Open(oldNVML) }
		}},
		{name: "unknown GPU", state: state, refusal: "NVML error 6: Not Found", spoil: func(_ *testing.T, h *Hook) {
			h.Limits = append(h.Limits, Limit{"GPU-0", 1})
		}},
		{name: "no control group there", state: state, refusal: "NVML error 6: Not Found", spoil: func(t *testing.T, h *Hook) {
			h.CgroupRoot = t.TempDir()
		}},
		{name: "not root", state: state, refusal: "NVML error 4: Insufficient Permissions", spoil: func(t *testing.T, _ *Hook) {
			t.Setenv("STANDIN_RESULT", "4")
		}},
		{name: "not supported", state: state, refusal: ErrUnsupported.Error(), spoil: func(t *testing.T, _ *Hook) {
			t.Setenv("STANDIN_RESULT", "3")
		}},
		{name: "forgetful driver", state: state, refusal: "did not keep it", spoil: func(t *testing.T, _ *Hook) {
			t.Setenv("STANDIN_FORGET", "1")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host(t)
			if tc.spoil != nil {
				tc.spoil(t, &h)
			}
			if err := h.Run(strings.NewReader(tc.state)); err == nil || !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("error %v, want %q", err, tc.refusal)
			}
		})
	}
}

func FuzzHookState(f *testing.F) {
	f.Add([]byte(state))
	f.Add([]byte(`{"pid":1e9}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := Hook{Proc: "/nonexistent", CgroupRoot: "/nonexistent", Limits: []Limit{{gpuA, 1}}, Open: func() (Driver, error) {
			t.Error("the driver was opened for a process that does not exist")
			return nil, errors.New("unexpected")
		}}
		if h.Run(strings.NewReader(string(raw))) == nil {
			t.Errorf("state %q was accepted", raw)
		}
	})
}

// TestProbe: what the node can do is tried, not guessed from a version.
func TestProbe(t *testing.T) {
	for _, tc := range []struct {
		name, result string
		spoil        func(*testing.T, *Hook)
		unsupported  bool
		refusal      string
	}{
		{name: "good"},
		{name: "not supported", result: "3", unsupported: true, refusal: "Not Supported"},
		{name: "not allowed", result: "4", refusal: "Insufficient Permissions"},
		{name: "version 1", unsupported: true, refusal: "no control group hierarchy of version 2", spoil: func(t *testing.T, h *Hook) {
			h.CgroupRoot = t.TempDir()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host(t)
			if tc.spoil != nil {
				tc.spoil(t, &h)
			}
			if tc.result != "" {
				t.Setenv("STANDIN_RESULT", tc.result)
			}
			d, err := Open(nvml)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			err = Probe(cleaning{d}, h.CgroupRoot, []string{gpuA, gpuB})
			if (err == nil) != (tc.refusal == "") || errors.Is(err, ErrUnsupported) != tc.unsupported || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("Probe: %v, want refusal %q", err, tc.refusal)
			}
			if left, _ := filepath.Glob(filepath.Join(h.CgroupRoot, "fairslice-probe-*")); len(left) > 0 {
				t.Errorf("the probe left %v", left)
			}
		})
	}
	if _, err := Open(oldNVML); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an old driver: %v", err)
	}
}

// cleaning removes the stand-in's files after they were read: unlike a control
// group's, they would keep the directory from being removed.
type cleaning struct{ Driver }

func (c cleaning) Limit(uuid, group string) (uint64, error) {
	n, err := c.Driver.Limit(uuid, group)
	_ = os.Remove(filepath.Join(group, "limit."+uuid))
	return n, err
}
