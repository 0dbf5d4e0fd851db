// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// fakeCache holds the named programs in a cache of the test's.
func fakeCache(t *testing.T, names ...string) Dir {
	t.Helper()
	t.Setenv("FAIRSLICE_CACHE", t.TempDir())
	root, err := Checkout()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cacheDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(dir.Path(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCachedProgramsAreFoundAtOnceAndInSilence(t *testing.T) {
	want := fakeCache(t, Etcd, Kwok)
	var progress strings.Builder
	began := time.Now()
	got, err := Ensure(t.Context(), &progress, Etcd, Kwok)
	if err != nil || got != want || progress.Len() > 0 {
		t.Errorf("Ensure returns %s and says %q (error %v), want %s and nothing", got, progress.String(), err, want)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Ensure of cached programs took %s, want less than a second", took)
	}
}

func TestUnknownProgramIsRefused(t *testing.T) {
	fakeCache(t)
	_, err := Ensure(t.Context(), os.Stderr, "kube-proxy")
	if err == nil || !strings.Contains(err.Error(), `"kube-proxy"`) || !strings.Contains(err.Error(), Kubelet) {
		t.Errorf("error is %v, want one that names the program and the known ones", err)
	}
}

func TestOneBuildsWhileTheOtherWaits(t *testing.T) {
	dir := fakeCache(t)
	unlock, err := lock(t.Context(), string(dir)+".lock", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var progress strings.Builder
	if _, err := Ensure(short, &progress, Ctr); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ensure under another's lock ends with %v, want the deadline", err)
	}
	if !strings.Contains(progress.String(), "another process") {
		t.Errorf("progress is %q, want it to say what it waits for", progress.String())
	}
	// The other has built it: nothing is left to build.
	if err := os.WriteFile(dir.Path(Ctr), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := Ensure(t.Context(), &progress, Ctr); err != nil {
		t.Error(err)
	}
}
