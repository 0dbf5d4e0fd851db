// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const yamlScenario = `
nodes: [{name: n1, gpus: 1}]
queues: [{name: q, quota: {gpu: 1}}]
workloads: [{name: w, queue: q, replicas: 1, request: {gpu: 1}}]
---
id: second
nodes: [{name: n1, gpus: 1}]
expect: {binds: 0}
`

// simulate runs the command with standard input and returns what it prints.
func simulate(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	root := newRootCommand()
	var out bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetArgs(append([]string{"simulate"}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestSimulateReadsYAMLDocumentsAndPrintsJSON(t *testing.T) {
	out, err := simulate(t, yamlScenario, "-f", "-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(out))
	var first struct {
		Rounds []struct {
			Binds int
			Pods  map[string]struct {
				State, Node  string
				GPUs         []string
				AcceptedGPUs float64
			}
		}
	}
	if err := dec.Decode(&first); err != nil {
		t.Fatal(err)
	}
	if p := first.Rounds[0].Pods["w-0"]; first.Rounds[0].Binds != 1 || p.State != "Binding" || p.Node != "n1" || p.AcceptedGPUs != 1 || len(p.GPUs) != 1 {
		t.Errorf("got %+v", first.Rounds[0])
	}
	if !dec.More() {
		t.Error("the second document has no report")
	}
}

func TestSimulateTablesNameDecisionsAndStates(t *testing.T) {
	out, err := simulate(t, yamlScenario, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round 1  bind", "w-0  Running  n1", "Scenario second"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestSimulateExitCodesAndMessages(t *testing.T) {
	const unmet = `{"id": "x", "nodes": [{"name": "n", "gpus": 1}], "queues": [{"name": "q", "quota": {"gpu": 1}}],
		"workloads": [{"name": "w", "queue": "q", "replicas": 1}], "expect": {"workloads": {"w": {"state": "Pending"}}}}`
	for _, tc := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"nothing given", "", nil, 1, "nothing to simulate"},
		{"both given", "", []string{"-f", "x", "--trace", "y"}, 1, "exclude each other"},
		{"stray argument", "", []string{"x"}, 1, `unexpected argument "x"`},
		{"no such file", "", []string{"-f", "/no/such/file"}, 1, "no such file"},
		{"unknown output", "{}", []string{"-f", "-", "-o", "xml"}, 1, "allowed: table, json, yaml"},
		{"unknown field", "nodez: []", []string{"-f", "-"}, 1, "nodez: unknown field"},
		{"not YAML", "a: [", []string{"-f", "-"}, 1, "document 1 is not YAML"},
		{"expectation not met", unmet, []string{"-f", "-", "--check"}, exitDiffers, "pod w-0 is Running, want Pending"},
		{"expectation not checked", unmet, []string{"-f", "-"}, 0, ""},
		{"one file for a trace", "", []string{"--trace", "x"}, 1, "--trace takes two files"},
		{"unknown policy", "", []string{"--trace", "x", "y", "--policy", "z"}, 1, `--policy is "z"; allowed: fill, fgd, bestfit`},
		{"bad seeds", "", []string{"--trace", "x", "y", "--seeds", "5-1"}, 1, `--seeds is "5-1"`},
		{"bad arrive", "", []string{"--trace", "x", "y", "--arrive", "0"}, 1, "--arrive is 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := simulate(t, tc.stdin, tc.args...)
			code := 0
			var exit *exitError
			switch {
			case errors.As(err, &exit):
				code = exit.code
			case err != nil:
				code = 1
			}
			if code != tc.code || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("exit %d, %v; want %d, %q", code, err, tc.code, tc.want)
			}
		})
	}
}

func TestSimulateTracePrintsMedians(t *testing.T) {
	dir := t.TempDir()
	nodes, tasks := filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "tasks.csv")
	if err := os.WriteFile(nodes, []byte("sn,cpu_milli,memory_mib,gpu,model\nn,8000,8000,4,T4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tasks, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,100,1,500\nb,1000,100,1,1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := simulate(t, "", "--trace", nodes, tasks, "--seeds", "1,3-4", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		AllocatedPercentAt map[string]float64
		Seeds              []struct{ Seed int }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Seeds) != 3 || got.AllocatedPercentAt["130"] < 87.5 || got.AllocatedPercentAt["130"] > 100 {
		t.Errorf("got %+v", got)
	}
}
