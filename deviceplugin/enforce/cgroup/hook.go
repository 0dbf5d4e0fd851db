// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// Limit of memory on a GPU.
type Limit struct {
	UUID  string
	Bytes uint64
}

// String is "<uuid>=<bytes>", the form of the hook's arguments.
func (l Limit) String() string { return l.UUID + "=" + strconv.FormatUint(l.Bytes, 10) }

// ParseLimit reads what String writes.
func ParseLimit(s string) (Limit, error) {
	uuid, text, found := strings.Cut(s, "=")
	bytes, err := strconv.ParseUint(text, 10, 64)
	if !found || !strings.HasPrefix(uuid, "GPU-") || strings.ContainsAny(uuid, " \t\n\x00") || err != nil || bytes == 0 || bytes == NoLimit {
		return Limit{}, fmt.Errorf("limit %q must be the UUID of a GPU, an equals sign and a number of bytes from 1 to 2^64-2", s)
	}
	return Limit{uuid, bytes}, nil
}

// maxState bounds the OCI state; runtimes write a few hundred bytes.
const maxState = 1 << 20

// Hook is what the OCI createRuntime hook does.
type Hook struct {
	// Proc and CgroupRoot are where process and control group file systems are
	// seen, normally "/proc" and "/sys/fs/cgroup".
	Proc, CgroupRoot string
	Limits           []Limit
	// Open loads the driver.
	Open func() (Driver, error)
}

// Run reads the OCI state of a container (runtime-spec, "State") and sets its
// limits. On an error the runtime must not start the container.
func (h Hook) Run(stdin io.Reader) error {
	if len(h.Limits) == 0 {
		return errors.New("no limit is given, at least one must be")
	}
	var state oci.State
	raw, err := io.ReadAll(io.LimitReader(stdin, maxState))
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		return fmt.Errorf("reading the container's OCI state from standard input: %w", err)
	}
	if state.Pid <= 0 {
		return fmt.Errorf("the OCI state of container %q has pid %d, must be above 0", state.ID, state.Pid)
	}
	text, err := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(state.Pid), "cgroup"))
	if err != nil {
		return fmt.Errorf("finding the control group of container %s: %w", state.ID, err)
	}
	group, err := leaf(string(text))
	if err != nil {
		return fmt.Errorf("process %d of container %s: %w", state.Pid, state.ID, err)
	}
	driver, err := h.Open()
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close() }()
	dir := filepath.Join(h.CgroupRoot, group)
	for _, l := range h.Limits {
		if err := hold(driver, l, dir); err != nil {
			return fmt.Errorf("container %s: %w", state.ID, err)
		}
	}
	return nil
}

// hold sets a limit and makes sure that the driver has it. What it reads back may
// be rounded to the driver's granularity.
func hold(driver Driver, l Limit, dir string) error {
	if err := driver.SetLimit(l.UUID, dir, l.Bytes); err != nil {
		return fmt.Errorf("limiting the memory of %s to %d bytes for control group %s: %w", l.UUID, l.Bytes, dir, err)
	}
	got, err := driver.Limit(l.UUID, dir)
	if err != nil {
		return fmt.Errorf("reading back the limit of %s for control group %s: %w", l.UUID, dir, err)
	}
	if got == NoLimit {
		return fmt.Errorf("the driver accepted a limit of %s for control group %s and did not keep it", l.UUID, dir)
	}
	return nil
}
