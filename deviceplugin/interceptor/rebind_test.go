// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPartlySealedPage: the dynamic linker seals the whole pages of PT_GNU_RELRO. The
// page in which that ends has to stay writable, for the data behind it.
func TestPartlySealedPage(t *testing.T) {
	m := newMachine(t)
	create(t, m, 64*mib, 1000)
	library := filepath.Join(m.dir, "deepbind.so")
	sealAlso(t, filepath.Join(built, "deepbind.so"), library, 256)
	c := m.command("probe", "deepbind")
	c.Env = append(c.Env, "PROBE_DEEPBIND="+library)
	c.Stdin = strings.NewReader("alloc 64MiB+1\n")
	if out, err := c.Output(); err != nil || string(out) != "alloc 64MiB+1: OUT_OF_MEMORY\n" {
		t.Errorf("%s %v", out, err)
	}
}

// sealAlso copies a library and lets its PT_GNU_RELRO end later by some bytes.
func sealAlso(t *testing.T, from, to string, more uint64) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	headers := binary.LittleEndian.Uint64(raw[0x20:])
	for i := range uint64(binary.LittleEndian.Uint16(raw[0x38:])) {
		header := raw[headers+56*i:]
		if elf.ProgType(binary.LittleEndian.Uint32(header)) == elf.PT_GNU_RELRO {
			size := header[40:]
			binary.LittleEndian.PutUint64(size, binary.LittleEndian.Uint64(size)+more)
		}
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		t.Fatal(err)
	}
}
