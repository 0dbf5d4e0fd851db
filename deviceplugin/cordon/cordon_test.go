// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cordon

import (
	"slices"
	"strings"
	"testing"
)

var node = []GPU{{UUID: "GPU-aaaa"}, {UUID: "GPU-bbbb", Index: 1}, {UUID: "GPU-cccc", Index: 3}}

// TestInstances: a card's name stands for all of its MIG instances.
func TestInstances(t *testing.T) {
	gpus := []GPU{{UUID: "MIG-1", Card: "GPU-aaaa"}, {UUID: "MIG-2", Card: "GPU-aaaa"}, {UUID: "MIG-3", Card: "GPU-bbbb", Index: 1}}
	for value, want := range map[string]string{
		"MIG-2": "MIG-2", "GPU-AAAA": "MIG-1 MIG-2", "0": "MIG-1 MIG-2", "1,mig-1": "MIG-1 MIG-3", "MIG-4": "",
	} {
		got, err := Parse(value, "n1", gpus)
		if strings.Join(got, " ") != want || (err != nil) != (want == "") {
			t.Errorf("%q: %v, %v; want %s", value, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "by UUID or index: 0 (GPU-aaaa), 1 (GPU-bbbb)") {
			t.Error(err)
		}
	}
}

func TestParse(t *testing.T) {
	for value, want := range map[string]struct {
		gpus    []string
		unknown string
	}{
		"":                       {nil, ""},
		" , ,":                   {nil, ""},
		"1":                      {[]string{"GPU-bbbb"}, ""},
		"GPU-cccc, 0":            {[]string{"GPU-aaaa", "GPU-cccc"}, ""},
		"gpu-CCCC,3,3":           {[]string{"GPU-cccc"}, ""},
		"2":                      {nil, `names "2", must name`},
		"01":                     {nil, `names "01", must name`},
		"-1":                     {nil, `names "-1"`},
		"GPU-bbb":                {nil, `names "GPU-bbb"`},
		"x,1,y,x":                {[]string{"GPU-bbbb"}, `names "x", "y", must name GPUs that the device plugin serves, by UUID or index: 0 (GPU-aaaa), 1 (GPU-bbbb), 3 (GPU-cccc)`},
		"a,b,c,d,e,f":            {nil, `"a", "b", "c", "d" and more, must`},
		strings.Repeat("z", 999): {nil, strings.Repeat("z", 64) + `…", must`},
		"0;1":                    {nil, `names "0;1"`},
	} {
		got, err := Parse(value, "n1", node)
		if !slices.Equal(got, want.gpus) || (err != nil) != (want.unknown != "") || err != nil && !strings.Contains(err.Error(), want.unknown) {
			t.Errorf("%q: %v, %v\n  want %v, %s", value, got, err, want.gpus, want.unknown)
		}
	}
}

// FuzzParse: no value cordons a GPU twice or one that is not there, and adding an
// entry that names a GPU always cordons it.
func FuzzParse(f *testing.F) {
	f.Add("0,GPU-cccc,x")
	f.Fuzz(func(t *testing.T, value string) {
		got, err := Parse(value, "n1", node)
		for i, u := range got {
			if slices.Contains(got[:i], u) || !slices.ContainsFunc(node, func(g GPU) bool { return g.UUID == u }) {
				t.Fatalf("%q cordons %v", value, got)
			}
		}
		if err != nil && len(err.Error()) > 1024 {
			t.Fatalf("%d bytes of error", len(err.Error()))
		}
		more, _ := Parse(value+",GPU-bbbb", "n1", node)
		if !slices.Contains(more, "GPU-bbbb") {
			t.Fatalf("%q and GPU-bbbb cordon %v", value, more)
		}
	})
}
