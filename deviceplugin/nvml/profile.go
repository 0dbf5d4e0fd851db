// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"sigs.k8s.io/yaml"
)

// Profile describes a simulated machine.
type Profile struct {
	// Name is free text for logs.
	Name string `json:"name"`
	// DriverVersion, for example "580.95.05"; empty means that of go-nvml's
	// mocks.
	DriverVersion string `json:"driverVersion,omitempty"`
	// GPUs in index order.
	GPUs []ProfileGPU `json:"gpus"`
	// ProcessesFile is the absolute path of a file that lists what uses the GPUs, in
	// YAML (see ParseProcesses). It is read at each look, so that it may change; while
	// it is missing, nothing uses them.
	ProcessesFile string `json:"processesFile,omitempty"`
	// FaultsFile is the same for a list of the indexes of GPUs that have fallen off
	// the bus (see ParseFaults).
	FaultsFile string `json:"faultsFile,omitempty"`
}

// ProfileGPU is one card, or several equal ones.
type ProfileGPU struct {
	// Count of equal cards; 0 means 1.
	Count int `json:"count,omitempty"`
	// Base names one of go-nvml's GPU models, see Bases. What is set beside it
	// overrides it.
	Base string `json:"base,omitempty"`
	// Model as a driver would report it.
	Model string `json:"model,omitempty"`
	// MemoryMiB is the card's total.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	// ReservedMiB is the driver's own share of it.
	ReservedMiB int64 `json:"reservedMiB,omitempty"`
	// UsedMiB is in use by processes outside Kubernetes.
	UsedMiB int64 `json:"usedMiB,omitempty"`
	// NUMA is the NUMA node of each of the Count cards, or one for all; empty
	// means unknown.
	NUMA []int `json:"numa,omitempty"`
	// MIG puts the cards into MIG mode, each with so many instances of these
	// profiles of Base: {3g.20gb: 1, 1g.5gb: 4}; {} is MIG mode without instances.
	MIG map[string]int `json:"mig,omitempty"`
}

const (
	maxProfileBytes = 64 << 10
	maxSimulated    = 64
	maxSimulatedMiB = 4 << 20
)

var bases = map[string]gpus.Config{
	"a30-pcie-24gb":  gpus.A30_PCIE_24GB,
	"a100-pcie-40gb": gpus.A100_PCIE_40GB,
	"a100-pcie-80gb": gpus.A100_PCIE_80GB,
	"a100-sxm4-40gb": gpus.A100_SXM4_40GB,
	"a100-sxm4-80gb": gpus.A100_SXM4_80GB,
	"h100-sxm5-80gb": gpus.H100_SXM5_80GB,
	"h200-sxm5":      gpus.H200_SXM5_141GB,
	"b200-sxm5":      gpus.B200_SXM5_180GB,
}

// Bases lists the values of ProfileGPU.Base.
func Bases() []string { return slices.Sorted(maps.Keys(bases)) }

//go:embed profiles/*.yaml
var embedded embed.FS

// Profiles lists the names of the embedded profiles.
func Profiles() []string {
	files, _ := fs.Glob(embedded, "profiles/*.yaml")
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// LoadProfile reads an embedded profile by its name, or a file by its path (a
// value with a slash or ending in .yaml).
func LoadProfile(nameOrPath string) (Profile, error) {
	var (
		raw []byte
		err error
	)
	if strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") {
		raw, err = os.ReadFile(nameOrPath)
	} else {
		raw, err = embedded.ReadFile("profiles/" + nameOrPath + ".yaml")
		if errors.Is(err, fs.ErrNotExist) {
			return Profile{}, fmt.Errorf("there is no GPU profile %q: use one of %s, or the path of a YAML file", nameOrPath, strings.Join(Profiles(), ", "))
		}
	}
	if err != nil {
		return Profile{}, fmt.Errorf("reading the GPU profile: %w", err)
	}
	p, err := ParseProfile(raw)
	if err != nil {
		return Profile{}, fmt.Errorf("GPU profile %s: %w", nameOrPath, err)
	}
	return p, nil
}

// ParseProfile reads a profile strictly: unknown fields are errors.
func ParseProfile(raw []byte) (Profile, error) {
	var p Profile
	if len(raw) > maxProfileBytes {
		return p, fmt.Errorf("it has %d bytes, at most %d are allowed", len(raw), maxProfileBytes)
	}
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return p, fmt.Errorf("it is not the expected YAML: %w", err)
	}
	if p.ProcessesFile != "" && !path.IsAbs(p.ProcessesFile) {
		return p, fmt.Errorf("field processesFile is %q, must be an absolute path", p.ProcessesFile)
	}
	if p.FaultsFile != "" && !path.IsAbs(p.FaultsFile) {
		return p, fmt.Errorf("field faultsFile is %q, must be an absolute path", p.FaultsFile)
	}
	total := 0
	for i := range p.GPUs {
		if err := p.GPUs[i].complete(); err != nil {
			return p, fmt.Errorf("field gpus[%d].%w", i, err)
		}
		if total += p.GPUs[i].Count; total > maxSimulated {
			return p, fmt.Errorf("field gpus has more than %d GPUs", maxSimulated)
		}
	}
	return p, nil
}

// complete checks the entry and fills in what its base says.
func (g *ProfileGPU) complete() error {
	if g.Count == 0 {
		g.Count = 1
	}
	if g.Count < 0 || g.Count > maxSimulated {
		return fmt.Errorf("count is %d, must be from 1 to %d", g.Count, maxSimulated)
	}
	if g.Base != "" {
		base, known := bases[g.Base]
		if !known {
			return fmt.Errorf("base is %q, must be one of %s", g.Base, strings.Join(Bases(), ", "))
		}
		if g.Model == "" {
			g.Model = strings.TrimPrefix(base.Name, "Mock ")
		}
		if g.MemoryMiB == 0 {
			g.MemoryMiB = int64(base.MemoryMB)
		}
	}
	switch {
	case g.Model == "":
		return errors.New("model is empty, must be set where base is not")
	case g.MemoryMiB <= 0 || g.MemoryMiB > maxSimulatedMiB:
		return fmt.Errorf("memoryMiB is %d, must be from 1 to %d", g.MemoryMiB, maxSimulatedMiB)
	case g.ReservedMiB < 0 || g.ReservedMiB >= g.MemoryMiB:
		return fmt.Errorf("reservedMiB is %d, must be from 0 to below memoryMiB (%d)", g.ReservedMiB, g.MemoryMiB)
	case g.UsedMiB < 0 || g.UsedMiB > g.MemoryMiB-g.ReservedMiB:
		return fmt.Errorf("usedMiB is %d, must be from 0 to %d", g.UsedMiB, g.MemoryMiB-g.ReservedMiB)
	case g.MIG != nil && g.UsedMiB > 0:
		return errors.New("usedMiB must be 0 on cards in MIG mode, whose memory belongs to their instances")
	case len(g.NUMA) > 1 && len(g.NUMA) != g.Count:
		return fmt.Errorf("numa has %d nodes, must have none, one, or one for each of the %d GPUs", len(g.NUMA), g.Count)
	}
	return g.checkMIG()
}
