// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Dir is a folder of the cache; it holds executables.
type Dir string

// Path of a program. Only the names given to Ensure are sure to exist.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// Ensure makes the named programs available and returns their folder. What is
// missing is built, with progress in whole lines on the writer; when all are
// there, nothing is written.
//
// The cache lies in $FAIRSLICE_CACHE, else in fairslice below the user's cache
// folder ($XDG_CACHE_HOME, $HOME/.cache). Ensure must run inside a checkout of
// the repository, whose nested modules hold the pins.
func Ensure(ctx context.Context, progress io.Writer, names ...string) (Dir, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	dir, err := cacheDir(root)
	if err != nil {
		return "", err
	}
	missing, err := absent(dir, names)
	if err != nil || len(missing) == 0 {
		return dir, err
	}
	unlock, err := lock(ctx, string(dir)+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another process may have built them while this one waited.
	if missing, err = absent(dir, missing); err != nil || len(missing) == 0 {
		return dir, err
	}
	return dir, build(ctx, progress, root, dir, missing)
}

// Checkout returns the root of the repository that holds the working directory.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		raw, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(raw), "module github.com/fairslice/fairslice\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("folder %s is in no checkout of github.com/fairslice/fairslice: the test bed finds its pinned versions there", dir)
		}
	}
}

// CacheRoot is the folder below which the test bed keeps what it built.
func CacheRoot() (string, error) {
	if dir := os.Getenv("FAIRSLICE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for built programs (set FAIRSLICE_CACHE to choose one): %w", err)
	}
	return filepath.Join(base, "fairslice"), nil
}

func cacheDir(root string) (Dir, error) {
	base, err := CacheRoot()
	if err != nil {
		return "", err
	}
	key, err := key(root)
	if err != nil {
		return "", err
	}
	return Dir(filepath.Join(base, "tools", key)), nil
}

// absent returns those of the named programs that the cache does not hold.
func absent(dir Dir, names []string) ([]string, error) {
	var missing []string
	for _, name := range names {
		if _, ok := programs[name]; !ok {
			return nil, fmt.Errorf("program %q is unknown, must be one of %s", name, strings.Join(All(), ", "))
		}
		if _, err := os.Stat(dir.Path(name)); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, name)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// lock takes the exclusive lock on path; the kernel releases it when the
// process ends, however it ends.
func lock(ctx context.Context, path string, progress io.Writer) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			fmt.Fprintln(progress, "test bed: another process is building the programs, waiting for it …")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
