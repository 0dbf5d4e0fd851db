// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairslice/fairslice/deviceplugin/interceptor"
)

// inContainer runs the probe in a mount and PID namespace of its own, with the
// region where a container has it.
func inContainer(m *machine, script string) *exec.Cmd {
	c := m.command("probe")
	set := "mount -t tmpfs tmpfs /run && mkdir " + interceptor.MountPath +
		" && mount --bind " + m.region() + " " + interceptor.MountPath + " && mount -t proc proc /proc && unset LD_PRELOAD; " +
		script
	c.Path, c.Args = "/bin/sh", []string{"sh", "-ec", set}
	c.Env = append(c.Env, "PRELOAD="+filepath.Join(built, "libfairslice.so"), "PROBE="+filepath.Join(built, "probe"), "LD_PRELOAD=")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return c
}

// TestEnvironmentCannotRaiseAMountedLimit guards against HAMi #1641 and #2125, and
// against a user who sets variables: where a region is mounted nothing else counts.
func TestEnvironmentCannotRaiseAMountedLimit(t *testing.T) {
	m := newMachine(t)
	create(t, m, 64*mib, 1000)
	c := inContainer(m, "LD_PRELOAD=$PRELOAD FAIRSLICE_REGION=/nowhere FAIRSLICE_GPU_MEMORY_MIB=999999 CUDA_DISABLE_CONTROL=true $PROBE link")
	c.Stdin = strings.NewReader("alloc 64MiB+1\na = alloc 64MiB\ninfo\n")
	out, err := c.CombinedOutput()
	if want := "alloc 64MiB+1: OUT_OF_MEMORY\na = alloc 64MiB: ok\ninfo: ok free 0MiB total 64MiB\n"; err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRestartedContainer: a new PID namespace gives the same small PIDs again. A
// predecessor's slot cannot be judged from in there, so the node agent empties the
// region before the start.
func TestRestartedContainer(t *testing.T) {
	m := newMachine(t)
	r := create(t, m, 64*mib, 1000)
	for start := range 3 {
		if err := r.Reset(); err != nil {
			t.Fatal(err)
		}
		c := inContainer(m, "(echo 'a = alloc 60MiB'; echo info) | LD_PRELOAD=$PRELOAD $PROBE link; kill -9 $$")
		out, _ := c.CombinedOutput()
		if want := "a = alloc 60MiB: ok\ninfo: ok free 4MiB total 64MiB\n"; string(out) != want {
			t.Errorf("start %d: %s", start, out)
		}
	}
}

// TestWithoutAgent: run by hand, limits may come from the environment, per process.
func TestWithoutAgent(t *testing.T) {
	m := newMachine(t)
	c := m.command("probe", "link")
	c.Env = append(c.Env, "FAIRSLICE_REGION=", "FAIRSLICE_GPU_MEMORY_MIB=64")
	c.Stdin = strings.NewReader("alloc 64MiB+1\na = alloc 64MiB\nnvml 0\n")
	out, err := c.Output()
	if want := "alloc 64MiB+1: OUT_OF_MEMORY\na = alloc 64MiB: ok\nnvml 0: ok free 0MiB total 64MiB used 64MiB\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	c = m.command("probe", "link")
	c.Env = append(c.Env, "FAIRSLICE_REGION=")
	c.Stdin = strings.NewReader("a = alloc 30GiB\n")
	if out, err := c.Output(); err != nil || string(out) != "a = alloc 30GiB: ok\n" {
		t.Errorf("without limits: %v\n%s", err, out)
	}
	c = m.command("probe", "link")
	c.Env = append(c.Env, "FAIRSLICE_REGION=", "FAIRSLICE_GPU_MEMORY_MIB=64M")
	c.Stdin = strings.NewReader("alloc 2MiB\n")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "alloc 2MiB: OUT_OF_MEMORY\n") || !strings.Contains(string(out), "FAIRSLICE_GPU_MEMORY_MIB") {
		t.Errorf("with a limit that is not a number: %v\n%s", err, out)
	}
}

// TestUpgradeUnderRunningProcesses guards against HAMi #727 and #753: a new library
// is written beside the old one and renamed over it, so a program that has the old
// one mapped goes on, and a new program gets the new one.
func TestUpgradeUnderRunningProcesses(t *testing.T) {
	m := newMachine(t)
	create(t, m, 64*mib, 1000)
	installed := filepath.Join(m.dir, "libfairslice.so")
	install := func() {
		raw, err := os.ReadFile(filepath.Join(built, "libfairslice.so"))
		if err != nil {
			t.Fatal(err)
		}
		if err := interceptor.Install(filepath.Join(built, "libfairslice.so"), installed); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(installed); err != nil || len(got) != len(raw) {
			t.Fatalf("installed %d bytes of %d: %v", len(got), len(raw), err)
		}
	}
	install()
	c := m.command("probe", "link")
	c.Env = append(c.Env, "LD_PRELOAD="+installed)
	old, err := start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer old.end(true)
	if out, err := old.tell("a = alloc 40MiB"); err != nil || out != "a = alloc 40MiB: ok\n" {
		t.Fatalf("%s %v", out, err)
	}
	install()
	c = m.command("probe", "link")
	c.Env = append(c.Env, "LD_PRELOAD="+installed)
	c.Stdin = strings.NewReader("alloc 30MiB\nb = alloc 24MiB\n")
	if out, err := c.Output(); err != nil || string(out) != "alloc 30MiB: OUT_OF_MEMORY\nb = alloc 24MiB: ok\n" {
		t.Errorf("%s %v", out, err)
	}
	if out, err := old.tell("free a\na = alloc 64MiB"); err != nil || out != "free a: ok\na = alloc 64MiB: ok\n" {
		t.Errorf("the program with the old library: %s %v", out, err)
	}
}

// TestStaticProgramIsNotSeen: what cannot be preloaded into has no limit here, and no
// entry in the region; only the driver counts it. The watchdog is for that.
func TestStaticProgramIsNotSeen(t *testing.T) {
	m := newMachine(t)
	r := create(t, m, 64*mib, 1000)
	p, err := start(m.command("static", "80"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.end(true)
	if line, err := p.out.ReadString('\n'); err != nil || line != "80 MiB: taken\n" {
		t.Fatalf("it said %q: %v", line, err)
	}
	devices, err := r.Usage()
	if err != nil || devices[0].UsedBytes != 0 || len(devices[0].Processes) != 0 {
		t.Errorf("the region shows %+v, %v", devices, err)
	}
	if used, _, _, err := readMachine(m); err != nil || used != 80*mib {
		t.Errorf("the GPU says %d bytes are used: %v", used, err)
	}
}
