// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Environment variables by which a re-executed copy of this program, and every
// process of a cluster, knows its part.
const (
	envRole   = "FAIRSLICE_BED_ROLE" // minder or node
	envFolder = "FAIRSLICE_BED"      // the cluster's folder
	envKeep   = "FAIRSLICE_BED_KEEP" // not empty: the folder stays after the end
)

// init turns a re-executed copy of the program into the part that its
// environment names; in the program itself it does nothing.
func init() {
	role := os.Getenv(envRole)
	if role == "" {
		return
	}
	var err error
	switch role {
	case "minder":
		err = mind(os.Stdin, os.Getenv(envFolder), os.Getenv(envKeep) != "")
	case "node":
		err = holdNode(os.Getenv(envNode))
	default:
		err = fmt.Errorf("variable %s is %q, must be minder or node", envRole, role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test bed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// minder is the process that cleans up after a cluster. It waits for the end of
// the pipe that the parent holds: the kernel closes it however the parent ends.
type minder struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func startMinder(folder string, keep bool) (*minder, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRole+"=minder", envFolder+"="+folder)
	if keep {
		cmd.Env = append(cmd.Env, envKeep+"=1")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the test bed's minder: %w", err)
	}
	return &minder{cmd: cmd, pipe: pipe}, nil
}

// finish lets the minder clean up and waits for it.
func (m *minder) finish() error {
	m.pipe.Close()
	if err := m.cmd.Wait(); err != nil {
		return fmt.Errorf("clean up after the cluster: %w", err)
	}
	return nil
}

// mind waits for the parent's end and then removes what is left of the cluster.
func mind(parent io.Reader, folder string, keep bool) error {
	if folder == "" {
		return fmt.Errorf("variable %s is empty, must name the cluster's folder", envFolder)
	}
	_, _ = io.Copy(io.Discard, parent) // however the pipe ends, the parent is gone
	killMarked(folder)
	err := removeCgroups(cgroupName(folder))
	if !keep {
		err = errors.Join(err, removeFolder(folder))
	}
	return err
}

// killMarked kills every process of the cluster and returns when all are gone.
// Components die with the parent; what they started carries their environment.
func killMarked(folder string) {
	mark := "\x00" + envFolder + "=" + folder + "\x00"
	for range 200 {
		found := false
		for _, pid := range pids() {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil || pid == os.Getpid() || !strings.Contains("\x00"+string(raw), mark) {
				continue
			}
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !found {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func pids() []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// removeFolder tries for a while: a dying process may still write.
func removeFolder(folder string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(folder); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// cgroupName is the cluster's control group in every hierarchy: that of its
// folder.
func cgroupName(folder string) string { return filepath.Base(folder) }
