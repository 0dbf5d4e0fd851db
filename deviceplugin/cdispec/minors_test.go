// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cdispec

import (
	"slices"
	"strings"
	"testing"
)

// list has the form of the driver's, with numbers that follow from no rule.
const list = `config 1
monitor 2
gpu0/gi0/access 3
gpu0/gi0/ci0/access 4
gpu0/gi1/access 12
gpu0/gi1/ci0/access 13
gpu1/gi1/access 147
gpu1/gi1/ci0/access 148
gpu1/gi1/ci1/access 149
gpu1/gi11/access 500
`

func TestMinors(t *testing.T) {
	m, err := ParseMinors(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		card, gi, ci int
		want         []int
		err          string
	}{
		{0, 0, 0, []int{3, 4}, ""},
		{0, 1, 0, []int{12, 13}, ""},
		{1, 1, 1, []int{147, 149}, ""},
		{1, 11, 0, nil, "the driver lists no capability gpu1/gi11/ci0/access"},
		{2, 0, 0, nil, "the driver lists no capability gpu2/gi0/access"},
	} {
		got, err := m.Of(tc.card, tc.gi, tc.ci)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%+v: %v, %v", tc, got, err)
		}
	}
	for _, bad := range []string{"gpu0/gi0/access", "gpu0/gi0/access x", "a 1 2", "a -1", list + "x"} {
		if _, err := ParseMinors(bad); err == nil || !strings.Contains(err.Error(), "must be a name and a minor number") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ReadMinors(t.TempDir() + "/none"); err == nil || !strings.Contains(err.Error(), "which device nodes MIG instances need") {
		t.Errorf("error %v", err)
	}
}

func FuzzParseMinors(f *testing.F) {
	f.Add(list)
	f.Add("gpu0/gi0/access 99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMinors(text)
		for name, minor := range m {
			if err != nil || name == "" || minor < 0 || !strings.Contains(text, name) {
				t.Errorf("%q has %q %d, %v", text, name, minor, err)
			}
		}
	})
}
