// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// shared is the suite's cluster, node its real node, whose device plugin serves
// metrics at metricsOfNode.
var (
	shared        *stack.Stack
	node          *stack.RealNode
	metricsOfNode string
)

// cudaFolder holds what the node's containers are held by, and run.
func cudaFolder() string { return filepath.Join(shared.Folder(), "cuda") }

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
	dir := cudaFolder()
	flags, err := held(ctx, dir)
	if err != nil {
		return err
	}
	profile, err := writeMachine(dir)
	if err != nil {
		return err
	}
	if metricsOfNode, err = freeAddress(); err != nil {
		return err
	}
	node, err = shared.StartRealNode(ctx, stack.RealNodeOptions{
		Kubelet: bed.KubeletOptions{Name: "real"}, Profile: profile, PluginFlags: append(flags, watching("kill", metricsOfNode)...),
		Capabilities: []string{"kill"},
	})
	if err != nil {
		return err
	}
	return importCUDA(ctx, node, dir)
}

// freeAddress is one that nobody listens at yet.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
