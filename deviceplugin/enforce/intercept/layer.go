// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/interceptor"
)

const (
	libraryName = "libfairslice.so"
	preloadPath = "/etc/ld.so.preload"
	// youngest budgets are not cleared away: their container may not be on the
	// books yet.
	youngest = time.Minute
)

var inContainer = path.Join(interceptor.MountPath, libraryName)

// Layer implements enforce.Layer.
type Layer struct {
	library, preload string // host paths
	containers       string // directory of budgets
}

// New installs the library of dir under the state directory, next to older ones
// that containers may still use.
func New(dir, state string) (*Layer, error) {
	raw, err := os.ReadFile(filepath.Join(dir, libraryName))
	if err != nil {
		return nil, fmt.Errorf("reading the interceptor: %w", err)
	}
	lib := filepath.Join(state, "lib")
	sum := sha256.Sum256(raw)
	l := &Layer{
		library:    filepath.Join(lib, fmt.Sprintf("libfairslice-%x.so", sum[:8])),
		preload:    filepath.Join(lib, "ld.so.preload"),
		containers: filepath.Join(state, "containers"),
	}
	for _, d := range []string{lib, l.containers} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("making the interceptor's directory: %w", err)
		}
	}
	if err := install(l.library, raw, 0o755); err != nil {
		return nil, err
	}
	return l, install(l.preload, []byte(inContainer+"\n"), 0o644)
}

// install never writes into a file that a process may have mapped.
func install(to string, content []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, content) {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return fmt.Errorf("installing %s: %w", to, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("installing %s: %w", to, err)
	}
	return nil
}

// Level is LevelIntercept.
func (*Layer) Level() string { return enforce.LevelIntercept }

// Prepare writes the container's budget. Whole GPUs need none.
func (l *Layer) Prepare(c enforce.Container) (enforce.Edits, error) {
	if c.Whole {
		return enforce.Edits{}, nil
	}
	var limits interceptor.Limits
	for _, s := range c.Shares {
		limits.Devices = append(limits.Devices, interceptor.DeviceLimit{
			UUID: s.UUID, MemoryBytes: uint64(s.MemoryMiB) << 20, ComputeMilli: uint32(s.ComputeMilli),
		})
	}
	dir := filepath.Join(l.containers, c.ID)
	if _, err := interceptor.Create(dir, limits); err != nil {
		return enforce.Edits{}, err
	}
	return enforce.Edits{Mounts: []enforce.Mount{
		{Host: l.library, Container: inContainer, ReadOnly: true},
		{Host: l.preload, Container: preloadPath, ReadOnly: true},
		{Host: filepath.Join(dir, interceptor.LimitsFile), Container: path.Join(interceptor.MountPath, interceptor.LimitsFile), ReadOnly: true},
		{Host: filepath.Join(dir, interceptor.UsageFile), Container: path.Join(interceptor.MountPath, interceptor.UsageFile)},
	}}, nil
}

// Start empties the budget of what the container's last incarnation held. A
// container without one (whole GPUs, or given its devices before the layer was in
// use) starts as it is.
func (l *Layer) Start(id string, _ int) error {
	r, err := interceptor.Open(filepath.Join(l.containers, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Reset()
}

// Measure reads the container's budget.
func (l *Layer) Measure(id string) ([]enforce.Measured, error) {
	r, err := interceptor.Open(filepath.Join(l.containers, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	devices, err := r.Usage()
	if err != nil {
		return nil, err
	}
	out := make([]enforce.Measured, 0, len(devices))
	for _, d := range devices {
		out = append(out, enforce.Measured{UUID: d.UUID, UsedBytes: d.UsedBytes, Refusals: d.Refusals, Throttled: d.Throttled})
	}
	return out, nil
}

// ours are the names of enforce.ContainerID; nothing else is ever removed.
var ours = regexp.MustCompile(`^[0-9a-f]{20}$`)

// Keep removes budgets of other containers.
func (l *Layer) Keep(ids map[string]bool) error {
	entries, err := os.ReadDir(l.containers)
	if err != nil {
		return fmt.Errorf("listing the budgets: %w", err)
	}
	var failed []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || ids[e.Name()] || !ours.MatchString(e.Name()) || time.Since(info.ModTime()) < youngest {
			continue
		}
		failed = append(failed, os.RemoveAll(filepath.Join(l.containers, e.Name())))
	}
	return errors.Join(failed...)
}
