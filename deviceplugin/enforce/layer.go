// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package enforce

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Levels of isolation, strongest first, as in the label
// fairslice.io/gpu-isolation.
const (
	LevelMIG       = "mig"
	LevelCgroup    = "cgroup"
	LevelMPS       = "mps"
	LevelIntercept = "intercept"
	LevelWatch     = "watch"
	LevelNone      = "none"
)

// Share is what a container may use of one GPU.
type Share struct {
	UUID      string
	Index     int // the driver's index
	MemoryMiB int64
	// ComputeMilli is the share of compute time in thousandths, 1000 where none was
	// asked for.
	ComputeMilli int64
}

// Container is a container as Prepare knows it.
type Container struct {
	// ID derives from the devices (see ContainerID): equal for every start of the
	// container, different for all containers that live at the same time.
	ID string
	// Whole is true for whole GPUs, which need no limit.
	Whole bool
	// Shares in the order in which the container sees its GPUs.
	Shares []Share
	// Processes is how many processes the container's pod has declared that will
	// use a GPU in each container, at least 1; where a limit can only be set for
	// each process, the share is divided by it.
	Processes int
}

// ContainerID is a short name for a set of devices of one resource.
func ContainerID(resource string, ids []string) string {
	sorted := slices.Sorted(slices.Values(ids))
	sum := sha256.Sum256([]byte(resource + "\n" + strings.Join(sorted, "\n")))
	return hex.EncodeToString(sum[:10])
}

// Mount of a host path in the container.
type Mount struct {
	Host, Container string
	ReadOnly        bool
}

// Edits are what a layer adds to a container.
type Edits struct {
	Env    map[string]string
	Mounts []Mount
	// CDIDevices are fully qualified names, "<vendor>/<class>=<name>".
	CDIDevices []string
}

// Layer is one way to hold containers to their shares. Its methods are quick and
// local; they may be called at the same time.
type Layer interface {
	// Level is one of the Level constants.
	Level() string
	// Prepare makes a limit ready and says what the container needs for it. An
	// error refuses the container: a limit that cannot be held is never dropped
	// silently.
	Prepare(c Container) (Edits, error)
	// Start is called before each start of the container; an error delays it.
	// Processes is what its pod declares, 0 where the pod is not known.
	Start(id string, processes int) error
	// Keep tells the IDs of all containers that still hold devices; the layer may
	// forget the others.
	Keep(ids map[string]bool) error
}

// None enforces nothing; the limits are in the container's environment only.
type None struct{}

// Level is LevelNone.
func (None) Level() string { return LevelNone }

// Prepare adds nothing.
func (None) Prepare(Container) (Edits, error) { return Edits{}, nil }

// Start does nothing.
func (None) Start(string, int) error { return nil }

// Keep does nothing.
func (None) Keep(map[string]bool) error { return nil }
