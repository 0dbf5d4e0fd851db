// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// shared is the suite's cluster, node its real node.
var (
	shared *stack.Stack
	node   *stack.RealNode
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	err := start(ctx)
	cancel()
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the suite's cluster:", err)
	} else {
		code = m.Run()
	}
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the suite's cluster:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func start(ctx context.Context) (err error) {
	if shared, err = stack.Start(ctx, stack.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	dir := filepath.Join(shared.Folder(), "cuda")
	flags, err := held(ctx, dir)
	if err != nil {
		return err
	}
	node, err = shared.StartRealNode(ctx, stack.RealNodeOptions{Kubelet: bed.KubeletOptions{Name: "real"}, PluginFlags: flags})
	if err != nil {
		return err
	}
	return importCUDA(ctx, dir)
}
