// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package hostproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrGone says that a process ended meanwhile, or that its PID is another's now.
var ErrGone = errors.New("the process is gone")

// Process is one incarnation of a PID.
type Process struct {
	PID uint32
	// Start is its start time in clock ticks since the host's boot.
	Start uint64
	Container
}

// Table is a mounted /proc.
type Table struct{ Root string }

// initialNamespace is the inode of the host's own PID namespace (Linux,
// include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialNamespace = "pid:[4026531836]"

// OfHost says whether this process sees the PIDs of the host, as the driver reports
// them.
func (t Table) OfHost() bool {
	namespace, err := os.Readlink(filepath.Join(t.Root, "self", "ns", "pid"))
	return err == nil && namespace == initialNamespace
}

// Identify tells where a process runs. The error is ErrGone if there is no such
// process any more.
func (t Table) Identify(pid uint32) (Process, error) {
	start, err := t.start(pid)
	if err != nil {
		return Process{}, err
	}
	cgroup, err := t.read(pid, "cgroup")
	if err != nil {
		return Process{}, err
	}
	// Both were of the same process only if it still has its start time.
	if again, err := t.start(pid); err != nil || again != start {
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return Process{PID: pid, Start: start, Container: ParseCgroup(cgroup)}, nil
}

// Kill ends exactly this process by SIGKILL. A handle is taken first and the
// process looked at again through it, so the signal cannot hit one that was given
// the PID later.
func (t Table) Kill(p Process) error {
	fd, err := unix.PidfdOpen(int(p.PID), 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", p.PID, goneIf(err))
	}
	defer unix.Close(fd)
	now, err := t.Identify(p.PID)
	if err != nil {
		return err
	}
	if now != p {
		return fmt.Errorf("process %d: %w", p.PID, ErrGone)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("killing process %d: %w", p.PID, goneIf(err))
	}
	return nil
}

func goneIf(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return ErrGone
	}
	return err
}

func (t Table) read(pid uint32, name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(t.Root, strconv.FormatUint(uint64(pid), 10), name))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, goneIf(err))
	}
	return string(raw), nil
}

func (t Table) start(pid uint32) (uint64, error) {
	stat, err := t.read(pid, "stat")
	if err != nil {
		return 0, err
	}
	start, err := ParseStart(stat)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return start, nil
}

// startField is the number of the start time among the fields of stat after the
// name, which begin with the third (proc(5)).
const startField = 22 - 3

// ParseStart reads the start time in /proc/<pid>/stat. The name in it is the
// process's own choice and may hold blanks and brackets.
func ParseStart(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("its stat file holds no name in brackets")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= startField {
		return 0, fmt.Errorf("its stat file has %d fields after the name, must have more than %d", len(fields), startField)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its stat file holds no start time: %w", err)
	}
	return start, nil
}
