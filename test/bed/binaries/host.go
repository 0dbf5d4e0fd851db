// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// hostPackages are the Debian packages of the programs that a real node takes
// from the machine: runc needs libseccomp, busybox is not written in Go.
var hostPackages = map[string]string{
	"runc": "runc", "busybox": "busybox-static", "nsenter": "util-linux", "setpriv": "util-linux",
}

// LookHost finds a program of the machine. A busybox must be static: it is put
// into an image that holds nothing else.
func LookHost(name string) (string, error) {
	for _, dir := range append(strings.Split(os.Getenv("PATH"), ":"), "/usr/sbin", "/sbin", "/usr/bin", "/bin") {
		path := dir + "/" + name
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			continue
		}
		if name != "busybox" || static(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("program %s is missing on this machine (Debian: apt-get install %s)", name, hostPackages[name])
}

func static(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// EnsureHost makes the named programs of the machine available: what is missing
// is installed with apt-get by root, and named to anyone else.
func EnsureHost(ctx context.Context, progress io.Writer, names ...string) error {
	var packages []string
	var missing error
	for _, name := range names {
		if _, err := LookHost(name); err != nil {
			packages, missing = append(packages, hostPackages[name]), err
		}
	}
	if missing == nil {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return missing
	}
	fmt.Fprintf(progress, "test bed: installing %s (about 20 s) …\n", strings.Join(packages, ", "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}
