// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

// Layouts of MIG.
const (
	mixed = "- {base: a100-sxm4-40gb, mig: {3g.20gb: 1, 1g.5gb: 2, 1g.5gb+me: 1}}\n- {base: a100-sxm4-40gb}\n- {base: a100-sxm4-40gb, mig: {}}\n- {base: a100-sxm4-40gb, mig: {1g.5gb: 3}}"
	alike = "- {count: 2, base: a100-sxm4-40gb, mig: {2g.10gb: 3}}"
	plain = "- {count: 2, base: a100-sxm4-40gb}"
)

// strategies are what is advertised, published and labelled of each layout.
var strategies = []struct {
	name, strategy, gpus string
	prefix               string
	offers               map[string]int
	models               []string
	label                map[string]string
}{
	{
		name: "mixed, beside a GPU without MIG", strategy: "mixed", gpus: mixed,
		offers: map[string]int{whole: 1, slice: 100, memory: 40, small: 5, "nvidia.com/mig-1g.5gb.me": 1, "nvidia.com/mig-3g.20gb": 1},
		models: []string{"NVIDIA-A100-SXM4-40GB"},
		label:  map[string]string{v1alpha1.LabelGPUIsolation: "none", v1alpha1.LabelGPUCount: "3", v1alpha1.LabelGPUMemory: "4864"},
	},
	{
		name: "mixed, instances alone", strategy: "mixed", gpus: alike, prefix: "fairslice.io/mig-",
		offers: map[string]int{"fairslice.io/mig-2g.10gb": 6},
		models: []string{"NVIDIA-A100-SXM4-40GB"},
		label:  map[string]string{v1alpha1.LabelGPUIsolation: "mig", v1alpha1.LabelGPUCount: "2", v1alpha1.LabelGPUMemory: "9856"},
	},
	{
		name: "single", strategy: "single", gpus: alike,
		offers: map[string]int{whole: 6},
		models: []string{"NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"},
		label:  map[string]string{v1alpha1.LabelGPUIsolation: "mig", v1alpha1.LabelGPUModel: "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"},
	},
	{
		name: "single, no GPU in MIG mode", strategy: "single", gpus: plain,
		offers: map[string]int{whole: 2, slice: 200, memory: 80}, models: []string{"NVIDIA-A100-SXM4-40GB"},
		label: map[string]string{v1alpha1.LabelGPUIsolation: "none"},
	},
	{
		name: "none", strategy: "none", gpus: mixed,
		offers: map[string]int{whole: 1, slice: 100, memory: 40}, models: []string{"NVIDIA-A100-SXM4-40GB"},
		label: map[string]string{v1alpha1.LabelGPUIsolation: "none", v1alpha1.LabelGPUCount: "1"},
	},
}

