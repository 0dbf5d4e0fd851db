// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// CodecVersion is the version written into Assignment and Inventory. A reader
// refuses any other.
const CodecVersion = 1

// maxCodecBytes bounds what a decoder reads: the API server's own limit for
// all annotations of an object is 256 KiB.
const maxCodecBytes = 256 << 10

// Assignment says which GPUs of a node each container of a pod was given. It
// travels in AnnotationGPUAssignment, written in the same request as the
// binding.
type Assignment struct {
	Version    int                   `json:"v"`
	PodUID     string                `json:"uid"`
	Node       string                `json:"node"`
	Containers []ContainerAssignment `json:"containers"`
}

// ContainerAssignment is one container's part of one resource, by container name:
// positions shift when a sidecar is injected.
type ContainerAssignment struct {
	Name     string        `json:"name"`
	Resource string        `json:"resource"`
	GPUs     []AssignedGPU `json:"gpus"`
}

// AssignedGPU is what a container holds of one GPU.
type AssignedGPU struct {
	// UUID of the GPU or MIG instance as NVML reports it. Empty on a node without our device plugin,
	// where the kubelet alone knows which whole GPU it hands out.
	UUID string `json:"uuid,omitempty"`
	// Units of the container's resource on this GPU, equal to the number of
	// device IDs: 1 for a whole GPU, hundredths for a slice, GiB for memory.
	Units int64 `json:"units"`
	// MilliGPU is the part of the GPU in thousandths, for accounts.
	MilliGPU int64 `json:"milliGPU"`
	// MemoryMiB is the memory that the container may use on this GPU.
	MemoryMiB int64 `json:"memoryMiB"`
}

// Encode returns the canonical JSON of a.
func (a Assignment) Encode() (string, error) {
	a.Version = CodecVersion
	if err := a.Validate(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(a)
	return string(raw), err
}

// DecodeAssignment parses the value of AnnotationGPUAssignment.
func DecodeAssignment(s string) (Assignment, error) {
	var a Assignment
	if err := decodeStrict(s, &a); err != nil {
		return Assignment{}, fmt.Errorf("annotation %s: %w", AnnotationGPUAssignment, err)
	}
	if err := a.Validate(); err != nil {
		return Assignment{}, fmt.Errorf("annotation %s: %w", AnnotationGPUAssignment, err)
	}
	return a, nil
}

// Validate reports the first field that holds no legal value.
func (a Assignment) Validate() error {
	if a.Version != CodecVersion {
		return fmt.Errorf("field v is %d, must be %d", a.Version, CodecVersion)
	}
	if a.PodUID == "" {
		return fmt.Errorf("field uid is empty, must be the pod's UID")
	}
	if a.Node == "" {
		return fmt.Errorf("field node is empty, must be the node's name")
	}
	type part struct{ container, resource string }
	seen := make(map[part]bool, len(a.Containers))
	for i, c := range a.Containers {
		this := part{c.Name, c.Resource}
		switch {
		case c.Name == "":
			return fmt.Errorf("field containers[%d].name is empty, must be a container's name", i)
		case c.Resource == "":
			return fmt.Errorf("field containers[%d].resource is empty, must be a resource name", i)
		case seen[this]:
			return fmt.Errorf("field containers[%d] names container %q with resource %q again, must name them once", i, c.Name, c.Resource)
		}
		seen[this] = true
		for j, g := range c.GPUs {
			if g.Units <= 0 || g.MilliGPU < 0 || g.MilliGPU > 1000 || g.MemoryMiB < 0 {
				return fmt.Errorf("field containers[%d].gpus[%d] must have units above 0, milliGPU from 0 to 1000 and memoryMiB of 0 or more", i, j)
			}
		}
	}
	return nil
}

func decodeStrict(s string, into any) error {
	if len(s) > maxCodecBytes {
		return fmt.Errorf("value has %d bytes, at most %d are allowed", len(s), maxCodecBytes)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("value is not the expected JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("value holds more than one JSON object")
	}
	return nil
}
