// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../manifests"

// TestExamplesAreAccepted: what the documentation shows, the API server takes.
func TestExamplesAreAccepted(t *testing.T) {
	out, err := server.cluster.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "-k", folder+"/examples")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "serverside-applied"); n < 12 {
		t.Errorf("%d examples were applied:\n%s", n, out)
	}
}

// TestApplyingAgainChangesNothing: an upgrade or a GitOps loop finds what it
// left, default values and policies included.
func TestApplyingAgainChangesNothing(t *testing.T) {
	out, err := server.cluster.Kubectl(t.Context(), "diff", "--server-side", "--force-conflicts", "-k", folder)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEveryFolderRenders finds folders and files that no kustomization names.
func TestEveryFolderRenders(t *testing.T) {
	named := map[string]bool{}
	var yamls []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		if entry.Name() != "kustomization.yaml" {
			yamls = append(yamls, path)
			return nil
		}
		text, err := os.ReadFile(path)
		if !strings.Contains(string(text), "kind: Component") { // TestComponentsAreAccepted renders those
			out, err := server.cluster.Kubectl(t.Context(), "kustomize", filepath.Dir(path))
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(out, "kind:") {
				t.Errorf("%s renders nothing", filepath.Dir(path))
			}
		}
		for line := range strings.Lines(string(text)) {
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" -[],\n", r) && r != '-' }) {
				named[filepath.Join(filepath.Dir(path), word)] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range yamls {
		if !named[path] {
			t.Errorf("%s is in no kustomization", path)
		}
	}
}
