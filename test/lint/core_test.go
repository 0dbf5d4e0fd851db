// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"
)

// notInCore are packages of the standard library that would make equal
// snapshots give unequal plans, or let a decision act.
var notInCore = map[string]string{
	"math/rand":     "chance comes in as the snapshot's seed",
	"math/rand/v2":  "chance comes in as the snapshot's seed",
	"crypto/rand":   "chance comes in as the snapshot's seed",
	"os":            "files and environment are the caller's",
	"os/exec":       "a decision runs nothing",
	"net":           "a decision talks to nobody",
	"net/http":      "a decision talks to nobody",
	"log":           "what a decision has to say is in its plan",
	"log/slog":      "what a decision has to say is in its plan",
	"context":       "a search is bounded by steps, so that it replays",
	"unsafe":        "it is not needed",
	"runtime":       "a plan does not depend on the machine",
	"runtime/debug": "a plan does not depend on the machine",
}

// clock are the functions of package time that read the machine's clock or wait
// for it. The type Duration and its constants are welcome.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "Tick": true,
	"NewTimer": true, "NewTicker": true, "Sleep": true,
}

func TestCoreIsPure(t *testing.T) {
	checked := 0
	for _, s := range goFiles(t) {
		if !strings.HasPrefix(s.path, "core/") || s.isTest() {
			continue
		}
		checked++
		for _, i := range s.file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why, bad := notInCore[name]; bad {
				t.Errorf("%s: imports %s: %s", fileSet.Position(i.Pos()), name, why)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: starts a goroutine: the order of results would be chance", fileSet.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clock[n.Sel.Name] {
					t.Errorf("%s: time.%s: the time comes in with the snapshot", fileSet.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
	if checked == 0 {
		t.Error("no file of core was checked")
	}
}

// exact are the packages whose results are accounts.
var exact = []string{"core/amount/", "core/model/", "core/fairshare/", "core/capacity/", "core/order/", "core/fit/", "core/reclaim/", "core/cycle/"}

// TestAccountsHoldNoFloats: sums of floats depend on the order of addition.
func TestAccountsHoldNoFloats(t *testing.T) {
	for _, s := range goFiles(t) {
		if s.isTest() || !hasAnyPrefix(s.path, exact) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (id.Name == "float64" || id.Name == "float32") {
				t.Errorf("%s: %s in an account: use package amount", fileSet.Position(n.Pos()), id.Name)
			}
			return true
		})
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
