// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package toolkit

import (
	"fmt"
	"io"
	"os"

	"github.com/pelletier/go-toml/v2"
)

// Config is what matters here of the toolkit's config.toml.
type Config struct {
	// AcceptEnvvar lets containers without privileges choose GPUs by
	// NVIDIA_VISIBLE_DEVICES.
	AcceptEnvvar bool `toml:"accept-nvidia-visible-devices-envvar-when-unprivileged"`
	// AcceptMounts lets containers name GPUs by mounts below
	// /var/run/nvidia-container-devices.
	AcceptMounts bool `toml:"accept-nvidia-visible-devices-as-volume-mounts"`
}

// maxBytes bounds what is read of a file.
const maxBytes = 1 << 20

// Read reads a file; os.ErrNotExist where there is none.
func Read(file string) (Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration of NVIDIA's container toolkit: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration of NVIDIA's container toolkit: %w", err)
	}
	c, err := Parse(raw)
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Parse reads the text of a file. What is not set has the toolkit's default.
func Parse(raw []byte) (Config, error) {
	c := Config{AcceptEnvvar: true}
	if err := toml.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("it is not the configuration of NVIDIA's container toolkit: %w", err)
	}
	return c, nil
}

// Hole says in one sentence what is wrong with the configuration of a node whose
// plugin names GPUs in these ways; "" if nothing is.
func (c Config) Hole(byEnvvar, byMounts bool) string {
	switch {
	case byMounts && !c.AcceptMounts:
		return "containers get no GPU by --device-list=volume-mounts, because NVIDIA's container toolkit does not accept mounts: set accept-nvidia-visible-devices-as-volume-mounts = true"
	case byEnvvar && !c.AcceptEnvvar:
		return "containers without privileges get no GPU by --device-list=envvar, because NVIDIA's container toolkit does not accept the variable: use --device-list=volume-mounts or nvidia-cdi"
	case c.AcceptEnvvar:
		return "containers can reach GPUs that they were not given, because NVIDIA's container toolkit accepts NVIDIA_VISIBLE_DEVICES of any image: set accept-nvidia-visible-devices-envvar-when-unprivileged = false, and use --device-list=volume-mounts or nvidia-cdi"
	}
	return ""
}
