// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
)

func assignment() Assignment {
	return Assignment{
		Version: CodecVersion, PodUID: "u1", Node: "n1",
		Containers: []ContainerAssignment{{
			Name: "main", Resource: ResourceGPUSlice,
			GPUs: []AssignedGPU{{UUID: "GPU-1", Units: 25, MilliGPU: 250, MemoryMiB: 10240}},
		}},
	}
}

func inventory() Inventory {
	return Inventory{Version: CodecVersion, GPUs: []InventoryGPU{
		{UUID: "GPU-1", ID: "a1", Model: "NVIDIA-A100-SXM4-40GB", MemoryMiB: 40000, NUMANode: -1, Healthy: true, Resources: []string{ResourceWholeGPU}},
		{UUID: "GPU-2", ID: "a2", Index: 1, Model: "NVIDIA-A100-SXM4-40GB", MemoryMiB: 40000},
	}}
}

func TestAssignmentRoundTrip(t *testing.T) {
	want := assignment()
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAssignment(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, want)
	}
}

func TestInventoryRoundTrip(t *testing.T) {
	want := inventory()
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeInventory(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, want)
	}
}

// Each refusal is one sentence that names the field and what it must be.
func TestAssignmentRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Assignment)
		want  string
	}{
		{"no UID", func(a *Assignment) { a.PodUID = "" }, "field uid is empty, must be the pod's UID"},
		{"no node", func(a *Assignment) { a.Node = "" }, "field node is empty, must be the node's name"},
		{"no container name", func(a *Assignment) { a.Containers[0].Name = "" }, `field containers[0].name is empty, must be a container's name`},
		{"a name twice", func(a *Assignment) { a.Containers = append(a.Containers, a.Containers[0]) }, `field containers[1] names container "main" with resource "fairslice.io/gpu-slice" again, must name them once`},
		{"no resource", func(a *Assignment) { a.Containers[0].Resource = "" }, "field containers[0].resource is empty, must be a resource name"},
		{"no units", func(a *Assignment) { a.Containers[0].GPUs[0].Units = 0 }, "field containers[0].gpus[0] must have units above 0"},
		{"more than a GPU", func(a *Assignment) { a.Containers[0].GPUs[0].MilliGPU = 1001 }, "milliGPU from 0 to 1000"},
		{"negative memory", func(a *Assignment) { a.Containers[0].GPUs[0].MemoryMiB = -1 }, "memoryMiB of 0 or more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := assignment()
			c.spoil(&a)
			if _, err := a.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestInventoryRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Inventory)
		want  string
	}{
		{"no UUID", func(v *Inventory) { v.GPUs[0].UUID = "" }, `field gpus[0].uuid is "", must be set and unique`},
		{"a UUID twice", func(v *Inventory) { v.GPUs[1].UUID = "GPU-1" }, `field gpus[1].uuid is "GPU-1", must be set and unique`},
		{"an ID twice", func(v *Inventory) { v.GPUs[1].ID = "a1" }, `field gpus[1].id is "a1", must be set and unique`},
		{"no memory", func(v *Inventory) { v.GPUs[1].MemoryMiB = 0 }, "field gpus[1].memoryMiB is 0, must be above 0"},
		{"fewer sharers than none", func(v *Inventory) { v.GPUs[0].MaxSharers = -1 }, "field gpus[0].maxSharers is -1, must be 0 or more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := inventory()
			c.spoil(&v)
			if _, err := v.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDecodersRefuseOtherText(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "value is not the expected JSON"},
		{"not JSON", "forged", "value is not the expected JSON"},
		{"null", "null", "field v is 0, must be 1"},
		{"another version", `{"v":2}`, "field v is 2, must be 1"},
		{"unknown field", `{"v":1,"colour":"red"}`, `unknown field "colour"`},
		{"two objects", `{"v":1,"uid":"u","node":"n","gpus":[]}{}`, ""},
		{"NaN", `{"v":NaN}`, "value is not the expected JSON"},
		{"fraction", `{"v":1.5}`, "value is not the expected JSON"},
		{"beyond int64", `{"v":1e400}`, "value is not the expected JSON"},
		{"too long", `{"v":1,"uid":"` + strings.Repeat("x", maxCodecBytes) + `"}`, "at most 262144 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := DecodeAssignment(c.text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "annotation fairslice.io/gpu-assignment: ") {
				t.Errorf("assignment: got error %v, want %q", err, c.want)
			}
			if _, err := DecodeInventory(c.text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "annotation fairslice.io/gpus: ") {
				t.Errorf("inventory: got error %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzDecodeAssignment: whatever decodes is valid and encodes to what decodes
// to the same.
func FuzzDecodeAssignment(f *testing.F) {
	good, err := assignment().Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", "null", `{"v":1}`, `{"v":1,"uid":"u","node":"n","containers":null}`, good + good} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := DecodeAssignment(text)
		if err != nil {
			return
		}
		if err := first.Validate(); err != nil {
			t.Fatalf("decoded what is not valid: %v", err)
		}
		again, err := first.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := DecodeAssignment(again); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v became %+v, %v", first, second, err)
		}
	})
}

// FuzzDecodeInventory: as FuzzDecodeAssignment.
func FuzzDecodeInventory(f *testing.F) {
	good, err := inventory().Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", "null", `{"v":1}`, `{"v":1,"gpus":[{}]}`, good + good} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := DecodeInventory(text)
		if err != nil {
			return
		}
		if err := first.Validate(); err != nil {
			t.Fatalf("decoded what is not valid: %v", err)
		}
		again, err := first.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := DecodeInventory(again); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v became %+v, %v", first, second, err)
		}
	})
}
