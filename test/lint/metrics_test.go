// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMetricsPage: docs/metrics.md lists every metric that the code defines, once
// and as a row of a table, and no other.
func TestMetricsPage(t *testing.T) {
	defined := definedMetrics(goFiles(t))
	if len(defined) < 20 {
		t.Fatalf("found %d metrics in the code, these cannot be all", len(defined))
	}
	listed := listedMetrics(string(read(t, "docs/metrics.md")))
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		if listed[name] != 1 {
			t.Errorf("docs/metrics.md has %d rows for %s, which %s defines", listed[name], name, defined[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if defined[name] == "" {
			t.Errorf("docs/metrics.md lists %s, which no file defines", name)
		}
	}
}

// TestMetricsAreFound: the ways of defining a metric that the code uses.
func TestMetricsAreFound(t *testing.T) {
	got := definedMetrics([]source{parsed(t, "p/p.go", `package p
var a = prometheus.NewDesc("fairslice_a", "Help.", nil, nil)
var b = prometheus.NewCounter(prometheus.CounterOpts{Name: "fairslice_b_total", Help: "See fairslice_a."})
func desc(name, help string) *prometheus.Desc { return prometheus.NewDesc("fairslice_c_"+name, help, nil, nil) }
var c = desc("one", "One.")
`)})
	want := []string{"fairslice_a", "fairslice_b_total", "fairslice_c_one"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
	rows := listedMetrics("| `fairslice_a` | x |\n| `fairslice_a` | y |\nSee `fairslice_b`.\n")
	if rows["fairslice_a"] != 2 || len(rows) != 1 {
		t.Errorf("found the rows %v, want two of fairslice_a", rows)
	}
}

func parsed(t *testing.T, name, code string) source {
	t.Helper()
	file, err := parser.ParseFile(fileSet, name, code, 0)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: name, file: file}
}

var metricRow = regexp.MustCompile("(?m)^\\| `(fairslice_[a-z0-9_]+)` \\|")

func listedMetrics(page string) map[string]int {
	out := map[string]int{}
	for _, m := range metricRow.FindAllStringSubmatch(page, -1) {
		out[m[1]]++
	}
	return out
}

const metricPrefix = "fairslice_"

// definedMetrics finds the names of metrics, with the file that defines them:
// whole ones, and those that a function puts together from a prefix and its
// first argument.
func definedMetrics(sources []source) map[string]string {
	out := map[string]string{}
	prefixes := map[[2]string]string{} // by folder and function
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			f, isFunc := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					if prefix := stringOf(n.X); n.Op == token.ADD && isFunc && strings.HasPrefix(prefix, metricPrefix) {
						prefixes[[2]string{path.Dir(s.path), f.Name.Name}] = prefix
						return false
					}
				case *ast.BasicLit:
					if name := stringOf(n); metricName.MatchString(name) {
						out[name] = s.path
					}
				}
				return true
			})
		}
	}
	for _, s := range sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); ok {
				if prefix, made := prefixes[[2]string{path.Dir(s.path), f.Name}]; made {
					out[prefix+stringOf(call.Args[0])] = s.path
				}
			}
			return true
		})
	}
	return out
}

var metricName = regexp.MustCompile(`^fairslice_[a-z0-9_]+$`)

// stringOf is the value of a string literal, "" of anything else.
func stringOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return value
}
