// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Unlimited is how an Amount without an upper bound is written.
const Unlimited = "unlimited"

// Names of resources in quota, limit and overQuotaWeight that stand for GPUs,
// however a container asks for them.
const (
	// QuotaGPU counts GPUs of every model; 500m is half a GPU.
	QuotaGPU = "gpu"
	// QuotaGPUModelPrefix precedes a model as in LabelGPUModel and counts GPUs
	// of that model alone: "gpu.NVIDIA-A100-SXM4-40GB". A GPU counts under its
	// model and under QuotaGPU.
	QuotaGPUModelPrefix = QuotaGPU + "."
)

// Amount is a Kubernetes quantity that is zero or more, or the word
// "unlimited". It is written as a number or a string: 8, "500m", "64Gi",
// "unlimited".
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=32
type Amount struct {
	quantity  resource.Quantity `json:"-"`
	unlimited bool              `json:"-"`
}

// AmountOf returns the Amount that equals q.
func AmountOf(q resource.Quantity) Amount { return Amount{quantity: q} }

// UnlimitedAmount returns the Amount that no request exceeds.
func UnlimitedAmount() Amount { return Amount{unlimited: true} }

// ParseAmount reads what a user may write: a quantity of zero or more, or
// "unlimited".
func ParseAmount(s string) (Amount, error) {
	if s == Unlimited {
		return UnlimitedAmount(), nil
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() < 0 {
		return Amount{}, fmt.Errorf("amount %q must be a quantity of zero or more, or %q", s, Unlimited)
	}
	return AmountOf(q), nil
}

// IsUnlimited reports whether a has no upper bound.
func (a Amount) IsUnlimited() bool { return a.unlimited }

// Quantity returns the amount, or false if it is unlimited.
func (a Amount) Quantity() (resource.Quantity, bool) { return a.quantity, !a.unlimited }

// String returns the canonical text, which ParseAmount reads back.
func (a Amount) String() string {
	if a.unlimited {
		return Unlimited
	}
	return a.quantity.String()
}

// MarshalJSON writes the canonical text.
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads a number or a string.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	parsed, err := ParseAmount(text)
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// DeepCopyInto copies a into out.
func (a *Amount) DeepCopyInto(out *Amount) {
	out.unlimited = a.unlimited
	out.quantity = a.quantity.DeepCopy()
}

// DeepCopy returns a copy of a.
func (a *Amount) DeepCopy() *Amount {
	if a == nil {
		return nil
	}
	out := new(Amount)
	a.DeepCopyInto(out)
	return out
}
