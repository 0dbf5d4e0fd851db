// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// built is where the library, the stand-ins and the test programs are.
var built string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "interceptor")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = dir
		if out, err := makeTarget("all"); err != nil {
			fmt.Fprintf(os.Stderr, "make all: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func makeTarget(args ...string) ([]byte, error) {
	return exec.Command("make", append([]string{"-s", "OUT=" + built}, args...)...).CombinedOutput()
}

// machine is one stand-in machine with one container's region.
type machine struct {
	dir string
	env []string // STANDIN_…=
}

func newMachine(t testing.TB, env ...string) *machine {
	return &machine{dir: t.TempDir(), env: env}
}

// command runs a test program on the machine, under the library.
func (m *machine) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(built, program), args...)
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"LD_LIBRARY_PATH=" + filepath.Join(built, "standin"),
		"LD_PRELOAD=" + filepath.Join(built, "libfairslice.so"),
		"FAIRSLICE_REGION=" + m.region(),
		"STANDIN_STATE=" + filepath.Join(m.dir, "machine"),
		"PROBE_DEEPBIND=" + filepath.Join(built, "deepbind.so"),
	}, m.env...)
	return c
}

func (m *machine) region() string { return filepath.Join(m.dir, "region") }
