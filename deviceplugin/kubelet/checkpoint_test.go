// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A checkpoint as kubelet 1.37 writes it.
const sample = `{"Data":{"PodDeviceEntries":[
 {"PodUID":"u1","ContainerName":"init","ResourceName":"fairslice.io/gpu-slice","DeviceIDs":{"-1":["aa-1","aa-0"]},"AllocResp":"CgA="},
 {"PodUID":"u1","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["aa"],"1":["aa","bb"]},"AllocResp":null}],
 "RegisteredDevices":{"nvidia.com/gpu":["aa","bb"]}},"Checksum":3421790932}`

func TestReadCheckpoint(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadCheckpoint(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: err = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, CheckpointFile), []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := State{
		Held: []Held{
			{PodUID: "u1", Container: "init", Resource: "fairslice.io/gpu-slice", IDs: []string{"aa-0", "aa-1"}},
			{PodUID: "u1", Container: "main", Resource: "nvidia.com/gpu", IDs: []string{"aa", "bb"}},
		},
		Devices: map[string][]string{"nvidia.com/gpu": {"aa", "bb"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestBadCheckpoints(t *testing.T) {
	for _, bad := range []string{"", "[]", `{"Data":{"PodDeviceEntries":[{}]}}`, `{"Data":{"PodDeviceEntries":[{"PodUID":7}]}}`} {
		if s, err := ParseCheckpoint([]byte(bad)); err == nil {
			t.Errorf("%q was accepted: %+v", bad, s)
		}
	}
}

// TestMergeNUMA: one resource comes in an entry for each NUMA node.
func TestMergeNUMA(t *testing.T) {
	got := merge([]*podresources.ContainerDevices{
		{ResourceName: "r", DeviceIds: []string{"b"}}, {ResourceName: "r", DeviceIds: []string{"a", "b"}}, {ResourceName: "s", DeviceIds: []string{"c"}},
	})
	if diff := cmp.Diff(map[string][]string{"r": {"a", "b"}, "s": {"c"}}, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"Data":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseCheckpoint(raw)
		if err != nil {
			return
		}
		for _, h := range s.Held {
			if h.PodUID == "" {
				t.Fatal("an entry without an owner got through")
			}
		}
	})
}
