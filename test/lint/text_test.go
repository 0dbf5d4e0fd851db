// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func folderExists(folder string) bool {
	found, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	return err == nil && len(found) > 0
}

// TestPackageComments: every package says what it is for.
func TestPackageComments(t *testing.T) {
	comments := map[string]string{} // folder and package name to comment
	for _, s := range goFiles(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		key := path.Dir(s.path) + " " + name
		if s.file.Doc != nil || comments[key] == "" {
			comments[key] += s.file.Doc.Text()
		}
	}
	for key, comment := range comments {
		folder, name, _ := strings.Cut(key, " ")
		want := "Package " + name
		if name == "main" {
			want = "Command " + path.Base(folder)
		}
		if !strings.HasPrefix(comment, want+" ") {
			t.Errorf("package %s in %s has no comment that begins with %q: say what it is for, what it never does, its units and invariants", name, folder, want)
		}
	}
}

var sources = []string{".go", ".c", ".h", ".sh"}

func TestLicenseHeaders(t *testing.T) {
	for _, f := range files(t) {
		if !slices.Contains(sources, path.Ext(f)) {
			continue
		}
		head, _, _ := bytes.Cut(read(t, f), []byte("\npackage "))
		head = head[:min(len(head), 400)]
		if !bytes.Contains(head, []byte("Copyright 2026 The Fairslice Authors")) || !bytes.Contains(head, []byte("SPDX-License-Identifier: Apache-2.0")) {
			t.Errorf("%s does not begin with the licence header of build/license-header.go.txt", f)
		}
	}
}

// Sizes, in lines. A file that fits no longer in a head is two files.
const (
	maxFile     = 500
	maxTestFile = 600
	maxFunction = 80
)

func TestSizes(t *testing.T) {
	for _, s := range goFiles(t) {
		if s.generated() {
			continue
		}
		limit := maxFile
		if s.isTest() {
			limit = maxTestFile
		}
		if lines := bytes.Count(s.raw, []byte("\n")); lines > limit {
			t.Errorf("%s has %d lines, at most %d are allowed", s.path, lines, limit)
		}
		if s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			lines := fileSet.Position(f.End()).Line - fileSet.Position(f.Pos()).Line + 1
			if lines > maxFunction {
				t.Errorf("%s: function %s has %d lines, at most %d are allowed", fileSet.Position(f.Pos()), f.Name.Name, lines, maxFunction)
			}
		}
	}
}

// TestNoTestIsSkipped: a test that does not run proves nothing and looks green.
// rapid's Skip is another thing: it discards one drawn case.
func TestNoTestIsSkipped(t *testing.T) {
	for _, s := range goFiles(t) {
		if !s.isTest() {
			continue
		}
		for _, call := range skips(s.file) {
			t.Errorf("%s: a test is skipped", fileSet.Position(call.Pos()))
		}
	}
}

// skips finds calls of Skip, Skipf and SkipNow on a parameter of the enclosing
// functions that is a *testing.T, B or F.
func skips(file *ast.File) []*ast.CallExpr {
	var found []*ast.CallExpr
	var walk func(n ast.Node, inTesting map[string]bool)
	walk = func(n ast.Node, inTesting map[string]bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					walk(n.Body, parameters(n.Type, inTesting))
				}
				return false
			case *ast.FuncLit:
				walk(n.Body, parameters(n.Type, inTesting))
				return false
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Skip") {
					if x, ok := sel.X.(*ast.Ident); ok && inTesting[x.Name] {
						found = append(found, n)
					}
				}
			}
			return true
		})
	}
	walk(file, nil)
	return found
}

// parameters adds a function's parameters to those of the functions around it:
// true for those of package testing.
func parameters(f *ast.FuncType, around map[string]bool) map[string]bool {
	all := map[string]bool{}
	maps.Copy(all, around)
	for _, field := range f.Params.List {
		is := false
		if star, ok := field.Type.(*ast.StarExpr); ok {
			if sel, ok := star.X.(*ast.SelectorExpr); ok {
				x, ok := sel.X.(*ast.Ident)
				is = ok && x.Name == "testing"
			}
		}
		for _, name := range field.Names {
			all[name.Name] = is
		}
	}
	return all
}

// TestNoPathsOfAMachine: a checkout is complete by itself.
func TestNoPathsOfAMachine(t *testing.T) {
	foreign := regexp.MustCompile(`(^|[^\w}])(/wo` + `rk/|/ro` + `ot/|/home/[a-z])|\.\./sha` + `red/`)
	for _, f := range files(t) {
		raw := read(t, f)
		if bytes.IndexByte(raw, 0) >= 0 {
			continue
		}
		for n, line := range strings.Split(string(raw), "\n") {
			if found := foreign.FindString(line); found != "" {
				t.Errorf("%s:%d names a path of somebody's machine: %s", f, n+1, found)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// TestLinksLeadSomewhere checks the relative links of all documents.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, f := range files(t) {
		if path.Ext(f) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(read(t, f)), -1) {
			target := path.Join(path.Dir(f), m[1])
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", f, m[1])
			}
		}
	}
}
