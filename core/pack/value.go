// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

// scale is how many units of a score are one thousandth of a GPU.
const scale = 1 << 20

// value measures what is left on a node. It is a cost: the GPU thousandths, in
// units of 1/scale, that will not be used.
type value interface {
	of(n *Node, free int64, whole int) int64
}

// kind is the GPU part of classes that differ in CPU and memory only.
type kind struct {
	gpus   int
	milli  int32
	models Models
	// members sorted by CPU.
	members []member
}

type member struct {
	cpu, memory int64
	// weight in 1/scale of all classes, times what its kind is multiplied by.
	weight int64
}

// kinds groups classes. multiply returns a kind's factor in 1/scale.
func kinds(classes []Class, multiply func(*Class) int64) []kind {
	var total int64
	for i := range classes {
		total += classes[i].Weight
	}
	var out []kind
	for i := range classes {
		c := &classes[i]
		if c.GPUs == 0 {
			continue
		}
		if k := len(out) - 1; k < 0 || out[k].gpus != c.GPUs || out[k].milli != c.Milli || out[k].models != c.Models {
			out = append(out, kind{gpus: c.GPUs, milli: c.Milli, models: c.Models})
		}
		k := &out[len(out)-1]
		k.members = append(k.members, member{c.CPUMilli, c.MemoryMiB, c.Weight * multiply(c) / total})
	}
	return out
}

// fragments is FGD's measure: the expected share of the free GPU capacity that
// the next task cannot use.
type fragments struct{ kinds []kind }

func (v *fragments) of(n *Node, free int64, whole int) int64 {
	var sum int64
	for i := range v.kinds {
		k := &v.kinds[i]
		unusable := free - k.usable(n, whole)
		for _, m := range k.members {
			if m.cpu > n.CPUMilli || m.memory > n.MemoryMiB {
				sum += m.weight * free
				continue
			}
			sum += m.weight * unusable
		}
	}
	return sum
}

// usable is the capacity of the GPUs that one task of the kind could use.
func (k *kind) usable(n *Node, whole int) int64 {
	switch {
	case !k.models.Has(n.Model):
		return 0
	case k.milli == Whole && whole < k.gpus:
		return 0
	case k.milli == Whole:
		return int64(whole) * Whole
	}
	var sum int64
	for _, f := range n.Free {
		if f >= k.milli {
			sum += int64(f)
		}
	}
	return sum
}

// copies is how many tasks of the kind the GPUs alone could take.
func (k *kind) copies(n *Node, whole int) int64 {
	switch {
	case !k.models.Has(n.Model):
		return 0
	case k.milli == Whole:
		return int64(whole / k.gpus)
	}
	var sum int64
	for _, f := range n.Free {
		sum += int64(f / k.milli)
	}
	return sum
}

// remainders measures what would be left if copies of one class filled the
// node, expected over classes. Unlike fragments it sees that CPU will run out
// before the GPUs do, and what stays over on each GPU. A part (oneCopyPercent)
// is counted as in fragments.
type remainders struct{ kinds []kind }

const oneCopyPercent = 40

func (v *remainders) of(n *Node, free int64, whole int) int64 {
	var sum int64
	for i := range v.kinds {
		k := &v.kinds[i]
		copies := k.copies(n, whole)
		usable := k.usable(n, whole)
		size := int64(k.gpus) * int64(k.milli)
		for _, m := range k.members {
			count := copies
			if m.cpu > 0 {
				count = min(count, n.CPUMilli/m.cpu)
			}
			if m.memory > 0 {
				count = min(count, n.MemoryMiB/m.memory)
			}
			if count == 0 {
				sum += m.weight * free
				continue
			}
			used := ((100-oneCopyPercent)*count*size + oneCopyPercent*usable) / 100
			sum += m.weight * (free - used)
		}
	}
	return sum
}
