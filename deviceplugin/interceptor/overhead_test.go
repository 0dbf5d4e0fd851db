// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"fmt"
	"strings"
	"testing"
)

// The targets, in nanoseconds above the stand-in, and the margin that a busy
// machine is given before a test fails.
const (
	allocTarget, launchTarget = 300.0, 50.0
	margin                    = 2
)

// measure runs the bench program with or without the library and returns
// nanoseconds by name.
func measure(t testing.TB, m *machine, under bool) map[string]float64 {
	t.Helper()
	c := m.command("bench")
	if !under {
		c.Env = append(c.Env, "LD_PRELOAD=")
	}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]float64{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		var name string
		var ns float64
		if _, err := fmt.Sscanf(line, "%s %f", &name, &ns); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		result[name] = ns
	}
	return result
}

// overhead is the difference of the least figures of several alternating runs.
func overhead(t testing.TB, runs int) map[string]float64 {
	m := newMachine(t)
	create(t, m, 1024*mib, 1000)
	least := [2]map[string]float64{{}, {}}
	for range runs {
		for side := range 2 {
			for name, ns := range measure(t, m, side == 1) {
				if old, ok := least[side][name]; !ok || ns < old {
					least[side][name] = ns
				}
			}
		}
	}
	result := map[string]float64{}
	for name, ns := range least[1] {
		result[name] = ns - least[0][name]
	}
	return result
}

func TestOverhead(t *testing.T) {
	for name, ns := range overhead(t, 4) {
		target := launchTarget
		if strings.HasPrefix(name, "alloc") {
			target = allocTarget
		}
		t.Logf("%s: %.1f ns above the stand-in, target %.0f", name, ns, target)
		if ns > target*margin {
			t.Errorf("%s costs %.1f ns, target is %.0f", name, ns, target)
		}
	}
}

// BenchmarkOverhead prints the figures of docs/interceptor.md.
func BenchmarkOverhead(b *testing.B) {
	for b.Loop() {
		for name, ns := range overhead(b, 3) {
			b.ReportMetric(ns, name+"-ns")
		}
	}
}
