// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package enforce

import "errors"

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

// Measure adds what those layers tell that measure.
func (s stack) Measure(id string) ([]Measured, error) {
	var (
		out    []Measured
		failed []error
	)
	for _, l := range s {
		if m, ok := l.(Meter); ok {
			measured, err := m.Measure(id)
			out, failed = append(out, measured...), append(failed, err)
		}
	}
	return out, errors.Join(failed...)
}
