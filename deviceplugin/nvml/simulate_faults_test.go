// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaultsOfAFile: cards can be lost and found from outside.
func TestFaultsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.yaml")
	s := migMachine(t, "- {base: a100-sxm4-40gb}\n- {base: a100-sxm4-40gb, mig: {1g.5gb: 1}}\nfaultsFile: "+file)
	all, err := s.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	uuids := []string{all[0].UUID, all[1].UUID, all[1].Instances[0].UUID}
	for _, step := range []struct{ content, want string }{
		{"", "true true true"},
		{"[0]", "false true true"},
		{"[1]", "true false false"},
		{"[]", "true true true"},
		{"[2]", "false false false"},
		{"nonsense", "false false false"},
	} {
		if step.content != "" {
			if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, uuid := range uuids {
			got = append(got, fmt.Sprint(s.Probe(uuid) == nil))
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("with %q they answer %v, want %s", step.content, got, step.want)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add([]byte("[0, 1]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		lost, err := ParseFaults(raw, 2)
		for _, gpu := range lost {
			if err != nil || gpu < 0 || gpu > 1 {
				t.Errorf("%q gives %v, %v", raw, lost, err)
			}
		}
	})
}
