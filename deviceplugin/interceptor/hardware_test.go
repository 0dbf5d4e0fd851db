// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHardwareScript runs hardware/check.sh on the stand-in driver: what is to be done
// on a GPU works as far as it can without one. Frameworks are left out, they would not
// run on a stand-in.
func TestHardwareScript(t *testing.T) {
	m := newMachine(t, "STANDIN_POOL_CHUNK=32")
	c := exec.Command("hardware/check.sh", "512")
	c.Env = append([]string{
		"PATH=" + noPython(t), "CUDA_LIBRARY=" + filepath.Join(built, "standin/libcuda.so.1"),
		"LD_LIBRARY_PATH=" + filepath.Join(built, "standin"), "STANDIN_STATE=" + filepath.Join(m.dir, "machine"), "TMPDIR=" + m.dir,
	}, m.env...)
	out, err := c.CombinedOutput()
	text := string(out)
	if err != nil || strings.Contains(text, "FAILED") || strings.Contains(text, "WRONG") {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{
		`4096 blocks of 1000 bytes take: \d+ KiB`,
		`an array of 4096 x 4093 floats needs 65600 KiB as told\nand takes: 65600 KiB`,
		`the first MiB of a pool reserves: 32 MiB`,
		`after instantiation the graph pool reserves 0 MiB\nafter the first launch: 64 MiB`,
		`== plain program, limited\n(?:fairslice: refused .*\n)?free 512 MiB of 512 MiB\n.*\n(?:fairslice: refused .*\n)?granted 512 MiB in steps of 16`,
		`kernels of 1 ms in 4 s: \d+ alone, \d+ with a share of 1000, \d+ with a share of 250`,
		`PyTorch is not installed: left out`,
		`CuPy is not installed: left out`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("nothing like %q in\n%s", want, text)
		}
	}
}

// noPython is a PATH with what the script needs, and no python3.
func noPython(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"bash", "sh", "cc", "gcc", "as", "ld", "make", "mktemp", "rm", "mkdir", "dirname", "awk", "env"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("ln", "-s", path, filepath.Join(dir, tool)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}
