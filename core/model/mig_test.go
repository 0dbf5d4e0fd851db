// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

// TestMIGInstancesCostTheirPartOfTheCard: by compute slices, as the profile's
// name says; a whole card's instances never cost more than the card.
func TestMIGInstancesCostTheirPartOfTheCard(t *testing.T) {
	share, asGPUs := NewCluster(Settings{}), NewCluster(Settings{MIGSlicesAsGPUs: true})
	for _, tc := range []struct {
		resource      string
		milli, asGPUs int64
	}{
		{"mig-1g.5gb", 142, 1000},
		{"mig-1g.5gb.me", 142, 1000},
		{"mig-1g.10gb", 142, 1000}, // more memory, the same compute
		{"mig-2g.10gb", 285, 2000},
		{"mig-3g.20gb", 428, 3000},
		{"mig-4g.20gb", 571, 4000},
		{"mig-7g.40gb", 1000, 7000},
		{"mig-1c.3g.20gb", 142, 1000}, // one compute slice of an instance of three
		{"mig-1g.6gb", 250, 1000},     // A30
		{"mig-1g.6gb.me", 250, 1000},
		{"mig-4g.24gb", 1000, 4000},
		{"mig-2g.24gb", 285, 2000}, // H100 with 96 GB, not half an A30
		{"mig-2g.48gb.gfx", 500, 2000},
		{"mig-8g.80gb", 1000, 8000},
		{"mig-99999999999999999999g.1gb", 1000, 1000000},
		{"mig-", 0, 0},
		{"mig-all", 0, 0},
		{"cpu", 0, 0},
		{"nvidia.com/gpu", 0, 0},
	} {
		if got := share.migMilli(tc.resource); got != tc.milli {
			t.Errorf("%s costs %d thousandths of a GPU, want %d", tc.resource, got, tc.milli)
		}
		if got := asGPUs.migMilli(tc.resource); got != tc.asGPUs {
			t.Errorf("%s with slices as GPUs costs %d, want %d", tc.resource, got, tc.asGPUs)
		}
	}
	for _, layout := range [][]string{
		{"7g.40gb"},
		{"4g.20gb", "3g.20gb"},
		{"3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"},
		{"1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb.me"},
		{"1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"},
		{"1g.6gb", "1g.6gb", "1g.6gb", "1g.6gb"},
		{"2g.12gb", "1g.6gb", "1g.6gb"},
	} {
		sum := int64(0)
		for _, profile := range layout {
			sum += share.migMilli(ResourceMIGPrefix + profile)
		}
		if sum > 1000 {
			t.Errorf("the instances %v of one card cost %d thousandths of a GPU", layout, sum)
		}
	}
}
