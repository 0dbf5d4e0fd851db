// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

// TestGeneratedFilesAreCurrent runs the generator into an empty folder and
// compares. The Makefile's target generate passes the same arguments.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	tools, err := binaries.Ensure(t.Context(), os.Stderr, "controller-gen")
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	run(t, tools.Path("controller-gen"),
		"object:headerFile=build/license-header.go.txt", "crd:crdVersions=v1", "paths=./api/...",
		"output:object:dir="+fresh, "output:crd:dir="+fresh)
	made, err := os.ReadDir(fresh)
	if err != nil || len(made) < 4 {
		t.Fatalf("the generator made %d files, %v; want one of Go and three CRDs", len(made), err)
	}
	for _, entry := range made {
		committed := "manifests/crd/" + entry.Name()
		if filepath.Ext(entry.Name()) == ".go" {
			committed = "api/v1alpha1/" + entry.Name()
		}
		want, err := os.ReadFile(filepath.Join(fresh, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, committed), want) {
			t.Errorf("%s is not what the types say: run make generate", committed)
		}
	}
}
