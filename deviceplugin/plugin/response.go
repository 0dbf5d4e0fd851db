// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fairslice/fairslice/deviceplugin/cdispec"
	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Ways to give a container its GPUs.
const (
	// ListEnv names them in NVIDIA_VISIBLE_DEVICES, for NVIDIA's container
	// runtime.
	ListEnv = "envvar"
	// ListMounts names them by mounts of /dev/null below mountRoot, for NVIDIA's
	// container runtime: a pod that may not mount host folders cannot make them.
	ListMounts = "volume-mounts"
	// ListCDI uses the specification of package cdispec.
	ListCDI = "cdi"
	// ListNVIDIACDI uses the specification that NVIDIA's toolkit has generated with
	// UUIDs as names.
	ListNVIDIACDI = "nvidia-cdi"
)

// DeviceLists are all ways, in the order of the documentation.
var DeviceLists = []string{ListEnv, ListMounts, ListCDI, ListNVIDIACDI}

// mountRoot is where NVIDIA's container toolkit looks for mounts, and the value of
// its variable that says so.
const mountRoot = "/var/run/nvidia-container-devices"

// Environment variables of a container, each a comma-separated list with one
// entry per GPU, in the same order. They derive from the devices alone: the
// kubelet caches the answer before anyone knows for certain whose they are.
const (
	EnvUUIDs    = "FAIRSLICE_GPU_UUIDS"
	EnvMemory   = "FAIRSLICE_GPU_MEMORY_MIB"
	EnvMilli    = "FAIRSLICE_GPU_MILLI"
	EnvResource = "FAIRSLICE_GPU_RESOURCE"

	envVisible   = "NVIDIA_VISIBLE_DEVICES"
	envMPSMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	envMPSShare  = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	envOrder     = "CUDA_DEVICE_ORDER"
)

// Responder turns a grant into what the kubelet adds to the container.
type Responder struct {
	// Lists are the ways in use, of DeviceLists.
	Lists []string
	// Names of the resources.
	Names match.Names
	// Index is the driver's index of each GPU by UUID.
	Index map[string]int
	// Layer holds the container to its share.
	Layer enforce.Layer
	// Processes that use a GPU in each container of a pod, as it declares; at least 1.
	Processes func(podUID string) (int, error)
}

// limit lets the layer hold the container; the hardware holds those that have MIG
// instances.
func (r Responder) limit(g match.Grant, shares []pool.Share) (enforce.Edits, error) {
	if shares[0].GPU.Instance {
		return enforce.Edits{}, nil
	}
	c := enforce.Container{ID: enforce.ContainerID(r.Names[g.Kind], g.IDs), Whole: g.Kind == pool.Whole}
	for _, s := range shares {
		compute := int64(1000)
		if g.Kind == pool.Slice {
			compute = s.MilliGPU
		}
		c.Shares = append(c.Shares, enforce.Share{UUID: s.GPU.UUID, Index: r.Index[s.GPU.UUID], MemoryMiB: s.MemoryMiB, ComputeMilli: compute})
	}
	var err error
	if c.Processes, err = r.Processes(g.Predicted.PodUID); err != nil {
		return enforce.Edits{}, fmt.Errorf("%s: %w", g.Predicted, err)
	}
	edits, err := r.Layer.Prepare(c)
	if err != nil {
		return enforce.Edits{}, fmt.Errorf("preparing the %s limit of %s: %w", r.Layer.Level(), c.ID, err)
	}
	return edits, nil
}

// respond may fail only because of the layer, or of what the pod declares for it.
func (r Responder) respond(g match.Grant) (*deviceplugin.ContainerAllocateResponse, error) {
	shares := slices.Clone(g.Shares)
	// The order in which the container's CUDA sees them.
	slices.SortStableFunc(shares, func(a, b pool.Share) int { return r.Index[a.GPU.UUID] - r.Index[b.GPU.UUID] })
	edits, err := r.limit(g, shares)
	if err != nil {
		return nil, err
	}
	out := &deviceplugin.ContainerAllocateResponse{Envs: r.environment(g.Kind, shares)}
	maps.Copy(out.Envs, edits.Env)
	for _, m := range edits.Mounts {
		out.Mounts = append(out.Mounts, &deviceplugin.Mount{ContainerPath: m.Container, HostPath: m.Host, ReadOnly: m.ReadOnly})
	}
	for _, name := range edits.CDIDevices {
		out.CdiDevices = append(out.CdiDevices, &deviceplugin.CDIDevice{Name: name})
	}
	for _, s := range shares {
		if slices.Contains(r.Lists, ListMounts) {
			out.Mounts = append(out.Mounts, &deviceplugin.Mount{ContainerPath: path.Join(mountRoot, s.GPU.UUID), HostPath: "/dev/null", ReadOnly: true})
		}
		if slices.Contains(r.Lists, ListCDI) {
			out.CdiDevices = append(out.CdiDevices, &deviceplugin.CDIDevice{Name: cdispec.Name(cdispec.Kind, s.GPU.UUID)})
		}
		if slices.Contains(r.Lists, ListNVIDIACDI) {
			out.CdiDevices = append(out.CdiDevices, &deviceplugin.CDIDevice{Name: cdispec.Name(cdispec.NVIDIAKind, s.GPU.UUID)})
		}
	}
	return out, nil
}

func (r Responder) environment(k pool.Kind, shares []pool.Share) map[string]string {
	list := func(value func(pool.Share) string) string {
		parts := make([]string, len(shares))
		for i, s := range shares {
			parts[i] = value(s)
		}
		return strings.Join(parts, ",")
	}
	uuids := list(func(s pool.Share) string { return s.GPU.UUID })
	env := map[string]string{
		EnvUUIDs:    uuids,
		EnvMemory:   list(func(s pool.Share) string { return strconv.FormatInt(s.MemoryMiB, 10) }),
		EnvMilli:    list(func(s pool.Share) string { return strconv.FormatInt(s.MilliGPU, 10) }),
		EnvResource: r.Names[k],
		// "void" keeps NVIDIA's runtime from adding anything beside CDI.
		envVisible: "void",
	}
	switch {
	case slices.Contains(r.Lists, ListEnv):
		env[envVisible] = uuids
	case slices.Contains(r.Lists, ListMounts):
		env[envVisible] = mountRoot
	}
	if !k.Parts() {
		return env
	}
	ordinal := -1
	env[envMPSMemory] = list(func(s pool.Share) string {
		ordinal++
		return fmt.Sprintf("%d=%dM", ordinal, s.MemoryMiB)
	})
	if len(shares) > 1 {
		env[envOrder] = "PCI_BUS_ID" // the ordinals above count in this order
	}
	if k == pool.Slice {
		// One percentage for all GPUs: the smallest share keeps every promise to
		// the neighbours.
		least := slices.MinFunc(shares, func(a, b pool.Share) int { return int(a.Units - b.Units) })
		env[envMPSShare] = strconv.FormatInt(least.Units, 10)
	}
	return env
}
