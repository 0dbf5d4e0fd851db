// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// GPUMemory names the memory of one GPU, in MiB, in reasons. No queue counts it.
const GPUMemory = "gpu-memory"

// Quantity words an amount of a resource for people: "7.5 GPUs", "1 CPU core",
// "1.5 GiB of memory", "2 example.com/fpga".
func Quantity(resource string, a amount.Amount) string {
	if resource == model.ResourceMemory {
		return Number(resource, a) + " of memory"
	}
	if resource == GPUMemory {
		return Number(resource, a) + " of GPU memory"
	}
	one := a == model.Unit(resource)
	if resource == model.ResourceCPU {
		one = a == 1000
	}
	return Number(resource, a) + " " + noun(resource, one)
}

// Number is the amount alone, for sentences that have named the resource:
// "7.5". Amounts of memory keep their unit: "1.5 GiB". Bytes are rounded to
// thousandths of the unit, everything else is exact.
func Number(resource string, a amount.Amount) string {
	switch {
	case a == amount.Unlimited:
		return "unlimited"
	case resource == model.ResourceMemory:
		return memory(a)
	case resource == GPUMemory:
		return memory(a << 20)
	case resource == model.ResourceCPU || model.Unit(resource) == 1000:
		return thousandths(int64(a))
	}
	return strconv.FormatInt(int64(a), 10)
}

// noun names a resource after a number.
func noun(resource string, one bool) string {
	plural := "s"
	if one {
		plural = ""
	}
	switch {
	case resource == model.ResourceGPU:
		return "GPU" + plural
	case model.IsGPUModel(resource):
		return strings.TrimPrefix(resource, model.ResourceGPUModelPrefix) + " GPU" + plural
	case resource == model.ResourceCPU:
		return "CPU core" + plural
	case resource == model.ResourcePods:
		return "pod slot" + plural
	case strings.HasPrefix(resource, model.ResourceMIGPrefix):
		return resource + " instance" + plural
	}
	return resource
}

// memory words bytes in the largest binary unit that they reach.
func memory(a amount.Amount) string {
	bytes, sign := uint64(a), ""
	if a < 0 {
		bytes, sign = uint64(-a), "-"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	shift := 0
	for shift+10 < 64 && shift/10+1 < len(units) && bytes>>(shift+10) > 0 {
		shift += 10
	}
	whole := bytes >> shift
	rest := bytes & (1<<shift - 1)
	// Ten bits less keep the product with 1000 below 2^64.
	if shift > 50 {
		rest >>= 10
		rest = (rest*1000 + 1<<(shift-11)) >> (shift - 10)
	} else if shift > 0 {
		rest = (rest*1000 + 1<<(shift-1)) >> shift
	}
	return sign + thousandths(int64(whole*1000+rest)) + " " + units[shift/10]
}

// thousandths writes x/1000 without trailing zeros.
func thousandths(x int64) string {
	sign := ""
	if x < 0 {
		sign, x = "-", -x
	}
	s := fmt.Sprintf("%s%d.%03d", sign, x/1000, x%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
