// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/enforce/record"
)

const (
	// Kind of the CDI devices, one per container.
	Kind = "fairslice.io/limit"
	// hookSeconds is how long the runtime waits for the hook.
	hookSeconds = 10
)

// Config of the layer.
type Config struct {
	// CDIDir is where the runtime reads CDI specifications.
	CDIDir string
	// StateDir is seen by the host at the same path; records and the hook's program
	// are kept below it.
	StateDir string
	// Program is the executable with the subcommand "hook", copied for the host.
	Program string
	// NVMLLibrary as the host sees it; empty for the dynamic linker's choice.
	NVMLLibrary string
	// CgroupRoot as the host sees it.
	CgroupRoot string
}

// Layer implements enforce.Layer.
type Layer struct {
	cfg     Config
	hook    string // the program's path on the host
	records *record.Store
	cache   *cdi.Cache
}

// New installs the hook and writes the specifications of all recorded containers
// again: CDI directories are emptied by a reboot.
func New(cfg Config) (*Layer, error) {
	l := &Layer{cfg: cfg}
	var err error
	if l.records, err = record.Open(filepath.Join(cfg.StateDir, "cgroup")); err != nil {
		return nil, err
	}
	if l.cache, err = cdi.NewCache(cdi.WithSpecDirs(cfg.CDIDir), cdi.WithAutoRefresh(false)); err != nil {
		return nil, fmt.Errorf("opening the CDI directory %s: %w", cfg.CDIDir, err)
	}
	l.hook = filepath.Join(cfg.StateDir, "bin", "fairslice-hook")
	if err := install(cfg.Program, l.hook); err != nil {
		return nil, err
	}
	known, err := l.records.All()
	for _, c := range known {
		err = errors.Join(err, l.write(c))
	}
	return l, err
}

// install copies a program under its final name in one step: a running hook keeps
// the old file.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	return nil
}

// Level is LevelCgroup.
func (*Layer) Level() string { return enforce.LevelCgroup }

// Prepare records the container and writes its CDI device. Whole GPUs need none.
func (l *Layer) Prepare(c enforce.Container) (enforce.Edits, error) {
	if c.Whole {
		return enforce.Edits{}, nil
	}
	if err := l.records.Save(c); err != nil {
		return enforce.Edits{}, err
	}
	if err := l.write(c); err != nil {
		return enforce.Edits{}, err
	}
	return enforce.Edits{CDIDevices: []string{Kind + "=" + c.ID}}, nil
}

// Start makes sure that the specification is there. A container without a record
// holds whole GPUs, or had its devices before the layer was in use.
func (l *Layer) Start(id string, _ int) error {
	c, known, err := l.records.Load(id)
	if err != nil || !known {
		return err
	}
	if _, err := os.Stat(filepath.Join(l.cfg.CDIDir, specName(id))); err == nil {
		return nil
	}
	return l.write(c)
}

// Keep forgets other containers.
func (l *Layer) Keep(ids map[string]bool) error {
	gone, err := l.records.Keep(ids)
	for _, id := range gone {
		if e := l.cache.RemoveSpec(specName(id)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing the CDI device of container %s: %w", id, e))
		}
	}
	return err
}

func specName(id string) string { return "fairslice.io-limit-" + id + ".json" }

func (l *Layer) write(c enforce.Container) error {
	spec := &specs.Spec{Kind: Kind, Devices: []specs.Device{{Name: c.ID, ContainerEdits: specs.ContainerEdits{
		Hooks: []*specs.Hook{{
			HookName: cdi.CreateRuntimeHook, Path: l.hook, Args: l.arguments(c), Timeout: new(hookSeconds),
		}},
	}}}}
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return fmt.Errorf("finding the CDI version of the hook: %w", err)
	}
	spec.Version = version
	if err := l.cache.WriteSpec(spec, specName(c.ID)); err != nil {
		return fmt.Errorf("writing the CDI device of container %s: %w", c.ID, err)
	}
	return nil
}

func (l *Layer) arguments(c enforce.Container) []string {
	args := []string{filepath.Base(l.hook), "hook", "--cgroup-root=" + l.cfg.CgroupRoot}
	if l.cfg.NVMLLibrary != "" {
		args = append(args, "--nvml-library="+l.cfg.NVMLLibrary)
	}
	for _, s := range slices.SortedFunc(slices.Values(c.Shares), func(a, b enforce.Share) int { return a.Index - b.Index }) {
		args = append(args, "--limit="+Limit{s.UUID, uint64(s.MemoryMiB) << 20}.String())
	}
	return args
}
