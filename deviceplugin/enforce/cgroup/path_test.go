// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"path"
	"strings"
	"testing"
)

func TestLeaf(t *testing.T) {
	for _, tc := range []struct{ name, text, want, refusal string }{
		{"cgroupfs, containerd", "0::/kubepods/burstable/pod1b2c/0a1b\n", "/kubepods/burstable/pod1b2c/0a1b", ""},
		{"systemd, containerd", "0::/kubepods.slice/kubepods-pod1_b.slice/cri-containerd-0a1b.scope\n", "/kubepods.slice/kubepods-pod1_b.slice/cri-containerd-0a1b.scope", ""},
		{"systemd, CRI-O", "0::/kubepods.slice/kubepods-pod1_b.slice/crio-0a1b.scope", "/kubepods.slice/kubepods-pod1_b.slice/crio-0a1b.scope", ""},
		{"CRI-O's inner group", "0::/kubepods.slice/crio-0a1b.scope/container\n", "/kubepods.slice/crio-0a1b.scope/container", ""},
		{"hybrid", "12:memory:/kubepods/x\n1:name=systemd:/kubepods/x\n0::/kubepods/x\n", "/kubepods/x", ""},
		{"a colon in the name", "0::/a:b/c\n", "/a:b/c", ""},
		{"version 1 only", "12:memory:/kubepods/x\n", "", "in no control group of version 2"},
		{"empty", "", "", "in no control group of version 2"},
		{"the root", "0::/\n", "", "not one of its own"},
		{"another namespace", "0::/../../kubepods/x\n", "", "outside this program's namespace"},
		{"a way out", "0::/kubepods/../../x\n", "", "outside this program's namespace"},
		{"removed", "0::/kubepods/x (deleted)\n", "", "has been removed"},
		{"no path", "0::x\n", "", "not one of its own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := leaf(tc.text)
			if got != tc.want || (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("leaf = %q, %v; want %q, refusal %q", got, err, tc.want, tc.refusal)
			}
		})
	}
}

func FuzzLeaf(f *testing.F) {
	f.Add("0::/kubepods/x\n")
	f.Add("1:name=systemd:/\n0::/../x")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := leaf(text)
		if err == nil && (got == "/" || path.Clean("/root"+got) != "/root"+got) {
			t.Errorf("leaf(%q) = %q, which is not below the root", text, got)
		}
	})
}

func TestParseLimit(t *testing.T) {
	for _, bad := range []string{"", "GPU-a", "GPU-a=", "GPU-a=0", "GPU-a=-1", "GPU-a=1.5", "GPU-a=18446744073709551615", "0=5", "=5", "GPU-a b=5", "MIG-a=5"} {
		if l, err := ParseLimit(bad); err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("ParseLimit(%q) = %v, %v", bad, l, err)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add("GPU-fef8089b-4820-abfc-e83e-94318197576e=10737418240")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		if again, err := ParseLimit(l.String()); err != nil || again != l {
			t.Errorf("%q is %v, and then %v, %v", s, l, again, err)
		}
	})
}
