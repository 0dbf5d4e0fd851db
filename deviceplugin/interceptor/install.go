// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor

import (
	"fmt"
	"io"
	"os"
)

// Install puts the library at from to the path to, readable by any user. It writes
// another file and renames it: processes that have the old library mapped keep it,
// and none ever sees a part of the new one. Overwriting in place would crash them.
//
// A bind mount of the file itself keeps the old file; mount the directory it is in
// where running containers should pick up a new one at their next exec.
func Install(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("install the interceptor: %w", err)
	}
	defer in.Close()
	next := to + ".next"
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // containers of any user map it
	if err != nil {
		return fmt.Errorf("install the interceptor: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next)
			err = fmt.Errorf("install the interceptor: %w", err)
		}
	}()
	if _, err = io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	if err = out.Chmod(0o755); err != nil { // against the umask
		_ = out.Close()
		return err
	}
	if err = out.Sync(); err != nil {
		_ = out.Close()
		return err
	}
	if err = out.Close(); err != nil {
		return err
	}
	return os.Rename(next, to)
}
