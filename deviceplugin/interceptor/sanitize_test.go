// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSanitizers runs the random sequences with the library built into the
// program under the thread and the address sanitizer (with undefined behaviour).
func TestSanitizers(t *testing.T) {
	const limit = 128 * mib
	for _, s := range []string{"thread", "address,undefined"} {
		t.Run(s, func(t *testing.T) {
			if out, err := makeTarget("SANITIZE="+s, filepath.Join(built, "stress-"+s)); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			m := newMachine(t)
			r := create(t, m, limit, 1000)
			var all []*exec.Cmd
			for i := range 2 {
				c := m.command("stress-"+s, "4", "60", string(rune('1'+i)))
				c.Env = append(c.Env, "LD_PRELOAD=", "TSAN_OPTIONS=halt_on_error=1", "UBSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=0")
				all = append(all, c)
			}
			outputs := make([]strings.Builder, len(all))
			for i, c := range all {
				c.Stdout, c.Stderr = &outputs[i], &outputs[i]
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
			}
			for i, c := range all {
				if err := c.Wait(); err != nil || !strings.HasSuffix(outputs[i].String(), "ok\n") {
					t.Errorf("%v\n%s", err, outputs[i].String())
				}
			}
			if devices, err := r.Usage(); err != nil || devices[0].UsedBytes != 0 {
				t.Errorf("%+v %v", devices, err)
			}
			checkPeak(t, m, limit)
		})
	}
}
