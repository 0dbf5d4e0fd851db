// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/interceptor.md anew")

// entry is one row of src/entrypoints.def.
type entry struct {
	kind, symbol, base, class, what string
	version                         int
}

var rowText = regexp.MustCompile(`^FS_(HOOK|HOOK_STREAM|NVML|PASS)\((.*), "(.*)"\)$`)

func entries(t *testing.T) []entry {
	t.Helper()
	raw, err := os.ReadFile("src/entrypoints.def")
	if err != nil {
		t.Fatal(err)
	}
	var out []entry
	for i, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		m := rowText.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("src/entrypoints.def:%d: not a row: %s", i+1, line)
		}
		f := strings.Split(m[2], ", ")
		e := entry{kind: m[1], symbol: f[0], what: m[3]}
		switch {
		case m[1] == "NVML" && len(f) == 1:
			e.class = "NVML"
		case m[1] == "PASS" && len(f) == 2:
			e.class = f[1]
		case len(f) == 4:
			e.base, e.class = f[1], f[3]
			if e.version, err = strconv.Atoi(f[2]); err != nil {
				t.Fatalf("src/entrypoints.def:%d: version: %v", i+1, err)
			}
		default:
			t.Fatalf("src/entrypoints.def:%d: wrong number of fields", i+1)
		}
		out = append(out, e)
	}
	return out
}

func names(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(raw), ""))
}

// TestEveryNameOfTheHeaderHasARow: a name that a new CUDA version brings into
// testdata/driver-entry-points.txt fails here until somebody decides about it.
func TestEveryNameOfTheHeaderHasARow(t *testing.T) {
	rows := map[string]int{}
	for _, e := range entries(t) {
		rows[e.symbol]++
	}
	for _, n := range names(t, "driver-entry-points.txt") {
		if rows[n] == 0 {
			t.Errorf("%s has no row in src/entrypoints.def: hook it, or say why it passes", n)
		}
	}
	for n, k := range rows {
		if k > 1 {
			t.Errorf("%s has %d rows in src/entrypoints.def", n, k)
		}
	}
}

// TestMemoryAndLaunchEntryPointsAreDecided: those that take or tell memory, or
// start work, are hooked, or pass for a reason of their own.
func TestMemoryAndLaunchEntryPointsAreDecided(t *testing.T) {
	rows := map[string]entry{}
	for _, e := range entries(t) {
		rows[e.symbol] = e
	}
	relevant := names(t, "memory-entry-points.txt")
	if len(relevant) < 119 {
		t.Fatalf("%d names in testdata/memory-entry-points.txt, must be at least 119", len(relevant))
	}
	hooked := 0
	for _, n := range relevant {
		e, ok := rows[n]
		if !ok {
			t.Errorf("%s has no row in src/entrypoints.def", n)
		}
		if e.kind != "PASS" {
			hooked++
		}
	}
	t.Logf("%d of %d are hooked, the others pass for a stated reason", hooked, len(relevant))
}

// TestEveryMemoryHookIsCalled: whatever takes, gives or tells memory is called by a
// program of the tests, on the stand-in driver.
func TestEveryMemoryHookIsCalled(t *testing.T) {
	files, err := filepath.Glob("testprog/*.c")
	if err != nil || len(files) == 0 {
		t.Fatal("no programs", err)
	}
	var code strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(raw)
	}
	for _, e := range entries(t) {
		if e.kind != "HOOK" && e.kind != "HOOK_STREAM" || slices.Contains([]string{"launch", "settle", "resolve"}, e.class) {
			continue
		}
		if !regexp.MustCompile(`\bf?\.?` + e.symbol + `\(`).MatchString(code.String()) {
			t.Errorf("no program calls %s", e.symbol)
		}
	}
}

var exportLine = regexp.MustCompile(`(?m) [TtDdBbiI] (\S+)$`)

func exports(t *testing.T, library string) []string {
	t.Helper()
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(built, library)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range exportLine.FindAllStringSubmatch(string(out), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestExports: the library exports its hooks, the dynamic linker's three names in
// both versions, and nothing else.
func TestExports(t *testing.T) {
	want := []string{}
	for _, e := range entries(t) {
		switch e.kind {
		case "HOOK_STREAM":
			want = append(want, e.symbol, e.symbol+"_ptsz")
		case "HOOK", "NVML":
			want = append(want, e.symbol)
		}
	}
	for _, n := range []string{"dlsym", "dlvsym", "dlopen"} {
		want = append(want, n+"@GLIBC_2.2.5", n+"@@GLIBC_2.34")
	}
	got := exports(t, "libfairslice.so")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("exports differ\n got %v\nwant %v", got, want)
	}
}

// TestNeedsOnlyAnOldLibc: a library that needs a newer glibc than the image has is
// ignored by the dynamic linker with a warning, and the container is unlimited.
func TestNeedsOnlyAnOldLibc(t *testing.T) {
	lib := filepath.Join(built, "libfairslice.so")
	symbols, err := exec.Command("nm", "-D", "--undefined-only", lib).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(\S+)@GLIBC_2\.(\d+)`).FindAllStringSubmatch(string(symbols), -1) {
		if minor, _ := strconv.Atoi(m[2]); minor > 17 {
			t.Errorf("%s needs glibc 2.%d, at most 2.17 is allowed", m[1], minor)
		}
	}
	dynamic, err := exec.Command("readelf", "-d", lib).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\(NEEDED\).*\[(.*)\]`).FindAllStringSubmatch(string(dynamic), -1) {
		if m[1] != "libc.so.6" && m[1] != "libdl.so.2" && m[1] != "ld-linux-x86-64.so.2" {
			t.Errorf("the library needs %s, only libc and libdl are allowed", m[1])
		}
	}
}

// TestStandinAnswersForAllItsFunctions: its cuGetProcAddress knows what it exports.
func TestStandinAnswersForAllItsFunctions(t *testing.T) {
	raw, err := os.ReadFile("standin/symbols.def")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range exports(t, "standin/libcuda.so.1") {
		if !strings.Contains(string(raw), "X("+n+")\n") {
			t.Errorf("%s is exported by the stand-in and missing in standin/symbols.def", n)
		}
	}
}

const (
	tableBegin = "<!-- table from src/entrypoints.def, written by go test -run TestTableInDocs -update -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

func table(all []entry) string {
	var b strings.Builder
	b.WriteString("| Entry point | Name and CUDA version | Class | What is done |\n|---|---|---|---|\n")
	for _, e := range all {
		switch e.kind {
		case "HOOK":
			fmt.Fprintf(&b, "| `%s` | `%s` %s | %s | %s |\n", e.symbol, e.base, cudaVersion(e.version), e.class, e.what)
		case "HOOK_STREAM":
			fmt.Fprintf(&b, "| `%s`, `…_ptsz` | `%s` %s | %s | %s |\n", e.symbol, e.base, cudaVersion(e.version), e.class, e.what)
		case "NVML":
			fmt.Fprintf(&b, "| `%s` | | NVML | %s |\n", e.symbol, e.what)
		case "PASS":
			fmt.Fprintf(&b, "| `%s` | | %s | passes: %s |\n", e.symbol, e.class, e.what)
		}
	}
	return b.String()
}

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// TestTableInDocs: docs/interceptor.md shows the rows of src/entrypoints.def.
func TestTableInDocs(t *testing.T) {
	const path = "../../docs/interceptor.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(raw), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks the marks around the table", path)
	}
	want := table(entries(t))
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is out of date; run go test ./deviceplugin/interceptor -run TestTableInDocs -update", path)
	}
	if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
