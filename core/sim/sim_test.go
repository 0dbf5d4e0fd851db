// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/core/scenario"
)

// Transcripts: "run" takes a scenario in YAML and prints what happened and was
// decided, cycle by cycle, then the final states and reasons.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "rapid") {
			return // what a failed property test left there
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			data, err := yaml.YAMLToJSONStrict([]byte(d.Input))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			read, err := scenario.Read(data)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			report, err := Run(read[0])
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return transcript(report)
		})
	})
}

func transcript(report *Report) string {
	var b strings.Builder
	for i, r := range report.Rounds {
		when := fmt.Sprintf("round %d", i+1)
		if r.AtSeconds != "" {
			when = string(r.AtSeconds) + " s"
		}
		for _, line := range r.Happened {
			fmt.Fprintf(&b, "%s: %s\n", when, line)
		}
		for _, d := range r.Decisions {
			fmt.Fprintf(&b, "%s: %s %s", when, d.Kind, d.Pod)
			if d.Node != "" {
				fmt.Fprintf(&b, " on %s %s", d.Node, strings.Join(d.GPUs, ","))
			}
			if len(d.Awaits) > 0 {
				fmt.Fprintf(&b, " awaits %s", strings.Join(d.Awaits, ","))
			}
			if d.For != "" {
				fmt.Fprintf(&b, " by %s for %s", d.Rule, d.For)
			}
			b.WriteString("\n")
		}
		for _, v := range r.Violations {
			fmt.Fprintf(&b, "%s: BROKEN: %s\n", when, v)
		}
	}
	last := report.Rounds[len(report.Rounds)-1]
	for _, name := range sortedKeys(last.Pods) {
		p := last.Pods[name]
		fmt.Fprintf(&b, "%s %s %s %s\n", name, p.State, p.Node, strings.Join(p.GPUs, ","))
	}
	for _, w := range last.Waiting {
		fmt.Fprintf(&b, "%s waits, number %d in %s: %s\n", w.Workload, w.Position, w.Queue, w.Code)
	}
	for _, d := range report.Differences {
		fmt.Fprintf(&b, "differs: %s\n", d.Text)
	}
	return b.String()
}

func TestEqualScenariosGiveByteEqualReports(t *testing.T) {
	const text = `{"nodes": [{"name": "n", "gpus": 4}], "queues": [{"name": "q", "quota": {"gpu": 4}}],
	"workloads": [{"name": "a", "queue": "q", "replicas": 3, "minMember": 1, "request": {"gpu": 0.5}},
	              {"name": "b", "queue": "q", "replicas": 2, "request": {"gpu": 2}}]}`
	var first string
	for range 5 {
		read, err := scenario.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(read[0])
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(out)
		}
		if string(out) != first {
			t.Fatalf("reports differ:\n%s\n%s", first, out)
		}
	}
}
