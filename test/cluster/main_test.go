// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// shared is the cluster of the suite.
var shared *stack.Stack

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	s, err := stack.Start(ctx, stack.Options{Progress: os.Stderr, Bed: bed.Options{APIServerFlags: nativeGroups}})
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the suite's cluster:", err)
		os.Exit(1)
	}
	shared = s
	code := m.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the suite's cluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
