// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/scenario"
	"github.com/fairslice/fairslice/core/sim"
)

func folder() string {
	if dir := os.Getenv("FAIRSLICE_CONFORMANCE_DIR"); dir != "" {
		return filepath.Join(dir, "scenarios")
	}
	return "."
}

// tally counts one area.
type tally struct{ right, ties, known, all int }

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder(), "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s: %v", folder(), err)
	}
	counts := map[string]*tally{}
	for _, file := range files {
		area := filepath.Base(filepath.Dir(file))
		if counts[area] == nil {
			counts[area] = &tally{}
		}
		t.Run(area+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			runFile(t, file, counts[area])
		})
	}
	logTally(t, counts)
}

func runFile(t *testing.T, file string, count *tally) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := scenario.Read(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, s := range read {
		count.all++
		report, err := sim.Run(s)
		if err != nil {
			t.Errorf("%s: %v", s.ID, err)
			continue
		}
		judge(t, s, report, count)
	}
}

func judge(t *testing.T, s *scenario.Scenario, report *sim.Report, count *tally) {
	var hard, ties []string
	for _, d := range report.Differences {
		if d.Tie {
			ties = append(ties, d.Text)
			continue
		}
		hard = append(hard, d.Text)
	}
	for i, r := range report.Rounds {
		for _, v := range r.Violations {
			t.Errorf("%s: round %d breaks an invariant: %s", s.ID, i+1, v)
		}
	}
	reason, listed := known[s.ID]
	switch {
	case len(hard) > 0 && listed:
		count.known++
		t.Logf("%s differs on purpose: %s", s.ID, reason)
	case len(hard) > 0:
		t.Errorf("%s (%s):\n\t%s", s.ID, s.Summary, strings.Join(hard, "\n\t"))
	case listed:
		t.Errorf("%s is listed as a known difference, and comes out right", s.ID)
	case len(ties) > 0:
		count.ties++
		count.right++
	default:
		count.right++
	}
}

func logTally(t *testing.T, counts map[string]*tally) {
	var areas []string
	for area := range counts {
		areas = append(areas, area)
	}
	slices.Sort(areas)
	var all tally
	var b strings.Builder
	for _, area := range areas {
		c := counts[area]
		fmt.Fprintf(&b, "%-22s %4d of %4d right, %d of them but for ties, %d differ on purpose\n", area, c.right, c.all, c.ties, c.known)
		all.right, all.ties, all.known, all.all = all.right+c.right, all.ties+c.ties, all.known+c.known, all.all+c.all
	}
	fmt.Fprintf(&b, "%-22s %4d of %4d right (%.1f %%), %d of them but for ties, %d differ on purpose\n", "all", all.right, all.all,
		100*float64(all.right)/float64(max(all.all, 1)), all.ties, all.known)
	t.Logf("\n%s", b.String())
	if all.right*100 < all.all*97 {
		t.Errorf("%d of %d scenarios are right; at least 97 %% must be", all.right, all.all)
	}
}
