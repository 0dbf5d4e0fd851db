// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newDevicePluginCommand stands in for the real one in a static build: the
// driver's library is opened with dlopen, which needs cgo.
func newDevicePluginCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "device-plugin",
		Short:              "Serve the GPUs of this node (not in this static build)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this build has no device plugin, because it was built without cgo; use the device plugin's image, or build with CGO_ENABLED=1")
		},
	}
}
