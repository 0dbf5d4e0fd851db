// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairslice/fairslice/deviceplugin/enforce/cgroup"
)

// newHookCommand is not for people: the container runtime runs it.
func newHookCommand() *cobra.Command {
	var (
		hook    = cgroup.Hook{Proc: "/proc", CgroupRoot: "/sys/fs/cgroup"}
		limits  []string
		library string
	)
	cmd := &cobra.Command{
		Use:    "hook",
		Short:  "Set a container's GPU memory limits (run by the container runtime, as an OCI createRuntime hook)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, text := range limits {
				l, err := cgroup.ParseLimit(text)
				if err != nil {
					return fmt.Errorf("flag limit: %w", err)
				}
				hook.Limits = append(hook.Limits, l)
			}
			hook.Open = func() (cgroup.Driver, error) { return cgroup.Open(library) }
			if err := hook.Run(cmd.InOrStdin()); err != nil {
				return fmt.Errorf("GPU memory limit: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&limits, "limit", nil, "UUID of a GPU, an equals sign and a number of bytes; may be repeated")
	f.StringVar(&hook.CgroupRoot, "cgroup-root", hook.CgroupRoot, "where the control groups are mounted")
	f.StringVar(&hook.Proc, "proc", hook.Proc, "where the processes are mounted")
	f.StringVar(&library, "nvml-library", "", "path of libnvidia-ml.so.1; empty for the dynamic linker's choice")
	return cmd
}
