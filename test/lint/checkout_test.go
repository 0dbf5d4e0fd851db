// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/fairslice/fairslice"

// root is the top of the checkout, relative to this package.
const root = "../.."

// source is one parsed Go file.
type source struct {
	path string // relative to the root, with slashes
	file *ast.File
	raw  []byte
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) generated() bool { return ast.IsGenerated(s.file) }

var fileSet = token.NewFileSet()

// goFiles parses the Go files of the main module.
func goFiles(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".go") || inNestedModule(path) {
			continue
		}
		raw := read(t, path)
		file, err := parser.ParseFile(fileSet, path, raw, parser.ParseComments)
		if err != nil {
			t.Errorf("%s does not parse: %v", path, err)
			continue
		}
		out = append(out, source{path: path, file: file, raw: raw})
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files, this cannot be the checkout", len(out))
	}
	return out
}

// inNestedModule reports whether another go.mod than the root's governs path.
func inNestedModule(path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// files lists what git tracks or would track: the ignored is nobody's text.
func files(t *testing.T) []string {
	t.Helper()
	out := run(t, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var list []string
	for name := range strings.SplitSeq(strings.Trim(out, "\x00"), "\x00") {
		// A file may be deleted and not yet committed.
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// run executes a command in the root and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}
