// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// MilliGPU is an amount of GPU in thousandths, a decimal number of GPUs in the
// file.
type MilliGPU int64

// Bytes is an amount of main memory, a decimal number of MiB in the file.
// Fractions of a byte are cut off.
type Bytes int64

// Millionths is a share of the cluster, a decimal from 0 to 1 in the file.
type Millionths int64

// Seconds is a duration in nanoseconds, a decimal number of seconds in the
// file.
type Seconds int64

// ResourceList holds amounts by model resource name. In the file the keys are
// "gpu" and "gpu.<model>" (decimal GPUs), "cpuMilli", "memoryMiB", and the
// names of other resources; −1 is unlimited.
type ResourceList map[string]amount.Amount

const (
	bytesPerMiB     = 1 << 20
	milliPerGPU     = 1000
	nanosPerSecond  = 1_000_000_000
	millionthsPerOf = 1_000_000
	maxDigits       = 40
)

var errNotNumber = errors.New("must be a number")

// scaled reads a JSON number times unit. exact demands that nothing is left
// over.
func scaled(raw []byte, unit int64, exact bool) (int64, error) {
	text := string(raw)
	if len(text) > maxDigits || strings.HasPrefix(text, `"`) {
		return 0, errNotNumber
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
		return 0, errors.New("number is out of range")
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errNotNumber
	}
	value.Mul(value, new(big.Rat).SetInt64(unit))
	if exact && !value.IsInt() {
		return 0, fmt.Errorf("%s is finer than 1/%d", text, unit)
	}
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	if !whole.IsInt64() {
		return 0, errors.New("number is out of range")
	}
	return whole.Int64(), nil
}

// decimal writes v/unit without loss. unit must have no prime factors but 2
// and 5.
func decimal(v, unit int64) []byte {
	text := new(big.Rat).SetFrac64(v, unit).FloatString(20)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return []byte(text)
}

// UnmarshalJSON reads a decimal number of GPUs with at most three decimals.
func (m *MilliGPU) UnmarshalJSON(raw []byte) error {
	v, err := scaled(raw, milliPerGPU, true)
	*m = MilliGPU(v)
	return err
}

// MarshalJSON writes a decimal number of GPUs.
func (m MilliGPU) MarshalJSON() ([]byte, error) { return decimal(int64(m), milliPerGPU), nil }

// UnmarshalJSON reads a decimal number of MiB.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	v, err := scaled(raw, bytesPerMiB, false)
	*b = Bytes(v)
	return err
}

// MarshalJSON writes a decimal number of MiB.
func (b Bytes) MarshalJSON() ([]byte, error) { return decimal(int64(b), bytesPerMiB), nil }

// UnmarshalJSON reads a decimal number of seconds.
func (s *Seconds) UnmarshalJSON(raw []byte) error {
	v, err := scaled(raw, nanosPerSecond, true)
	*s = Seconds(v)
	return err
}

// MarshalJSON writes a decimal number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return decimal(int64(s), nanosPerSecond), nil }

// UnmarshalJSON reads a decimal share.
func (m *Millionths) UnmarshalJSON(raw []byte) error {
	v, err := scaled(raw, millionthsPerOf, true)
	*m = Millionths(v)
	return err
}

// MarshalJSON writes a decimal share.
func (m Millionths) MarshalJSON() ([]byte, error) { return decimal(int64(m), millionthsPerOf), nil }

// fileKeys are the keys in the file whose names or units differ from the
// model's.
func fileUnit(key string) (name string, unit int64, exact bool) {
	switch {
	case key == "cpuMilli":
		return model.ResourceCPU, 1, true
	case key == "memoryMiB":
		return model.ResourceMemory, bytesPerMiB, false
	case key == model.ResourceGPU || strings.HasPrefix(key, model.ResourceGPUModelPrefix):
		return key, milliPerGPU, true
	}
	return key, 1, true
}

// UnmarshalJSON reads amounts by resource.
func (l *ResourceList) UnmarshalJSON(raw []byte) error {
	pairs, err := members(raw)
	if err != nil {
		return err
	}
	*l = make(ResourceList, len(pairs))
	for _, p := range pairs {
		if p.key == model.ResourceCPU || p.key == model.ResourceMemory {
			return fmt.Errorf("%s: unknown resource; allowed: gpu, gpu.<model>, cpuMilli, memoryMiB, names of other resources", p.key)
		}
		name, unit, exact := fileUnit(p.key)
		v, err := scaled(p.raw, unit, exact)
		if err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		switch {
		case v == -unit:
			(*l)[name] = amount.Unlimited
		case v < 0:
			return fmt.Errorf("%s: is %s; allowed: -1 (unlimited) or at least 0", p.key, p.raw)
		default:
			(*l)[name] = amount.Amount(v)
		}
	}
	return nil
}

// MarshalJSON writes amounts by resource, keys in byte order.
func (l ResourceList) MarshalJSON() ([]byte, error) {
	out := make(map[string]json.RawMessage, len(l))
	for name, v := range l {
		key := name
		switch name {
		case model.ResourceCPU:
			key = "cpuMilli"
		case model.ResourceMemory:
			key = "memoryMiB"
		}
		_, unit, _ := fileUnit(key)
		if v == amount.Unlimited {
			out[key] = json.RawMessage("-1")
			continue
		}
		out[key] = decimal(int64(v), unit)
	}
	return json.Marshal(out)
}

// Names returns the resources in byte order.
func (l ResourceList) Names() []string {
	names := make([]string, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
