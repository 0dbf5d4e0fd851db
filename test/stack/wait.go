// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"time"
)

// busy is how much longer things may take than on a machine that does nothing else.
const busy = 2

// Eventually waits until the condition holds; the text it returns says what is
// missing, and is the error when the limit, that of an idle machine, is over.
func Eventually(limit time.Duration, condition func() (missing string)) error {
	limit *= busy
	deadline := time.Now().Add(limit)
	for {
		missing := condition()
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %s", limit, missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
