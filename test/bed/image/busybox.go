// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
)

// Busybox returns the spec of an image with a shell and the usual tools, from a
// statically linked busybox of this machine.
func Busybox(ref, busybox string) (Spec, error) {
	if err := static(busybox); err != nil {
		return Spec{}, err
	}
	out, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return Spec{}, fmt.Errorf("ask %s for its tools: %w", busybox, err)
	}
	files := []File{
		{Path: "/bin/busybox", Source: busybox},
		{Path: "/tmp/", Mode: 0o1777},
		{Path: "/etc/passwd", Data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"), Mode: 0o644},
		{Path: "/etc/group", Data: []byte("root:x:0:\nnobody:x:65534:\n"), Mode: 0o644},
	}
	for tool := range strings.FieldsSeq(string(out)) {
		if tool != "busybox" {
			files = append(files, File{Path: "/bin/" + tool, Link: "/bin/busybox"})
		}
	}
	return Spec{Ref: ref, Files: files, Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}}, nil
}

// static refuses a program that needs libraries, which the image has none of.
func static(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("read %s: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("program %s is dynamically linked, must be static (Debian: package busybox-static)", program)
		}
	}
	return nil
}
