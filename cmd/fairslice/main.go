// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Command fairslice is the one binary of the project: each part of it, and each
// tool for people, is a subcommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "dev"

// exitError carries an exit code other than 1. Its message, if any, is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "fairslice:", err)
	if exit, ok := errors.AsType[*exitError](err); ok {
		os.Exit(exit.code)
	}
	os.Exit(1)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "fairslice",
		Short:         "Queues, fair share, gangs and GPU slices for the stock kube-scheduler",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newControlPlaneCommand(),
		newDevicePluginCommand(),
		newHookCommand(),
		newSimulateCommand(),
		newQueuesCommand(),
		newConsolidationCommand(),
		newTopCommand(),
		newWhyCommand(),
	)
	return root
}
