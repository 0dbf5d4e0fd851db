// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package enforce

import (
	"errors"
	"slices"
)

// ComputeHolder is a Layer that also holds compute shares, so that a weaker layer
// below it must not hold them a second time.
type ComputeHolder interface{ HoldsCompute() bool }

// Stack lets several layers hold the same containers, the strongest first: what it
// does not cover, the next one does. Its level is that of the first.
func Stack(layers ...Layer) Layer {
	if len(layers) == 1 {
		return layers[0]
	}
	return stack(layers)
}

type stack []Layer

func (s stack) Level() string { return s[0].Level() }

// Prepare merges the edits; where two set one variable, the stronger layer's
// value stays.
func (s stack) Prepare(c Container) (Edits, error) {
	out := Edits{Env: map[string]string{}}
	for _, l := range s {
		e, err := l.Prepare(c)
		if err != nil {
			return Edits{}, err
		}
		for name, value := range e.Env {
			if _, set := out.Env[name]; !set {
				out.Env[name] = value
			}
		}
		out.Mounts = append(out.Mounts, e.Mounts...)
		out.CDIDevices = append(out.CDIDevices, e.CDIDevices...)
		if h, ok := l.(ComputeHolder); ok && h.HoldsCompute() {
			c.Shares = withoutCompute(c.Shares)
		}
	}
	return out, nil
}

func withoutCompute(shares []Share) []Share {
	out := make([]Share, len(shares))
	for i, s := range shares {
		out[i], out[i].ComputeMilli = s, 1000
	}
	return out
}

func (s stack) Start(id string, processes int) error {
	for _, l := range s {
		if err := l.Start(id, processes); err != nil {
			return err
		}
	}
	return nil
}

func (s stack) Keep(ids map[string]bool) error {
	var failed []error
	for _, l := range s {
		failed = append(failed, l.Keep(ids))
	}
	return errors.Join(failed...)
}

// Levels lists what holds the containers of a layer, strongest first.
func Levels(l Layer) []string {
	layers, stacked := l.(stack)
	if !stacked {
		return []string{l.Level()}
	}
	out := make([]string, 0, len(layers))
	for _, each := range layers {
		out = append(out, each.Level())
	}
	return out
}

// Measure merges the accounts of those layers that measure. They count the same
// memory, so what a container uses of a GPU is what the strongest of them says, even if
// a weaker one says more; what each layer refused or held back is its own and adds up.
func (s stack) Measure(id string) ([]Measured, error) {
	var (
		out    []Measured
		failed []error
	)
	for _, l := range s {
		m, measures := l.(Meter)
		if !measures {
			continue
		}
		accounts, err := m.Measure(id)
		failed = append(failed, err)
		for _, a := range accounts {
			at := slices.IndexFunc(out, func(o Measured) bool { return SameUUID(o.UUID, a.UUID) })
			if at < 0 {
				out = append(out, a)
				continue
			}
			out[at].Refusals += a.Refusals
			out[at].Throttled += a.Throttled
		}
	}
	return out, errors.Join(failed...)
}
