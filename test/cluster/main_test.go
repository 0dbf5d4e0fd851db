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

// idle holds the clusters that no test uses now: a test has one for itself, and
// as many tests run side by side. Most of a test's time is waiting.
var idle = make(chan *stack.Stack, 2)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	clusters, err := startAll(ctx)
	cancel()
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the suite's clusters:", err)
	} else {
		code = m.Run()
	}
	for _, s := range clusters {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop a cluster of the suite:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func startAll(ctx context.Context) (started []*stack.Stack, err error) {
	for range cap(idle) {
		s, err := stack.Start(ctx, stack.Options{Progress: os.Stderr, Bed: bed.Options{APIServerFlags: nativeGroups}})
		if err != nil {
			return started, err
		}
		started = append(started, s)
		idle <- s
	}
	return started, nil
}
