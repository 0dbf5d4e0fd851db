// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hierarchy is a mounted control-group file system.
type hierarchy struct {
	path    string
	unified bool // version 2
}

// hierarchies lists those of this machine: one, or a dozen with version 1, or
// both.
func hierarchies() ([]hierarchy, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	for line := range strings.Lines(string(raw)) {
		// 36 35 98:0 /root /mount/point options … - type source options
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup" || kind == "cgroup2" {
			found = append(found, hierarchy{fields[4], kind == "cgroup2"})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("this machine has no control groups mounted, and the kubelet needs them")
	}
	return found, nil
}

// makeCgroups makes the control group in every hierarchy: the kubelet wants its
// root to exist.
func makeCgroups(group string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		at := h.path
		for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
			if h.unified {
				enableControllers(at)
			}
			parent := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("make control group %s: %w", at, err)
			}
			if err := inheritCPUSet(parent, at); err != nil {
				return err
			}
		}
		if h.unified {
			enableControllers(at)
		}
	}
	return nil
}

// enableControllers passes on each controller that can be: which ones a group
// has depends on its parents, and the kubelet complains about those it misses.
func enableControllers(group string) {
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return
	}
	for controller := range strings.FieldsSeq(string(raw)) {
		// One that cannot be passed on is one that the kubelet complains about.
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
}

// inheritCPUSet fills a new version 1 cpuset, which starts empty and then takes
// no process.
func inheritCPUSet(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		now, err := os.ReadFile(filepath.Join(child, file))
		if errors.Is(err, os.ErrNotExist) || len(bytes.TrimSpace(now)) > 0 {
			continue
		}
		if err != nil {
			return err
		}
		value, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(value)) == 0 {
			continue // version 2: empty means the parent's
		}
		if err := os.WriteFile(filepath.Join(child, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups kills what is left in the control groups of that name, in every
// hierarchy, and removes them with all below.
func removeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return nil //nolint:nilerr // without a hierarchy none was made
	}
	var errs []error
	for _, h := range all {
		errs = append(errs, removeCgroup(filepath.Join(h.path, name)))
	}
	return errors.Join(errs...)
}

func removeCgroup(top string) error {
	var err error
	// A group that a process has just left is busy for a moment.
	for range 200 {
		var groups []string
		// The visit goes on past groups that vanish meanwhile, so it never fails.
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		if len(groups) == 0 {
			return nil
		}
		slices.Reverse(groups) // the deepest first
		for _, group := range groups {
			killGroup(group)
			if e := os.Remove(group); e != nil && !errors.Is(e, os.ErrNotExist) {
				err = e
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func killGroup(group string) {
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		return
	}
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
