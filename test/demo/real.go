// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/fairslice/fairslice/test/stack"
)

func startRealNode(context.Context, *stack.Stack) (item, error) {
	return item{}, errors.New("not wired yet")
}

func showRealNode(context.Context, *stack.Stack, view) {}

func folder(path string) string { return filepath.Dir(path) }
