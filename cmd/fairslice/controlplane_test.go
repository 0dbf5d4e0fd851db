// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestFlagsThatMeanNothing are refused in a sentence that names the flag.
func TestFlagsThatMeanNothing(t *testing.T) {
	for flag, want := range map[string]string{
		// Every resource of a queue would count as a profile of MIG instances.
		"--mig-resource-prefix=": `--mig-resource-prefix is ""; it must be a domain, a slash and the beginning of a name`,
		"--queue-label=":         `--queue-label is ""; it must be the name of a label`,
		"--lease-duration=10ms":  "--lease-duration must be 1s or more",
	} {
		cmd := newControlPlaneCommand()
		cmd.SetArgs([]string{flag, "--insecure-http", "--listen=nowhere:nothing:0"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", flag, err, want)
		}
	}
}
