// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A scenario that uses most of the format.
const everything = `{
 "id": "all-001",
 "nodes": [{"name": "n1", "gpus": 2, "gpuMemoryMiB": 81920, "memoryMiB": 19073.486328125, "maxPods": 5,
   "labels": {"rack": "r1"}, "taints": [{"key": "k", "effect": "NoSchedule"}], "other": {"x/y": 3}},
  {"name": "n2", "migStrategy": "mixed", "gpuDevices": 1, "migProfiles": {"1g.5gb": 7}}],
 "queues": [{"name": "root", "quota": {"gpu": -1, "cpuMilli": -1}},
  {"name": "q", "parent": "root", "priority": 7, "quota": {"gpu": 1.5, "memoryMiB": 0.5, "gpu.H100": 1}, "limit": {"gpu": 0},
   "overQuotaWeight": {"gpu": 2}, "reclaimMinRuntimeSeconds": 1.5, "usage": {"gpu": 0.25}}],
 "topologies": [{"name": "t", "levels": ["zone", "rack"]}],
 "workloads": [{"name": "w1", "queue": "q", "preemptible": true, "minMember": 1, "request": {"gpu": 0.5},
   "pods": [{"name": "w1-0", "state": "Running", "node": "n1", "gpuGroups": ["a"]}]},
  {"name": "w2", "queue": "q", "replicas": 2, "subGroups": [{"name": "a", "minMember": 1, "parent": "s"}],
   "subGroupSets": [{"name": "s", "topology": {"name": "t", "required": "rack"}}], "request": {"gpuSlicePercent": 25, "gpuDevices": 2}}],
 "timeline": {"untilSeconds": 90, "events": [
   {"atSeconds": 1, "submit": {"name": "w3", "queue": "q", "replicas": 1, "durationSeconds": 5}},
   {"atSeconds": 2.5, "finish": "w3"}, {"atSeconds": 3, "nodeDown": "n1"}]},
 "expect": {"workloads": {"w3": {"state": "Succeeded"}}, "binds": 3}
}`

func TestWhatIsWrittenReadsBackEqual(t *testing.T) {
	read, err := Read([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	data, err := Write(read[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if diff := cmp.Diff(read, again); diff != "" {
		t.Error(diff)
	}
}

func TestUnitsAreExact(t *testing.T) {
	s, err := Read([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	if got := *s[0].Nodes[0].MemoryMiB; got != 20_000_000_000 {
		t.Errorf("memory is %d bytes, want 20·10⁹", got)
	}
	q := s[0].Queues[1]
	if q.Quota["gpu"] != 1500 || q.Quota["memory"] != 1<<19 || q.Quota["gpu.H100"] != 1000 {
		t.Errorf("quota is %v", q.Quota)
	}
	if *q.ReclaimMinRuntimeSeconds != 1_500_000_000 || q.Usage["gpu"] != 250_000 {
		t.Errorf("runtime %d, usage %d", *q.ReclaimMinRuntimeSeconds, q.Usage["gpu"])
	}
}

func TestSeveralDocumentsAreSeveralScenarios(t *testing.T) {
	s, err := Read([]byte(`{"id": "a"} {"id": "b"}`))
	if err != nil || len(s) != 2 || s[1].ID != "b" {
		t.Fatalf("%v, %v", s, err)
	}
}

func TestBadInputIsOneSentenceThatNamesThePlace(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{``, "no scenario in the input"},
		{`{"nodes": [`, "not JSON"},
		{"{\n \"id\": x}", "not JSON, line 2 column 8"},
		{`[]`, "must be an object"},
		{`{"id": 4}`, "id: is 4; must be a string"},
		{`{"id": "a", "id": "b"}`, "id: comes twice"},
		{`{"nodez": []}`, "nodez: unknown field; allowed: id, area"},
		{`{"ID": "a"}`, "ID: unknown field"},
		{`{"id": "a"} {"x": 1}`, "document 2: x: unknown field"},
		{`{"nodes": [{"name": "n", "gpu": 1}]}`, "nodes[0].gpu: unknown field; allowed: name, gpus"},
		{`{"nodes": [{"name": "n", "gpus": 1.5}]}`, "nodes[0].gpus: is 1.5; must be a whole number"},
		{`{"nodes": [{"name": "n", "gpus": -1}]}`, "nodes[0].gpus: is -1; allowed: 0 to 1024"},
		{`{"nodes": [{"gpus": 1}]}`, "nodes[0]: name is missing"},
		{`{"nodes": [{"name": "n"}, {"name": "n"}]}`, "nodes[1]: name n comes twice"},
		{`{"nodes": [{"name": "n", "migStrategy": "all"}]}`, `nodes[0].migStrategy: is "all"; allowed: single, mixed`},
		{`{"queues": [{"name": "q", "parent": "p"}]}`, "queue q names parent p, which does not exist"},
		{`{"queues": [{"name": "q", "parent": "p"}, {"name": "p", "parent": "q"}]}`, "queue q is below itself"},
		{`{"queues": [{"name": "q", "quota": {"gpu": -2}}]}`, "queues[0].quota: gpu: is -2; allowed: -1 (unlimited) or at least 0"},
		{`{"queues": [{"name": "q", "quota": {"gpu": 0.0001}}]}`, "queues[0].quota: gpu: 0.0001 is finer than 1/1000"},
		{`{"queues": [{"name": "q", "quota": {"cpu": 1}}]}`, "queues[0].quota: cpu: unknown resource"},
		{`{"workloads": [{"name": "w", "queue": "q", "request": {"gpu": 1.5}}]}`, "workloads[0].request.gpu: is above 1 and not whole"},
		{`{"workloads": [{"name": "w", "queue": "q", "request": {"gpu": 1, "mig": {"1g.5gb": 1}}}]}`, "exclude each other"},
		{`{"workloads": [{"name": "w", "queue": "q", "pods": [{"name": "p", "state": "Runing"}]}]}`, `workloads[0].pods[0].state: is "Runing"; allowed: Pending`},
		{`{"workloads": [{"name": "w", "queue": "q", "pods": [{"name": "p", "state": "Running", "node": "n"}]}]}`, "names node n, which does not exist"},
		{`{"rounds": {"mode": "single", "until": 1}}`, "rounds.actions: has 0; single mode takes exactly one"},
		{`{"rounds": {"mode": "full", "until": 0}}`, "rounds.until: is 0; allowed: 1 to 10000"},
		{`{"timeline": {"events": [{"atSeconds": 1}]}}`, "timeline.events[0]: has 0 changes"},
		{`{"timeline": {"events": [{"atSeconds": 1, "finish": "x"}]}}`, "timeline.events[0].finish: names x, which is neither"},
		{`{"expect": {"pods": {"p": {"state": "Running"}}}}`, "expect.pods: names p, which does not exist"},
	} {
		_, err := Read([]byte(tc.in))
		if err == nil {
			t.Errorf("%s: accepted, want %q", tc.in, tc.want)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %q\nwant %q", tc.in, err, tc.want)
		}
	}
}

// Whatever is read can be written, and reads back the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"id": "a"} {"id": "b"}`))
	f.Add([]byte(`{"queues": [{"name": "q", "quota": {"gpu": 1e3, "memoryMiB": -1}}], "observed": [1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := Read(data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without words")
			}
			return
		}
		for _, s := range read {
			out, err := Write(s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Read(out)
			if err != nil {
				t.Fatalf("written scenario is refused: %v\n%s", err, out)
			}
			s.Observed, again[0].Observed = nil, nil
			if diff := cmp.Diff(s, again[0], cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		}
	})
}
