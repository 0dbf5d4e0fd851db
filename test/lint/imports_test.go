// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
)

// rule says what a folder of the module may reach, directly or through others.
type rule struct {
	folder string
	// own are the folders of the module that it may reach; "…/" ends a subtree.
	own []string
	// std forbids everything outside the module but the standard library.
	std bool
	// never are packages outside the module, or subtrees, that it may not reach.
	never []string
	why   string
}

var rules = []rule{
	{
		folder: "api/", own: []string{"api/"}, never: []string{"k8s.io/client-go/"},
		why: "versions of the API change without touching a rule of core, and clients of the API need no more than its types",
	},
	{
		folder: "core/amount/", own: []string{"core/amount/"}, std: true,
		why: "amounts are the ground that everything else stands on",
	},
	{
		folder: "core/", own: []string{"core/"}, std: true,
		why: "a decision is a pure function of its snapshot: it replays, fuzzes and compiles without Kubernetes",
	},
	{
		folder: "kube/", own: []string{"kube/", "core/", "api/"},
		why: "kube is the only translation between Kubernetes and core; who uses it must not be known to it",
	},
	{
		folder: "extender/", own: []string{"extender/", "kube/", "core/", "api/"},
		why: "the extender and the queue controller meet in kube's ledger alone, so that there is one account",
	},
	{
		folder: "queuecontroller/", own: []string{"queuecontroller/", "kube/", "core/", "api/"},
		why: "the extender and the queue controller meet in kube's ledger alone, so that there is one account",
	},
	{
		folder: "deviceplugin/", own: []string{"deviceplugin/", "core/amount/", "api/"},
		why: "the node agent carries out what was decided and must not be able to decide anew",
	},
	{
		folder: "cmd/", own: []string{"cmd/", "core/", "kube/", "extender/", "queuecontroller/", "deviceplugin/", "api/"},
		why: "the shipped binary holds no test code",
	},
}

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Module     *struct{ Path string }
}

func (p *pkg) ours() bool { return p.Module != nil && p.Module.Path == module }

// packages returns the module's packages and all that they need, tests apart.
func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	out := run(t, "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Module", "./...")
	all := map[string]*pkg{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		p := &pkg{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

func TestImportRules(t *testing.T) {
	all := packages(t)
	for _, r := range rules {
		starts := 0
		for name, p := range all {
			if !p.ours() || !within(folderOf(name), r.folder) {
				continue
			}
			starts++
			if chain, fault := r.breach(all, name); fault != "" {
				t.Errorf("%s reaches %s, which %s may not: %s.\n\tby %s", folderOf(name), chain[len(chain)-1], r.folder, r.why, strings.Join(chain, " -> "))
			}
		}
		if starts == 0 && folderExists(r.folder) {
			t.Errorf("no package lies in %s, but the folder exists: the rule checks nothing", r.folder)
		}
	}
}

// breach searches breadth-first, so that the chain is the shortest.
func (r rule) breach(all map[string]*pkg, start string) (chain []string, fault string) {
	from := map[string]string{start: ""}
	queue := []string{start}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		p := all[name]
		if p == nil {
			continue
		}
		if r.forbids(p) {
			for at := name; at != ""; at = from[at] {
				chain = append(chain, strings.TrimPrefix(at, module+"/"))
			}
			slices.Reverse(chain)
			return chain, name
		}
		if p.Standard {
			continue
		}
		for _, next := range p.Imports {
			if _, seen := from[next]; !seen {
				from[next] = name
				queue = append(queue, next)
			}
		}
	}
	return nil, ""
}

func (r rule) forbids(p *pkg) bool {
	switch {
	case p.ours():
		return !slices.ContainsFunc(r.own, func(f string) bool { return within(folderOf(p.ImportPath), f) })
	case p.Standard:
		return false
	default:
		return r.std || slices.ContainsFunc(r.never, func(f string) bool { return within(p.ImportPath+"/", f) })
	}
}

// folderOf is an import path of the module relative to the root, ending in "/".
func folderOf(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/") + "/"
}

func within(folder, tree string) bool { return strings.HasPrefix(folder, tree) }

// TestOneMainPackage: whoever imports a command takes its flags and its exit
// codes with it.
func TestOneMainPackage(t *testing.T) {
	for name, p := range packages(t) {
		if !p.ours() {
			continue
		}
		for _, next := range p.Imports {
			folder := folderOf(next)
			if strings.HasPrefix(next, module) && within(folder, "cmd/") && !within(folderOf(name), "cmd/") {
				t.Errorf("%s imports %s: only a command may be built from a command", folderOf(name), folder)
			}
			if strings.HasPrefix(next, module) && within(folder, "test/") && !within(folderOf(name), "test/") {
				t.Errorf("%s imports %s: shipped code may not depend on test code", folderOf(name), folder)
			}
		}
	}
}

// TestFolderNames: a folder is named for what it holds.
func TestFolderNames(t *testing.T) {
	for _, f := range files(t) {
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			switch base := path.Base(dir); base {
			case "pkg", "internal", "util", "utils", "helper", "helpers", "common", "misc":
				t.Errorf("%s lies in a folder %s: name folders for what they hold", f, base)
			}
		}
	}
}