// TestMIGStrategies plays the table.
func TestMIGStrategies(t *testing.T) {
	for _, tc := range strategies {
		t.Run(tc.name, func(t *testing.T) {
			w := newMIGWorld(t, tc.strategy, tc.gpus)
			if tc.prefix != "" {
				w.opts.MIG.ResourcePrefix = tc.prefix
			}
			var resources []string
			for r := range tc.offers {
				resources = append(resources, r)
			}
			w.serve(resources...)
			if diff := cmp.Diff(tc.offers, w.offers()); diff != "" {
				t.Errorf("healthy devices (-want +got):\n%s", diff)
			}
			var models []string
			served := map[string]int{}
			for _, g := range w.inventory().GPUs {
				if !slices.Contains(models, g.Model) {
					models = append(models, g.Model)
				}
				for _, r := range g.Resources {
					served[r]++
				}
			}
			if diff := cmp.Diff(tc.models, models); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			for r, n := range tc.offers {
				if r == slice || r == memory {
					n = tc.offers[whole]
				}
				if served[r] != n {
					t.Errorf("%d entries of the inventory serve %s, want %d", served[r], r, n)
				}
			}
			for key, want := range tc.label {
				if got := w.node().Labels[key]; got != want {
					t.Errorf("label %s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// TestInvalidMIGLayouts are refused with one sentence.
func TestInvalidMIGLayouts(t *testing.T) {
	for _, tc := range []struct{ name, gpus, err string }{
		{"a GPU that is not in MIG mode", "- {base: a100-sxm4-40gb, mig: {7g.40gb: 1}}\n- {base: a100-sxm4-40gb}", "is in MIG mode and GPU 1 ("},
		{"a GPU without instances", "- {base: a100-sxm4-40gb, mig: {7g.40gb: 1}}\n- {base: a100-sxm4-40gb, mig: {}}", "has no MIG instances: make some, or use the strategy mixed"},
		{"two profiles on a GPU", "- {base: a100-sxm4-40gb, mig: {3g.20gb: 1, 1g.5gb: 1}}", "MIG instances differ, 3g.20gb of NVIDIA A100-SXM4-40GB on GPU 0 and 1g.5gb of NVIDIA A100-SXM4-40GB on GPU 0: make all alike, or use the strategy mixed"},
		{"a profile that differs in an attribute", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 1, 1g.5gb+me: 1}}", "MIG instances differ, 1g.5gb of NVIDIA A100-SXM4-40GB on GPU 0 and 1g.5gb+me"},
		{"two models", "- {base: a100-sxm4-80gb, mig: {1g.10gb: 1}}\n- {base: h100-sxm5-80gb, mig: {1g.10gb: 1}}", "MIG instances differ, 1g.10gb of NVIDIA A100-SXM4-80GB on GPU 0 and 1g.10gb of NVIDIA H100 80GB HBM3 on GPU 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newMIGWorld(t, "single", tc.gpus)
			err := deviceplugin.Run(t.Context(), w.opts)
			if err == nil || !strings.HasPrefix(err.Error(), "option mig-strategy is single, but ") || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one sentence with %q", err, tc.err)
			}
		})
	}
}

// TestSharedGPUInstance: compute instances of one GPU instance have its memory in
// common, so none of them is served.
func TestSharedGPUInstance(t *testing.T) {
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {3g.20gb: 1, 1g.5gb: 1}}")
	w.opts.Library = shared{w.machine}
	w.serve(small)
	if diff := cmp.Diff(map[string]int{small: 1}, w.offers()); diff != "" {
		t.Errorf("healthy devices (-want +got):\n%s", diff)
	}
}

// shared lets the first instance of each card have a sibling.
type shared struct{ *nvml.Simulation }

func (s shared) GPUs() ([]nvml.GPU, error) {
	gpus, err := s.Simulation.GPUs()
	for i := range gpus {
		gpus[i].Instances[0].Shared = true
	}
	return gpus, err
}

// TestMIGOptions are checked.
func TestMIGOptions(t *testing.T) {
	for want, change := range map[string]func(*deviceplugin.Options){
		`option mig-strategy is "both", must be none, single, mixed`:                                              func(o *deviceplugin.Options) { o.MIG.Strategy = "both" },
		`option mig-resource-prefix is "mig-", must be a domain`:                                                  func(o *deviceplugin.Options) { o.MIG.ResourcePrefix = "mig-" },
		`option whole-resource is empty, must be set with --mig-strategy=single, which serves instances under it`: func(o *deviceplugin.Options) { o.MIG.Strategy, o.WholeResource = "single", "" },
		`option rescan-every is 0s, must be above 0`:                                                              func(o *deviceplugin.Options) { o.RescanEvery = 0 },
	} {
		o := deviceplugin.DefaultOptions()
		o.NodeName = "n1"
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	w := newMIGWorld(t, "mixed", "- {base: a100-sxm4-40gb, mig: {1g.5gb: 1}}")
	w.opts.WholeResource = small
	if err := deviceplugin.Run(context.Background(), w.opts); err == nil || !strings.Contains(err.Error(), "makes resource "+small+" of profile 1g.5gb, which another resource has already") {
		t.Errorf("error %v", err)
	}
}
