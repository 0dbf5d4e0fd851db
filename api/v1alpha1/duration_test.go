// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// What the schemas accept as a duration, Go must be able to parse: one stored
// object that a client cannot decode makes every list of its kind unreadable.
func TestEveryAcceptedDurationParses(t *testing.T) {
	patterns := map[string]bool{}
	inside := regexp.MustCompile(`self\.matches\('(\^\(0\|[^']*)'\)`)
	for _, crd := range []string{"queues", "podgroups"} {
		raw, err := os.ReadFile("../../manifests/crd/fairslice.io_" + crd + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		// Through JSON, so that folded lines are joined.
		flat, err := yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(`\u0026`, "&", `\\`, `\`).Replace(string(flat))
		for _, m := range inside.FindAllStringSubmatch(text, -1) {
			patterns[m[1]] = true
		}
	}
	if len(patterns) != 2 {
		t.Fatalf("found %d patterns of durations, want one with and one without a sign: %v", len(patterns), patterns)
	}
	for pattern := range patterns {
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(pattern).Filter(func(s string) bool { return s != "" && s != "-" && len(s) <= 40 }).Draw(t, "duration")
			if _, err := time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
		})
	}
}
