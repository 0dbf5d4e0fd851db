// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cdispec

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Minors are the minor numbers of the driver's capabilities, by name, such as
// "gpu0/gi1/access" and "gpu0/gi1/ci0/access": whoever may open
// /dev/nvidia-caps/nvidia-cap<minor> may use the instance (NVIDIA, MIG User Guide,
// "Device Nodes and Capabilities").
type Minors map[string]int

// maxMinorsBytes bounds what is read; the driver lists a few thousand short lines.
const maxMinorsBytes = 1 << 20

// ReadMinors reads the driver's list, normally
// /proc/driver/nvidia-caps/mig-minors.
func ReadMinors(file string) (Minors, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading which device nodes MIG instances need: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxMinorsBytes))
	if err != nil {
		return nil, fmt.Errorf("reading which device nodes MIG instances need: %w", err)
	}
	m, err := ParseMinors(string(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// ParseMinors reads lines of a capability's name and its minor number.
func ParseMinors(text string) (Minors, error) {
	out := Minors{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		minor, err := -1, error(nil)
		if len(f) == 2 {
			minor, err = strconv.Atoi(f[1])
		}
		if err != nil || minor < 0 {
			return nil, fmt.Errorf("line %q must be a name and a minor number", strings.TrimSpace(line))
		}
		out[f[0]] = minor
	}
	return out, nil
}

// Of lists the capabilities that an instance needs, by the minor number of its
// card and the driver's numbers of its GPU instance and its compute instance.
func (m Minors) Of(card, gpuInstance, computeInstance int) ([]int, error) {
	of := fmt.Sprintf("gpu%d/gi%d/", card, gpuInstance)
	var out []int
	for _, name := range []string{of + "access", fmt.Sprintf("%sci%d/access", of, computeInstance)} {
		minor, listed := m[name]
		if !listed {
			return nil, fmt.Errorf("the driver lists no capability %s", name)
		}
		out = append(out, minor)
	}
	return out, nil
}
