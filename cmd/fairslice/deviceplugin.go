// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairslice/fairslice/deviceplugin"
)

func newDevicePluginCommand() *cobra.Command {
	options := deviceplugin.DefaultOptions()
	cmd := &cobra.Command{
		Use:   "device-plugin",
		Short: "Serve the GPUs of this node to the kubelet: whole, in slices and by memory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
			return deviceplugin.Run(cmd.Context(), options)
		},
	}
	options.AddFlags(cmd.Flags())
	return cmd
}
