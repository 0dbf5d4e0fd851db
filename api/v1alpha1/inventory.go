// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// Inventory lists the GPUs of a node that the device plugin serves. It travels
// in AnnotationGPUs, written by the device plugin alone.
type Inventory struct {
	Version int            `json:"v"`
	GPUs    []InventoryGPU `json:"gpus"`
}

// InventoryGPU is one physical GPU, or one MIG instance of a GPU in MIG mode.
type InventoryGPU struct {
	// UUID as NVML reports it.
	UUID string `json:"uuid"`
	// ID is the short form in device IDs: "<ID>" for the whole GPU,
	// "<ID>-<n>" for its slices and GiB. Derived from the UUID, so it stays
	// when NVML reorders the GPUs after a reboot.
	ID string `json:"id"`
	// MIG is the profile of a MIG instance, for example "1g.5gb", empty for a whole
	// GPU; Card is then the UUID of the GPU that it is part of.
	MIG  string `json:"mig,omitempty"`
	Card string `json:"card,omitempty"`
	// Index is NVML's index, of an instance its card's, at the time of writing.
	Index int `json:"index"`
	// Model as a label value, for example "NVIDIA-A100-SXM4-40GB".
	Model string `json:"model"`
	// MemoryMiB is the memory that containers may use: the card's total less
	// the configured reserve.
	MemoryMiB int64 `json:"memoryMiB"`
	// MaxSharers is how many containers may share the GPU at a time, 0 for no
	// limit.
	MaxSharers int `json:"maxSharers,omitempty"`
	// NUMANode is the GPU's NUMA node, −1 when unknown.
	NUMANode int `json:"numa"`
	// Healthy is false while the GPU takes no new containers.
	Healthy bool `json:"healthy"`
	// Cordoned is true while AnnotationCordonedGPUs names it; then it is not Healthy.
	Cordoned bool `json:"cordoned,omitempty"`
	// Reason is why it is not Healthy, as half a sentence; empty when it is.
	Reason string `json:"reason,omitempty"`
	// Resources that the plugin serves from this GPU.
	Resources []string `json:"resources"`
}

// Encode returns the canonical JSON of v.
func (v Inventory) Encode() (string, error) {
	v.Version = CodecVersion
	if err := v.Validate(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

// DecodeInventory parses the value of AnnotationGPUs.
func DecodeInventory(s string) (Inventory, error) {
	var v Inventory
	if err := decodeStrict(s, &v); err != nil {
		return Inventory{}, fmt.Errorf("annotation %s: %w", AnnotationGPUs, err)
	}
	if err := v.Validate(); err != nil {
		return Inventory{}, fmt.Errorf("annotation %s: %w", AnnotationGPUs, err)
	}
	return v, nil
}

// Validate reports the first field that holds no legal value.
func (v Inventory) Validate() error {
	if v.Version != CodecVersion {
		return fmt.Errorf("field v is %d, must be %d", v.Version, CodecVersion)
	}
	uuids, ids := map[string]bool{}, map[string]bool{}
	for i, g := range v.GPUs {
		switch {
		case g.UUID == "" || uuids[g.UUID]:
			return fmt.Errorf("field gpus[%d].uuid is %q, must be set and unique", i, g.UUID)
		case g.ID == "" || ids[g.ID]:
			return fmt.Errorf("field gpus[%d].id is %q, must be set and unique", i, g.ID)
		case (g.MIG == "") != (g.Card == ""):
			return fmt.Errorf("fields gpus[%d].mig and card are %q and %q, must be set for a MIG instance and empty for a GPU", i, g.MIG, g.Card)
		case g.MemoryMiB <= 0:
			return fmt.Errorf("field gpus[%d].memoryMiB is %d, must be above 0", i, g.MemoryMiB)
		case g.MaxSharers < 0:
			return fmt.Errorf("field gpus[%d].maxSharers is %d, must be 0 or more", i, g.MaxSharers)
		}
		uuids[g.UUID], ids[g.ID] = true, true
	}
	return nil
}
