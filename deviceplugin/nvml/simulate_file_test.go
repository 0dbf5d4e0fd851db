// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProcessesOfAFile: what uses a simulated card can be told from outside, changes
// with the file, and what cannot be read is not known.
func TestProcessesOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "processes.yaml")
	p, err := ParseProfile([]byte("processesFile: " + file + "\ngpus: [{count: 2, base: a100-pcie-40gb}]"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Simulate(p, "n1")
	if err != nil {
		t.Fatal(err)
	}
	gpus, err := s.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		content     string
		first, next []Process
		blind       bool
	}{
		{"", nil, nil, false},
		{"- {gpu: 0, pid: 7, usedMiB: 100}\n- {gpu: 1, pid: 8, unknown: true}", []Process{{PID: 7, UsedBytes: 100 << 20}}, []Process{{PID: 8, Unknown: true}}, false},
		{"- {gpu: 1, pid: 7, usedMiB: 1}", nil, []Process{{PID: 7, UsedBytes: 1 << 20}}, false},
		{"nonsense", nil, nil, true},
	} {
		if step.content != "" {
			if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range [][]Process{step.first, step.next} {
			got, err := s.Processes(gpus[i].UUID)
			if (err != nil) != step.blind || !slices.Equal(got, want) {
				t.Errorf("with %q card %d has %+v, error %v; want %+v, error %t", step.content, i, got, err, want, step.blind)
			}
		}
	}
}

func TestParseProcesses(t *testing.T) {
	for text, want := range map[string]string{
		"- {gpu: 2, pid: 1}":                    "process 0 has gpu 2, must be from 0 to 1",
		"- {gpu: -1, pid: 1}":                   "process 0 has gpu -1",
		"- {gpu: 0}":                            "process 0 has pid 0",
		"- {gpu: 0, pid: 1, usedMiB: 99999999}": "process 0 has usedMiB 99999999",
		"- {gpu: 0, pid: 1, memory: 5}":         "not the expected YAML",
		"5":                                     "not the expected YAML",
		strings.Repeat("- {gpu: 0, pid: 1}\n", 4097): "the list has 4097 processes",
	} {
		if _, err := ParseProcesses([]byte(text), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func FuzzParseProcesses(f *testing.F) {
	f.Add([]byte("- {gpu: 0, pid: 7, usedMiB: 100}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ParseProcesses(raw, 2)
		if err == nil && slices.ContainsFunc(list, func(p FileProcess) bool { return p.GPU < 0 || p.GPU > 1 || p.PID == 0 }) {
			t.Errorf("%q gives %+v", raw, list)
		}
	})
}
