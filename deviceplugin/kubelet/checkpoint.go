// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// CheckpointFile is the device manager's file in the directory of the device
// plugins' sockets (kubernetes, pkg/kubelet/cm/devicemanager).
const CheckpointFile = "kubelet_internal_checkpoint"

// maxCheckpointBytes is far above what 40,000 devices take.
const maxCheckpointBytes = 64 << 20

// Held is what a container holds of one resource.
type Held struct {
	// PodUID is empty in answers of PodResources, Namespace and Pod are empty in
	// the checkpoint.
	PodUID, Namespace, Pod string
	Container, Resource    string
	IDs                    []string // sorted
}

// State is one source's view.
type State struct {
	Held []Held
	// Devices are the IDs of each resource that the kubelet counts as healthy.
	Devices map[string][]string
}

// checkpoint is the part of the kubelet's file that we read.
type checkpoint struct {
	Data struct {
		PodDeviceEntries []struct {
			PodUID, ContainerName, ResourceName string
			DeviceIDs                           map[string][]string // by NUMA node
		}
		RegisteredDevices map[string][]string
	}
}

// ReadCheckpoint reads the checkpoint in the directory. A kubelet that never
// admitted a device has none: the error is then fs.ErrNotExist.
func ReadCheckpoint(dir string) (State, error) {
	f, err := os.Open(filepath.Join(dir, CheckpointFile))
	if err != nil {
		return State{}, fmt.Errorf("opening the kubelet's checkpoint: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCheckpointBytes+1))
	if err != nil {
		return State{}, fmt.Errorf("reading the kubelet's checkpoint: %w", err)
	}
	return ParseCheckpoint(raw)
}

// ParseCheckpoint reads the kubelet's format. Its checksum is not verified: the
// kubelet replaces the file by renaming, so there is no half of one.
func ParseCheckpoint(raw []byte) (State, error) {
	if len(raw) > maxCheckpointBytes {
		return State{}, fmt.Errorf("the kubelet's checkpoint has more than %d bytes", maxCheckpointBytes)
	}
	var c checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return State{}, fmt.Errorf("the kubelet's checkpoint is not the expected JSON: %w", err)
	}
	s := State{Devices: c.Data.RegisteredDevices}
	for _, e := range c.Data.PodDeviceEntries {
		if e.PodUID == "" {
			return State{}, fmt.Errorf("the kubelet's checkpoint has an entry without PodUID (container %q)", e.ContainerName)
		}
		h := Held{PodUID: e.PodUID, Container: e.ContainerName, Resource: e.ResourceName}
		for _, ids := range e.DeviceIDs {
			h.IDs = append(h.IDs, ids...)
		}
		h.IDs = distinct(h.IDs)
		s.Held = append(s.Held, h)
	}
	return s, nil
}

// distinct sorts IDs and drops repetitions: a device with several NUMA nodes is
// listed once for each.
func distinct(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
