// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const reportsPage = "docs/gpu-sharing-reports.md"

// report is a row of the page.
type report struct {
	number string
	tests  []testName
}

// testName is "<file>: <function>[/<subtest>]".
type testName struct{ file, function, sub string }

var (
	reportRow  = regexp.MustCompile(`(?m)^\| (R?\d+) \|.*$`)
	reportTest = regexp.MustCompile("`([^`: ]+_test\\.go): ((?:Test|Fuzz)\\w+)(?:/([^`]+))?`")
)

func reportsOf(page string) (out []report) {
	for _, row := range reportRow.FindAllStringSubmatch(page, -1) {
		r := report{number: row[1]}
		for _, m := range reportTest.FindAllStringSubmatch(row[0], -1) {
			r.tests = append(r.tests, testName{m[1], m[2], m[3]})
		}
		out = append(out, r)
	}
	return out
}

// TestReports: the page lists each of the 72 reports once, at least forty with a test,
// and every test that it names exists.
func TestReports(t *testing.T) {
	reports := reportsOf(string(read(t, reportsPage)))
	tree := testTree{sources: goFiles(t), files: files(t)}
	seen, covered := map[string]int{}, 0
	for _, r := range reports {
		seen[r.number]++
		if len(r.tests) > 0 && !strings.HasPrefix(r.number, "R") {
			covered++
		}
		for _, name := range r.tests {
			if problem := tree.lacks(name); problem != "" {
				t.Errorf("%s, row %s: %s", reportsPage, r.number, problem)
			}
		}
	}
	for i := range 72 {
		if n := strconv.Itoa(i + 1); seen[n] != 1 {
			t.Errorf("%s has %d rows for report %s, must have one", reportsPage, seen[n], n)
		}
	}
	if covered < 40 {
		t.Errorf("%s names tests for %d reports, must be at least 40", reportsPage, covered)
	}
	t.Logf("%d of 72 reports have a test", covered)
}

// testTree is where tests are looked for.
type testTree struct {
	sources []source
	files   []string
}

// lacks says what is missing of a test: its file, its function, or the subtest, which
// is a string of the package's tests or a file below its testdata.
func (tree testTree) lacks(name testName) string {
	found, literals := false, map[string]bool{}
	for _, s := range tree.sources {
		if path.Dir(s.path) != path.Dir(name.file) || !s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				literals[text] = true
			}
			return true
		})
		if s.path == name.file {
			found = slices.ContainsFunc(s.file.Decls, func(d ast.Decl) bool {
				f, ok := d.(*ast.FuncDecl)
				return ok && f.Recv == nil && f.Name.Name == name.function
			})
		}
	}
	if !found {
		return fmt.Sprintf("%s has no %s", name.file, name.function)
	}
	data := path.Join(path.Dir(name.file), "testdata") + "/"
	isData := func(file string) bool { return strings.HasPrefix(file, data) && path.Base(file) == name.sub }
	if name.sub == "" || literals[name.sub] || slices.ContainsFunc(tree.files, isData) {
		return ""
	}
	return fmt.Sprintf("%s of %s has no subtest %q", name.function, name.file, name.sub)
}

// TestReportsAreChecked: what the page's test looks for, and what it finds.
func TestReportsAreChecked(t *testing.T) {
	page := "| # | Report |\n|---|---|\n| 1 | a | `p/a_test.go: TestA`, `p/a_test.go: TestA/one, two` |\n| R70 | b | none |\n"
	reports := reportsOf(page)
	want := []report{{"1", []testName{{"p/a_test.go", "TestA", ""}, {"p/a_test.go", "TestA", "one, two"}}}, {"R70", nil}}
	if fmt.Sprint(reports) != fmt.Sprint(want) {
		t.Fatalf("read %v, want %v", reports, want)
	}
	tree := testTree{
		sources: []source{parsed(t, "p/a_test.go", "package p\nfunc TestA() { run(\"one, two\") }\nfunc (x) TestB() {}")},
		files:   []string{"p/testdata/x/plain.txt", "q/testdata/other.txt"},
	}
	for name, missing := range map[testName]string{
		{"p/a_test.go", "TestA", ""}:          "",
		{"p/a_test.go", "TestA", "one, two"}:  "",
		{"p/a_test.go", "TestA", "plain.txt"}: "",
		{"p/a_test.go", "TestA", "other.txt"}: `TestA of p/a_test.go has no subtest "other.txt"`,
		{"p/a_test.go", "TestB", ""}:          "p/a_test.go has no TestB",
		{"p/b_test.go", "TestA", ""}:          "p/b_test.go has no TestA",
	} {
		if got := tree.lacks(name); got != missing {
			t.Errorf("of %v is said %q, want %q", name, got, missing)
		}
	}
}
