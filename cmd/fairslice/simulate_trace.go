// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"
)

// traceOptions are the flags of a trace replay.
type traceOptions struct {
	nodes string
}

func (o *traceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.nodes, "trace", "", "node list (CSV) of a trace; the task list is the argument")
}

func (o *traceOptions) run(ctx context.Context, out io.Writer, args []string, form string) error {
	return errors.New("traces are not replayed yet")
}

// traceReport is the outcome of a trace replay.
type traceReport struct{}

func (r *traceReport) print(out io.Writer) error { return nil }
