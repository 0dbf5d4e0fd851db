// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// control speaks to one daemon by NVIDIA's control program, one command per call.
type control struct {
	program   string
	pipe, log string // the daemon's directories
	uuid      string
	// patience bounds one command: a daemon that hangs is as good as dead.
	patience time.Duration
}

func (c control) environment() []string {
	return append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+c.pipe, "CUDA_MPS_LOG_DIRECTORY="+c.log, "CUDA_VISIBLE_DEVICES="+c.uuid)
}

func (c control) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = c.environment(), strings.NewReader(command+"\n"), time.Second
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(bytes.ToValidUTF8(out, nil)))
	if ctx.Err() != nil {
		return "", fmt.Errorf("the MPS daemon of GPU %s does not answer %q within %v", c.uuid, command, c.patience)
	}
	if err != nil {
		return "", fmt.Errorf("the MPS daemon of GPU %s does not answer %q: %w: %s", c.uuid, command, err, text)
	}
	return text, nil
}

// servers lists the process IDs of the daemon's servers, none before the first
// client. It is also the probe: every daemon knows the command.
func (c control) servers(ctx context.Context) ([]int, error) {
	text, err := c.ask(ctx, "get_server_list")
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("the MPS daemon of GPU %s answers get_server_list with %q, not with process IDs", c.uuid, text)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// faulty says whether a client's fatal fault has stopped a server. Daemons that do not
// know the question have no faulty server.
func (c control) faulty(ctx context.Context, pid int) bool {
	text, err := c.ask(ctx, "get_server_status "+strconv.Itoa(pid))
	return err == nil && strings.Contains(strings.ToUpper(text), "FAULT")
}

// set changes the default of coming servers, and what running ones give to coming
// clients, and reads the default back. The daemon sees one GPU, as ordinal 0.
func (c control) set(ctx context.Context, l limits) error {
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	memory, percent := fmt.Sprintf("0 %dM", l.memoryMiB), strconv.FormatInt(l.percent, 10)
	commands := []string{"set_default_device_pinned_mem_limit " + memory, "set_default_active_thread_percentage " + percent}
	for _, pid := range servers {
		commands = append(commands,
			fmt.Sprintf("set_device_pinned_mem_limit %d %s", pid, memory), fmt.Sprintf("set_active_thread_percentage %d %s", pid, percent))
	}
	for _, command := range commands {
		if _, err := c.ask(ctx, command); err != nil {
			return err
		}
	}
	return c.verify(ctx, l)
}

// verify reads the defaults back: the control program's exit status does not tell
// of a command that the daemon refused.
func (c control) verify(ctx context.Context, want limits) error {
	memory, err := c.ask(ctx, "get_default_device_pinned_mem_limit 0")
	if err != nil {
		return err
	}
	if !sameMemory(memory, want.memoryMiB) {
		return fmt.Errorf("the MPS daemon of GPU %s was given a limit of %d MiB and reports %q", c.uuid, want.memoryMiB, memory)
	}
	percent, err := c.ask(ctx, "get_default_active_thread_percentage")
	if err != nil {
		return err
	}
	if whole, rest, _ := strings.Cut(percent, "."); whole != strconv.FormatInt(want.percent, 10) || strings.Trim(rest, "0") != "" {
		return fmt.Errorf("the MPS daemon of GPU %s was given a thread share of %d percent and reports %q", c.uuid, want.percent, percent)
	}
	return nil
}

var memoryLimit = regexp.MustCompile(`(?:^|\s)(\d{1,12})\s*([MG])B?$`)

// sameMemory understands "10240M" and "10G": drivers show whole GiB, rounded down.
func sameMemory(text string, mib int64) bool {
	m := memoryLimit.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if m[2] == "G" {
		return err == nil && n == mib/1024
	}
	return err == nil && n == mib
}
