// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cdispec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"
)

const (
	// Kind of our devices.
	Kind = "fairslice.io/gpu"
	// NVIDIAKind is that of the specification that NVIDIA's toolkit generates.
	NVIDIAKind = "nvidia.com/gpu"
	// FileName in the CDI directory.
	FileName = "fairslice.io-gpu.json"
)

// controlNodes serve all GPUs of a node.
var controlNodes = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

// Device is a GPU or a MIG instance of the specification.
type Device struct {
	UUID string
	// Minor is the number of /dev/nvidia<Minor>; below 0 there is no device node.
	Minor int
	// Capabilities are the minor numbers of /dev/nvidia-caps/nvidia-cap<n> that a MIG
	// instance needs beside its card.
	Capabilities []int
}

// Write replaces the specification in dir. Control nodes are those that exist
// under devRoot (normally "/dev"); "" means a simulation without device nodes.
func Write(dir, devRoot string, devices []Device) error {
	spec := &specs.Spec{Kind: Kind}
	for _, d := range devices {
		edits := specs.ContainerEdits{
			// Each device needs at least one edit; the name tells several apart.
			Env: []string{"FAIRSLICE_CDI_" + envName(d.UUID) + "=" + d.UUID},
		}
		if devRoot != "" && d.Minor >= 0 {
			edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{Path: "/dev/nvidia" + strconv.Itoa(d.Minor)})
			for _, n := range d.Capabilities {
				edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{Path: "/dev/nvidia-caps/nvidia-cap" + strconv.Itoa(n)})
			}
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: d.UUID, ContainerEdits: edits})
	}
	for _, name := range controlNodes {
		if devRoot == "" {
			break
		}
		if _, err := os.Stat(filepath.Join(devRoot, name)); err == nil {
			spec.ContainerEdits.DeviceNodes = append(spec.ContainerEdits.DeviceNodes, &specs.DeviceNode{Path: "/dev/" + name})
		}
	}
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return fmt.Errorf("finding the CDI version that the GPUs need: %w", err)
	}
	spec.Version = version
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return fmt.Errorf("opening the CDI directory %s: %w", dir, err)
	}
	if err := cache.WriteSpec(spec, FileName); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Join(dir, FileName), err)
	}
	return nil
}

// Name is a device's fully qualified name.
func Name(kind, uuid string) string {
	vendor, class := parser.ParseQualifier(kind)
	return parser.QualifiedName(vendor, class, uuid)
}

func envName(uuid string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, uuid))
}
