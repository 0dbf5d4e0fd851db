// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStamps(t *testing.T) {
	const component = "k8s.io/component-base/version."
	tests := []struct {
		program, version, want string
	}{
		{Scheduler, "v1.37.2", "-s -w -X " + component + "gitVersion=v1.37.2 -X " + component + "gitMajor=1 -X " + component + "gitMinor=37 -X " + component + "gitTreeState=clean"},
		{Kwok, "v0.8.0", "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0"},
		{Etcd, "v3.7.3", "-s -w"},
	}
	for _, test := range tests {
		got, err := programs[test.program].ldflags(test.version)
		if err != nil || got != test.want {
			t.Errorf("ldflags of %s %s are %q (error %v), want %q", test.program, test.version, got, err, test.want)
		}
	}
	if _, err := programs[Scheduler].ldflags(""); err == nil || !strings.Contains(err.Error(), "k8s.io/kubernetes") {
		t.Errorf("ldflags without a version: error %v, want one that names the module", err)
	}
}

func TestOutputIsWhatGoBuildNames(t *testing.T) {
	for path, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":                          "server",
		"k8s.io/kubernetes/cmd/kubelet":                      "kubelet",
		"github.com/containerd/containerd/v2/cmd/containerd": "containerd",
	} {
		if got := output(path); got != want {
			t.Errorf("output of %s is %s, want %s", path, got, want)
		}
	}
}

// The nested modules must pin every program, and pin Kubernetes as its release
// does: each staging module at the version that belongs to it.
func TestPinsOfThisCheckout(t *testing.T) {
	root, err := Checkout()
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := versions(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range programs {
		if pinned[p.pins] == "" {
			t.Errorf("program %s: module %s is pinned nowhere", name, p.pins)
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, toolsModule, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	staging := "v0" + strings.TrimPrefix(pinned["k8s.io/kubernetes"], "v1")
	replaced := 0
	for line := range strings.Lines(string(raw)) {
		if _, after, ok := strings.Cut(line, " => k8s.io/"); ok {
			replaced++
			if !strings.HasSuffix(strings.TrimSpace(after), " "+staging) {
				t.Errorf("replacement %q, want version %s", strings.TrimSpace(line), staging)
			}
		}
	}
	if replaced != 33 {
		t.Errorf("%d staging modules are replaced, want the 33 of the release", replaced)
	}
}

func TestKeyFollowsThePins(t *testing.T) {
	root := t.TempDir()
	write := func(module, text string) {
		t.Helper()
		dir := filepath.Join(root, module)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"go.mod", "go.sum"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	keyOf := func() string {
		t.Helper()
		k, err := key(root)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write(toolsModule, "a")
	write(runtimeModule, "b")
	first := keyOf()
	if again := keyOf(); again != first {
		t.Errorf("key of the same pins is %s and %s", first, again)
	}
	write(runtimeModule, "c")
	if keyOf() == first {
		t.Error("key stays with other pins")
	}
}
