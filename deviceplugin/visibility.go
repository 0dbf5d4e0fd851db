// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"io/fs"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/deviceplugin/plugin"
	"github.com/fairslice/fairslice/deviceplugin/toolkit"
)

// tellVisibility warns where NVIDIA's container toolkit lets containers reach GPUs
// that they were not given, or keeps from them those that they were.
func (a *agent) tellVisibility() {
	if a.o.ToolkitConfig == "" {
		return
	}
	c, err := toolkit.Read(a.o.ToolkitConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.log.Info("the configuration of NVIDIA's container toolkit is not there, nobody knows whether containers can reach GPUs that they were not given", "file", a.o.ToolkitConfig)
		return
	case err != nil:
		a.log.Warn("nobody knows whether containers can reach GPUs that they were not given", "error", err)
		return
	}
	hole := c.Hole(slices.Contains(a.o.DeviceLists, plugin.ListEnv), slices.Contains(a.o.DeviceLists, plugin.ListMounts))
	if hole == "" {
		return
	}
	a.log.Warn("the container runtime and this plugin do not fit together", "reason", hole)
	a.events.Event(a.nodeReference(), corev1.EventTypeWarning, reasonVisibility, hole)
}
