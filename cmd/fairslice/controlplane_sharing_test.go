// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

// TestSharingFlags reach the configuration, and what means nothing is refused in
// a sentence that names the flag.
func TestSharingFlags(t *testing.T) {
	for _, c := range []struct{ flag, refused string }{
		{"--usage-half-life=168h", ""},
		{"--usage-half-life=0", ""},
		{"--usage-half-life=-1s", "--usage-half-life is -1s; allowed are 0 to 8760h0m0s"},
		{"--usage-window=10s", "--usage-window is 10s; allowed are 1m to 8760h0m0s"},
		{"--usage-factor=-1", "--usage-factor is -1; allowed are 0 to 1000000"},
		{"--evictions-per-minute=-5", "--evictions-per-minute is -5; allowed are 0 to 1000000"},
		{"--queue-evictions-per-minute=2000000", "--queue-evictions-per-minute is 2000000; allowed are 0 to 1000000"},
		{"--preemption-delay=9000h", "--preemption-delay is 9000h0m0s; allowed are 0 to 8760h0m0s"},
		{"--eviction-backoff=-1m", "--eviction-backoff is -1m0s; allowed are 0 to 8760h0m0s"},
		{"--consolidate-every=1ms", "--consolidate-every is 1ms; allowed are 1s to 8760h0m0s, and 0 for never"},
		{"--consolidate-dry-run", "--consolidate-dry-run is set without --consolidate-every, which says how often"},
		{"--reclaim-min-runtime=-1m", "--reclaim-min-runtime is -1m0s; allowed are 0 to 8760h0m0s"},
	} {
		cmd := newControlPlaneCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		// Without certificates every other call ends right after the flags are
		// checked.
		cmd.SetArgs([]string{c.flag, "--listen=nowhere:nothing:0"})
		err := cmd.ExecuteContext(t.Context())
		if c.refused == "" {
			c.refused = "--tls-cert"
		}
		if err == nil || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s gives %v, want %q", c.flag, err, c.refused)
		}
	}
}

// TestSharingDefaults are those of a cluster in which nobody asked for any of it.
func TestSharingDefaults(t *testing.T) {
	f := newControlPlaneCommand().Flags()
	for flag, want := range map[string]string{
		"usage-half-life": "0s", "usage-window": (7 * 24 * time.Hour).String(), "usage-factor": "1000",
		"evictions-per-minute": "0", "queue-evictions-per-minute": "0", "preemption-delay": "0s", "eviction-backoff": "0s",
		"preempt-min-runtime": "0s", "reclaim-min-runtime": "0s", "consolidate-every": "0s", "consolidate-dry-run": "false",
	} {
		if got := f.Lookup(flag).DefValue; got != want {
			t.Errorf("--%s is %s by default, want %s", flag, got, want)
		}
	}
}
