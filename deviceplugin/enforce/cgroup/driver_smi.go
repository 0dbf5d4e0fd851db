// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package cgroup

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const mib = 1 << 20

// smi drives nvidia-smi's memory-limits command, for a static build, which cannot
// load the driver's library. The sub-command must be the first argument.
type smi struct{ program string }

// Open finds nvidia-smi in PATH; the library's path is not used in this build.
func Open(string) (Driver, error) {
	program, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, fmt.Errorf("this static build sets limits by nvidia-smi: %w", err)
	}
	return smi{program}, nil
}

func (s smi) SetLimit(uuid, group string, limit uint64) error {
	_, err := s.run("--set", "-n", group, "--soft-limit", "0", "--hard-limit", strconv.FormatUint(limit/mib, 10), "-i", uuid)
	return err
}

var hardLimit = regexp.MustCompile(`(?m)^\s*hard limit:\s*(\d+) MiB\s*$`)

func (s smi) Limit(uuid, group string) (uint64, error) {
	out, err := s.run("--get", "-n", group, "-i", uuid)
	if err != nil {
		return 0, err
	}
	m := hardLimit.FindSubmatch(out)
	if m == nil {
		return NoLimit, nil
	}
	n, err := strconv.ParseUint(string(m[1]), 10, 44)
	return n * mib, err
}

func (s smi) run(args ...string) ([]byte, error) {
	out, err := exec.Command(s.program, append([]string{"memory-limits"}, args...)...).CombinedOutput()
	switch text := strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))); {
	case err == nil:
		return out, nil
	case strings.Contains(strings.ToLower(text), "not supported"):
		return nil, fmt.Errorf("%w (nvidia-smi: %s)", ErrUnsupported, text)
	default:
		return nil, fmt.Errorf("nvidia-smi memory-limits: %w: %s", err, text)
	}
}

func (smi) Close() error { return nil }
