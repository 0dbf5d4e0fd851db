// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package enforce

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake is a layer that notes what it was asked to hold.
type fake struct {
	level   string
	compute bool
	fail    error
	got     Container
	started []string
}

func (f *fake) Level() string      { return f.level }
func (f *fake) HoldsCompute() bool { return f.compute }
func (f *fake) Prepare(c Container) (Edits, error) {
	f.got = c
	return Edits{Env: map[string]string{"BY": f.level, f.level: "1"}, CDIDevices: []string{f.level}, Mounts: []Mount{{Host: f.level}}}, f.fail
}
func (f *fake) Start(id string, _ int) error { f.started = append(f.started, id); return f.fail }
func (f *fake) Keep(map[string]bool) error   { return f.fail }

// TestStack: the first layer names the level and wins over the others, all act, and
// compute is held once.
func TestStack(t *testing.T) {
	for _, compute := range []bool{false, true} {
		strong, weak := &fake{level: LevelMPS, compute: compute}, &fake{level: LevelIntercept, compute: true}
		s := Stack(strong, weak)
		c := Container{ID: "c", Shares: []Share{{UUID: "a", MemoryMiB: 5, ComputeMilli: 250}}}
		e, err := s.Prepare(c)
		if err != nil || s.Level() != LevelMPS || e.Env["BY"] != LevelMPS || e.Env[LevelIntercept] != "1" || len(e.CDIDevices) != 2 || len(e.Mounts) != 2 {
			t.Errorf("level %s, edits %+v, error %v", s.Level(), e, err)
		}
		want := int64(250)
		if compute {
			want = 1000
		}
		if weak.got.Shares[0].ComputeMilli != want || weak.got.Shares[0].MemoryMiB != 5 || strong.got.Shares[0].ComputeMilli != 250 || c.Shares[0].ComputeMilli != 250 {
			t.Errorf("holding compute %t: the weaker layer was given %+v", compute, weak.got)
		}
		if err := s.Start("c", 1); err != nil || len(strong.started)+len(weak.started) != 2 {
			t.Errorf("started %v and %v, error %v", strong.started, weak.started, err)
		}
	}
}

// TestStackFailsClosed: one layer that cannot hold its part refuses the container.
func TestStackFailsClosed(t *testing.T) {
	wrong := errors.New("wrong")
	for _, layers := range [][]Layer{{&fake{fail: wrong}, &fake{}}, {&fake{}, &fake{fail: wrong}}} {
		s := Stack(layers...)
		if _, err := s.Prepare(Container{}); !errors.Is(err, wrong) {
			t.Errorf("Prepare: %v", err)
		}
		if err := s.Start("c", 1); !errors.Is(err, wrong) {
			t.Errorf("Start: %v", err)
		}
		if err := s.Keep(nil); !errors.Is(err, wrong) {
			t.Errorf("Keep: %v", err)
		}
	}
}

// meter is a layer that measures.
type meter struct {
	fake
	used []Measured
}

func (m *meter) Measure(string) ([]Measured, error) { return m.used, m.fail }

// TestTwoMeters count the same memory: nothing is doubled, and what each refused or held
// back is added.
func TestTwoMeters(t *testing.T) {
	strong := &meter{used: []Measured{{UUID: "GPU-a", UsedBytes: 5, Refusals: 1, Throttled: time.Second}}}
	weak := &meter{used: []Measured{{UUID: "a", UsedBytes: 7, Refusals: 2, Throttled: time.Minute}, {UUID: "b", UsedBytes: 3}}}
	got, err := Stack(strong, &fake{}, weak).(Meter).Measure("c")
	want := []Measured{{UUID: "GPU-a", UsedBytes: 5, Refusals: 3, Throttled: 61 * time.Second}, {UUID: "b", UsedBytes: 3}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("measured %+v, %v; want %+v", got, err, want)
	}
}

// TestLevels of a layer alone and of a stack.
func TestLevels(t *testing.T) {
	for want, l := range map[string]Layer{
		"none": None{}, "mps": Stack(&fake{level: LevelMPS}), "cgroup intercept": Stack(&fake{level: LevelCgroup}, &fake{level: LevelIntercept}),
	} {
		if got := strings.Join(Levels(l), " "); got != want {
			t.Errorf("levels %q, want %q", got, want)
		}
	}
}

// TestStackMeasures what those of its layers tell that measure.
func TestStackMeasures(t *testing.T) {
	m := &meter{used: []Measured{{UUID: "a", UsedBytes: 5}}}
	s := Stack(&fake{}, m).(Meter)
	if got, err := s.Measure("c"); err != nil || len(got) != 1 || got[0] != m.used[0] {
		t.Errorf("measured %v, %v", got, err)
	}
	m.fail = errors.New("wrong")
	if _, err := s.Measure("c"); !errors.Is(err, m.fail) {
		t.Errorf("error %v", err)
	}
}
