// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/stack"
)

// TestBurstOfThreeTimesTheRoom is GPU-sharing report 56 (KAI #848, #2153): of a burst
// exactly as many run as there is room for, no GPU holds more than itself, and the rest
// waits without a refused binding.
func TestBurstOfThreeTimesTheRoom(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.create(slices("b", 96, 25)...)
	f.eventuallyBound(60*time.Second, "b-", 32)
	f.always(3*time.Second, func() string {
		if n := f.boundCount("b-"); n != 32 {
			return fmt.Sprintf("%d pods are bound, there is room for 32", n)
		}
		return ""
	})
	for uuid, milli := range f.held() {
		if milli != 1000 {
			t.Errorf("GPU %s carries %d/1000", uuid, milli)
		}
	}
	f.consistent()
}
