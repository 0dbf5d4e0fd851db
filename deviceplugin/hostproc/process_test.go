// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package hostproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestParseStart(t *testing.T) {
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21"
	for _, name := range []string{"python3", "a b", "x) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", ""} {
		if got, err := ParseStart("42 (" + name + ")" + tail); err != nil || got != 777 {
			t.Errorf("name %q: %d, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (x)", "42 (x) S 1 2 3", "42 (x)" + strings.Replace(tail, "777", "-1", 1)} {
		if got, err := ParseStart(bad); err == nil {
			t.Errorf("%q gives %d", bad, got)
		}
	}
}

func FuzzParseStart(f *testing.F) {
	f.Add("42 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21")
	f.Fuzz(func(t *testing.T, stat string) {
		if start, err := ParseStart(stat); err == nil && !strings.Contains(stat, strconv.FormatUint(start, 10)) {
			t.Fatalf("%q gives %d", stat, start)
		}
	})
}

// child is a real process, shown by a table of our own as one of a container.
func child(t *testing.T) (Table, *exec.Cmd, uint32) {
	t.Helper()
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	table := Table{Root: t.TempDir()}
	pid := uint32(c.Process.Pid)
	write(t, table, pid, 777)
	return table, c, pid
}

func write(t *testing.T, table Table, pid uint32, start int) {
	t.Helper()
	dir := filepath.Join(table.Root, strconv.Itoa(int(pid)))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"stat":   fmt.Sprintf("%d (sleep) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 20", pid, start),
		"cgroup": "0::/kubepods/pod" + uid + "/" + id + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIdentifyAndKill(t *testing.T) {
	table, c, pid := child(t)
	p, err := table.Identify(pid)
	if err != nil || p != (Process{PID: pid, Start: 777, Container: inPod}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := table.Kill(p); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v", c.ProcessState)
	}
}

// TestAnotherProcessIsSpared: the PID was given to a process that started later.
func TestAnotherProcessIsSpared(t *testing.T) {
	table, c, pid := child(t)
	p, err := table.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	write(t, table, pid, 778)
	if err := table.Kill(p); !errors.Is(err, ErrGone) {
		t.Errorf("err = %v", err)
	}
	if err := c.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process is dead: %v", err)
	}
}

func TestGone(t *testing.T) {
	table := Table{Root: t.TempDir()}
	if _, err := table.Identify(1 << 22); !errors.Is(err, ErrGone) {
		t.Errorf("err = %v", err)
	}
	if err := table.Kill(Process{PID: 1<<22 + 1}); !errors.Is(err, ErrGone) {
		t.Errorf("err = %v", err)
	}
}

// TestOwnProcess reads the real /proc.
func TestOwnProcess(t *testing.T) {
	p, err := Table{Root: "/proc"}.Identify(uint32(os.Getpid()))
	if err != nil || p.Start == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOfHost(t *testing.T) {
	for namespace, want := range map[string]bool{"pid:[4026531836]": true, "pid:[4026532198]": false, "": false} {
		root := t.TempDir()
		if namespace != "" {
			if err := os.MkdirAll(filepath.Join(root, "self", "ns"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(namespace, filepath.Join(root, "self", "ns", "pid")); err != nil {
				t.Fatal(err)
			}
		}
		if got := (Table{Root: root}).OfHost(); got != want {
			t.Errorf("%q: %v", namespace, got)
		}
	}
}
