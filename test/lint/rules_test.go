// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/parser"
	"strings"
	"testing"
)

// TestRulesFindBreaches: a rule that finds nothing looks like a rule that is
// kept. Each line is a made-up dependency and the chain that must be named.
func TestRulesFindBreaches(t *testing.T) {
	ours := func(imports ...string) *pkg {
		p := &pkg{Module: &struct{ Path string }{module}}
		for _, i := range imports {
			if strings.Contains(i, "/") && !strings.Contains(i, ".") {
				i = module + "/" + i
			}
			p.Imports = append(p.Imports, i)
		}
		return p
	}
	world := func(of map[string]*pkg) map[string]*pkg {
		all := map[string]*pkg{
			"fmt":                      {Standard: true, Imports: []string{"internal.x"}},
			"k8s.io/client-go/rest":    {Module: &struct{ Path string }{"k8s.io/client-go"}},
			"k8s.io/apimachinery/meta": {Module: &struct{ Path string }{"k8s.io/apimachinery"}},
		}
		for name, p := range of {
			p.ImportPath = module + "/" + name
			all[p.ImportPath] = p
		}
		for name, p := range all {
			p.ImportPath = name
		}
		return all
	}
	for _, c := range []struct {
		name, start string
		of          map[string]*pkg
		want        string
	}{
		{"core to a library, at one remove", "core/cycle", map[string]*pkg{"core/cycle": ours("core/fit"), "core/fit": ours("fmt", "k8s.io/apimachinery/meta")}, "core/cycle -> core/fit -> k8s.io/apimachinery/meta"},
		{"core to api", "core/model", map[string]*pkg{"core/model": ours("api/v1alpha1"), "api/v1alpha1": ours()}, "core/model -> api/v1alpha1"},
		{"api to client-go", "api/v1alpha1", map[string]*pkg{"api/v1alpha1": ours("k8s.io/client-go/rest")}, "api/v1alpha1 -> k8s.io/client-go/rest"},
		{"api to apimachinery is allowed", "api/v1alpha1", map[string]*pkg{"api/v1alpha1": ours("k8s.io/apimachinery/meta")}, ""},
		{"extender to queuecontroller", "extender/x", map[string]*pkg{"extender/x": ours("kube/y"), "kube/y": ours("queuecontroller/z"), "queuecontroller/z": ours()}, "extender/x -> kube/y -> queuecontroller/z"},
		{"device plugin to a decision", "deviceplugin/match", map[string]*pkg{"deviceplugin/match": ours("core/fit"), "core/fit": ours()}, "deviceplugin/match -> core/fit"},
		{"device plugin to amounts is allowed", "deviceplugin/match", map[string]*pkg{"deviceplugin/match": ours("core/amount"), "core/amount": ours()}, ""},
		{"core within the standard library is allowed", "core/fit", map[string]*pkg{"core/fit": ours("fmt")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			for _, r := range rules {
				if !within(c.start+"/", r.folder) {
					continue
				}
				chain, _ := r.breach(world(c.of), module+"/"+c.start)
				got = strings.Join(chain, " -> ")
				break
			}
			if got != c.want {
				t.Errorf("the rule names %q, want %q", got, c.want)
			}
		})
	}
}

// TestSkipsAreFound: of the calls below, those marked are skipped tests.
func TestSkipsAreFound(t *testing.T) {
	const text = `package p
func TestA(t *testing.T) {
	t.Skip("marked")
	t.Run("sub", func(t *testing.T) { t.SkipNow() /* marked */ })
	rapid.Check(t, func(r *rapid.T) { r.Skip("a draw") })
	rapid.Check(t, func(t *rapid.T) { t.Skip("a draw") })
	other.Skip("not ours")
}
func FuzzB(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) { if s == "" { t.Skipf("marked") } })
}`
	file, err := parser.ParseFile(fileSet, "text.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(skips(file)), strings.Count(text, "marked"); got != want {
		t.Errorf("found %d skipped tests, want %d", got, want)
	}
}
