// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary is also a stand-in for nvidia-cuda-mps-control: with -f a daemon
// that listens below CUDA_MPS_PIPE_DIRECTORY, without it a client that hands it the
// commands of its standard input. Files in CUDA_MPS_LOG_DIRECTORY steer it:
//
//	broken   the daemon ends at its start
//	mute     the daemon answers nothing any more
//	stubborn limits are taken and not kept
//	servers  process IDs that get_server_list gives
//	status   what get_server_status gives for each
//	commands is written: what the daemon was told, and its starts
const envFake = "FAIRSLICE_FAKE_MPS"

func TestMain(m *testing.M) {
	if os.Getenv(envFake) == "" {
		os.Exit(m.Run())
	}
	pipe, log := os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), os.Getenv("CUDA_MPS_LOG_DIRECTORY")
	if len(os.Args) > 1 && os.Args[1] == "-f" {
		os.Exit(fakeDaemon(filepath.Join(pipe, "control"), log))
	}
	os.Exit(fakeClient(filepath.Join(pipe, "control")))
}

func fakeClient(socket string) int {
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println("Cannot find MPS control daemon process")
		return 1
	}
	command, _ := io.ReadAll(os.Stdin)
	_, _ = c.Write(command)
	_, _ = io.Copy(os.Stdout, c)
	return 0
}

func fakeDaemon(socket, log string) int {
	note := func(text string) {
		f, err := os.OpenFile(filepath.Join(log, "commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, text)
			f.Close()
		}
	}
	steered := func(by string) bool {
		_, err := os.Stat(filepath.Join(log, by))
		return err == nil
	}
	note("start " + strings.Join(os.Args[1:], " ") + " on " + os.Getenv("CUDA_VISIBLE_DEVICES"))
	if steered("broken") {
		return 1
	}
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return 1
	}
	memory, percent := "", "100.0"
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		f := strings.Fields(line)
		if steered("mute") {
			time.Sleep(time.Hour)
		}
		switch {
		case len(f) == 1 && f[0] == "get_server_list":
			pids, _ := os.ReadFile(filepath.Join(log, "servers"))
			_, _ = c.Write(pids)
		case len(f) == 2 && f[0] == "get_server_status":
			status, _ := os.ReadFile(filepath.Join(log, "status"))
			_, _ = c.Write(status)
		case len(f) == 2 && f[0] == "get_default_device_pinned_mem_limit":
			fmt.Fprintln(c, memory)
		case len(f) == 1 && f[0] == "get_default_active_thread_percentage":
			fmt.Fprintln(c, percent)
		case len(f) > 0:
			note(strings.TrimSpace(line))
			if f[0] == "set_default_device_pinned_mem_limit" && !steered("stubborn") {
				memory = f[2]
			}
			if f[0] == "set_default_active_thread_percentage" {
				percent = f[1] + ".0"
			}
			if f[0] == "quit" {
				_ = os.Remove(socket)
				return 0
			}
		}
		_ = c.Close()
	}
}
