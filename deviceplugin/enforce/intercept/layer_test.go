// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/interceptor"
)

func newLayer(t *testing.T, library string) (*Layer, string) {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, libraryName), []byte(library), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := New(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	return l, state
}

var container = enforce.Container{
	ID:     enforce.ContainerID("r", []string{"b", "a"}),
	Shares: []enforce.Share{{UUID: "GPU-fef8089b-4820-abfc-e83e-94318197576e", MemoryMiB: 10240, ComputeMilli: 250}},
}

// TestABudgetPerContainer: the mounts exist, the limit is what was asked for.
func TestABudgetPerContainer(t *testing.T) {
	l, state := newLayer(t, "code")
	edits, err := l.Prepare(container)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range edits.Mounts {
		if _, err := os.Stat(m.Host); err != nil {
			t.Errorf("mount %s: %v", m.Container, err)
		}
		if writable := m.Container == interceptor.MountPath+"/"+interceptor.UsageFile; m.ReadOnly == writable {
			t.Errorf("mount %s: read-only %t", m.Container, m.ReadOnly)
		}
	}
	r, err := interceptor.Open(filepath.Join(state, "containers", container.ID))
	if err != nil {
		t.Fatal(err)
	}
	use, err := r.Usage()
	if err != nil || len(use) != 1 {
		t.Errorf("usage %+v, error %v", use, err)
	}
	if err := l.Start(container.ID, 1); err != nil {
		t.Error(err)
	}
	if err := l.Start(enforce.ContainerID("r", nil), 0); err != nil {
		t.Errorf("a container without a budget: %v", err)
	}
	edits, err = l.Prepare(enforce.Container{ID: "w", Whole: true})
	if err != nil || len(edits.Mounts) != 0 {
		t.Errorf("whole GPUs: %+v, %v", edits, err)
	}
}

// TestMeasure: the account names the GPU; a container without a budget has none.
func TestMeasure(t *testing.T) {
	l, _ := newLayer(t, "code")
	if _, err := l.Prepare(container); err != nil {
		t.Fatal(err)
	}
	got, err := enforce.Meter(l).Measure(container.ID)
	if err != nil || len(got) != 1 || !enforce.SameUUID(got[0].UUID, container.Shares[0].UUID) || got[0].Refusals != 0 {
		t.Errorf("measured %+v, %v", got, err)
	}
	if none, err := l.Measure(enforce.ContainerID("r", nil)); err != nil || none != nil {
		t.Errorf("a container without a budget: %+v, %v", none, err)
	}
}

// TestUpgradeKeepsTheOldFile guards D 66 (HAMi #727, #753): replacing the library
// in place crashed every running pod.
func TestUpgradeKeepsTheOldFile(t *testing.T) {
	old, state := newLayer(t, "version 1")
	held, err := os.Open(old.library)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, libraryName), []byte("version 2"), 0o600); err != nil {
		t.Fatal(err)
	}
	young, err := New(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := held.Stat()
	if after, err := os.Stat(old.library); err != nil || !os.SameFile(before, after) {
		t.Errorf("the old library was touched: %v", err)
	}
	if young.library == old.library {
		t.Error("the new library has the old one's name")
	}
}

// TestKeep removes budgets of ended containers, never young ones, never what is not
// ours.
func TestKeep(t *testing.T) {
	l, state := newLayer(t, "code")
	if _, err := l.Prepare(container); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, "containers", container.ID)
	other := filepath.Join(state, "containers", "lost+found")
	if err := os.Mkdir(other, 0o750); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	exists := func(p string) bool { _, err := os.Stat(p); return err == nil }
	for _, step := range []struct {
		name string
		old  bool
		ids  map[string]bool
		want bool
	}{{"young", false, nil, true}, {"in use", true, map[string]bool{container.ID: true}, true}, {"ended", true, nil, false}} {
		if step.old {
			for _, d := range []string{dir, other} {
				if err := os.Chtimes(d, past, past); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Keep(step.ids); err != nil {
			t.Fatal(err)
		}
		if exists(dir) != step.want {
			t.Errorf("%s: budget exists %t, want %t", step.name, exists(dir), step.want)
		}
	}
	if !exists(other) {
		t.Error("a foreign directory was removed")
	}
}

func TestNoLibrary(t *testing.T) {
	if _, err := New(t.TempDir(), t.TempDir()); err == nil {
		t.Error("a missing library is no error")
	}
}
