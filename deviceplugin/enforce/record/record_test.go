// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
)

func container(devices ...string) enforce.Container {
	return enforce.Container{
		ID:     enforce.ContainerID("r", devices),
		Shares: []enforce.Share{{UUID: "GPU-a", Index: 1, MemoryMiB: 10240, ComputeMilli: 250}}, Processes: 2,
	}
}

// TestLife: a record survives a restart, is replaced whole, and goes when its
// container has gone, never while it is young, never what is not ours.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b := container("a"), container("b")
	for _, c := range []enforce.Container{a, b} {
		if err := s.Save(c); err != nil {
			t.Fatal(err)
		}
	}
	a.Shares[0].MemoryMiB = 5
	if err := s.Save(a); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if got, known, err := s.Load(a.ID); err != nil || !known || !reflect.DeepEqual(got, a) {
		t.Errorf("Load = %+v, %t, %v; want %+v", got, known, err, a)
	}
	foreign := filepath.Join(dir, "lost+found.json")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Keep(nil); err != nil || len(removed) != 0 {
		t.Errorf("young records: removed %v, %v", removed, err)
	}
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{foreign, s.file(a.ID), s.file(b.ID)} {
		if err := os.Chtimes(name, past, past); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := s.Keep(map[string]bool{a.ID: true}); err != nil || !reflect.DeepEqual(removed, []string{b.ID}) {
		t.Errorf("removed %v, %v; want %s", removed, err, b.ID)
	}
	if all, err := s.All(); err != nil || len(all) != 1 || all[0].ID != a.ID {
		t.Errorf("All = %+v, %v", all, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a foreign file was removed:", err)
	}
}

// TestDamage: a record that cannot be trusted is an error, the others are read.
func TestDamage(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	good, half, swapped := container("good"), container("half"), container("swapped")
	for _, c := range []enforce.Container{good, swapped} {
		if err := s.Save(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.file(half.ID), []byte(`{"ID":"`), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(s.file(good.ID))
	if err := os.WriteFile(s.file(swapped.ID), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.All()
	if err == nil || len(all) != 1 || all[0].ID != good.ID {
		t.Errorf("All = %+v, %v", all, err)
	}
	if _, known, err := s.Load("nobody"); known || err != nil {
		t.Errorf("an unknown container: %t, %v", known, err)
	}
}
