// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
)

const gpu = "GPU-fef8089b-4820-abfc-e83e-94318197576e"

// node is a layer on a node with fake daemons.
type node struct {
	*Layer
	t     *testing.T
	modes []string // changes of the compute mode
	// exclusive is the mode of the GPU, refused why it cannot be set.
	exclusive bool
	refused   error
	lost      int // daemons that had clients
	now       time.Time
}

func newNode(t *testing.T) *node {
	t.Helper()
	t.Setenv(envFake, "1")
	// A program with the race detector sleeps for a second at its end, as long as a
	// daemon may take for an answer.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir, err := os.MkdirTemp("", "mps") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, now: time.Now()}
	n.open(Config{
		Control: "/proc/self/exe", Args: []string{"-multiuser-server"}, Dir: dir, StateDir: t.TempDir(), ShmDir: "/dev/shm",
		ProbeEvery: 10 * time.Millisecond, Patience: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return n.now },
		SetExclusive: func(uuid string, on bool) (bool, error) {
			if n.refused != nil || n.exclusive == on {
				return false, n.refused
			}
			n.exclusive, n.modes = on, append(n.modes, fmt.Sprintf("%s %t", uuid, on))
			return true, nil
		},
		Lost: func(string) { n.lost++ },
	})
	t.Cleanup(func() {
		for _, d := range n.daemons {
			d.kill()
		}
		_ = os.RemoveAll(dir)
	})
	return n
}

// open starts the layer, again if it runs already; its daemons stay.
func (n *node) open(cfg Config) {
	n.t.Helper()
	var err error
	old := n.Layer
	if n.Layer, err = New(cfg); err != nil {
		n.t.Fatal(err)
	}
	if old != nil {
		for uuid, d := range old.daemons { // only to be killed at the end
			n.t.Cleanup(d.kill)
			_ = uuid
		}
	}
}

func (n *node) steer(name, text string) {
	n.t.Helper()
	log := n.daemon(gpu).log
	if err := os.MkdirAll(log, 0o750); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(log, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) release(name string) { _ = os.Remove(filepath.Join(n.daemon(gpu).log, name)) }

// told is what the daemon was told since the last call.
func (n *node) told() []string {
	file := filepath.Join(n.daemon(gpu).log, "commands")
	raw, _ := os.ReadFile(file)
	_ = os.Remove(file)
	return strings.FieldsFunc(string(raw), func(r rune) bool { return r == '\n' })
}

func (n *node) expect(what string, want ...string) {
	n.t.Helper()
	if got := n.told(); !slices.Equal(got, want) {
		n.t.Errorf("%s: the daemon was told\n%q, want\n%q", what, got, want)
	}
}

func slice(name string, mib, milli int64, processes int) enforce.Container {
	return enforce.Container{
		ID: enforce.ContainerID("r", []string{name}), Processes: processes,
		Shares: []enforce.Share{{UUID: gpu, MemoryMiB: mib, ComputeMilli: milli}},
	}
}

func (n *node) run(c enforce.Container) enforce.Edits {
	n.t.Helper()
	e, err := n.Prepare(c)
	if err == nil {
		err = n.Start(c.ID, c.Processes)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return e
}

const started = "start -f -multiuser-server on " + gpu

func defaults(mib, percent int) []string {
	return []string{fmt.Sprintf("set_default_device_pinned_mem_limit 0 %dM", mib), fmt.Sprintf("set_default_active_thread_percentage %d", percent)}
}

// TestLimitsAreSetAtTheServer before the container starts, and again for the
// servers that run; a container's own are in its environment.
func TestLimitsAreSetAtTheServer(t *testing.T) {
	n := newNode(t)
	e := n.run(slice("a", 10240, 250, 1))
	n.expect("first", append([]string{started}, defaults(10240, 25)...)...)
	want := map[string]string{envPipe: pipeInContainer, envMemory: "0=10240M", envShare: "25"}
	for name, value := range want {
		if e.Env[name] != value {
			t.Errorf("%s = %q, want %q", name, e.Env[name], value)
		}
	}
	if len(e.Mounts) != 2 || e.Mounts[0].Host != n.daemon(gpu).pipe || e.Mounts[1].Container != "/dev/shm" {
		t.Errorf("mounts %+v", e.Mounts)
	}
	if !slices.Equal(n.modes, []string{gpu + " true"}) {
		t.Errorf("compute modes %q", n.modes)
	}
	n.steer("servers", "41\n42\n")
	n.run(slice("b", 20000, 100, 1))
	n.expect("a larger one", append(defaults(20000, 25),
		"set_device_pinned_mem_limit 41 0 20000M", "set_active_thread_percentage 41 25",
		"set_device_pinned_mem_limit 42 0 20000M", "set_active_thread_percentage 42 25")...)
	n.run(slice("c", 5000, 100, 1))
	n.expect("a smaller one")
}

// TestDeclaredProcesses guards D 71 (NDP #720, #594): the limit counts per process.
func TestDeclaredProcesses(t *testing.T) {
	n := newNode(t)
	c := slice("a", 10240, 250, 4)
	if e := n.run(c); e.Env[envMemory] != "0=2560M" || e.Env[envShare] != "6" {
		t.Errorf("environment %v", e.Env)
	}
	n.expect("divided", append([]string{started}, defaults(2560, 6)...)...)
	if err := n.Start(c.ID, 5); err == nil || !strings.Contains(err.Error(), "declares 5 processes, and it was given limits for 4") {
		t.Errorf("a pod with more processes than were expected: %v", err)
	}
	if err := n.Start(c.ID, 2); err != nil {
		t.Errorf("a pod with fewer: %v", err)
	}
	for _, tc := range []struct {
		c       enforce.Container
		refusal string
	}{
		{slice("x", 3, 500, 4), "leaves nothing for each of 4 processes"},
		{slice("x", 10240, 30, 4), "leaves nothing for each of 4 processes"},
		{enforce.Container{ID: "x", Shares: make([]enforce.Share, 2)}, "parts of 2 GPUs cannot be held by MPS"},
	} {
		if _, err := n.Prepare(tc.c); err == nil || !strings.Contains(err.Error(), tc.refusal) {
			t.Errorf("error %v, want %q", err, tc.refusal)
		}
	}
}

// TestFailsClosed: no container starts while its daemon is away, and each attempt
// to start it waits longer.
func TestFailsClosed(t *testing.T) {
	n := newNode(t)
	n.steer("broken", "")
	c := slice("a", 10240, 250, 1)
	if _, err := n.Prepare(c); err != nil {
		t.Fatal(err)
	}
	for i, wait := range []time.Duration{1, 2, 4} {
		if err := n.Start(c.ID, 1); err == nil || !strings.Contains(err.Error(), "has ended at once") {
			t.Fatalf("attempt %d: %v", i, err)
		}
		n.expect("attempt", started)
		n.now = n.now.Add(wait*time.Second - time.Millisecond)
		if err := n.Start(c.ID, 1); err == nil || !strings.Contains(err.Error(), "does not run, it is started again in") {
			t.Fatalf("too soon after attempt %d: %v", i, err)
		}
		n.expect("too soon")
		n.now = n.now.Add(time.Millisecond)
	}
	n.release("broken")
	if err := n.Start(c.ID, 1); err != nil {
		t.Fatal(err)
	}
	n.steer("stubborn", "")
	n.expect("repaired", append([]string{started}, defaults(10240, 25)...)...)
	if _, err := n.Prepare(slice("b", 20480, 250, 1)); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(c.ID, 1); err == nil || !strings.Contains(err.Error(), `was given a limit of 20480 MiB and reports "10240M"`) {
		t.Errorf("a limit that was not kept: %v", err)
	}
}

// TestNoModeNoStart: where EXCLUSIVE_PROCESS cannot be set, a process that avoids the
// daemon would have no limit. Taken away later, it is set again; set by somebody
// else, it is left when MPS goes.
func TestNoModeNoStart(t *testing.T) {
	n := newNode(t)
	c := slice("a", 10240, 250, 1)
	n.refused = errors.New("no permission")
	if _, err := n.Prepare(c); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(c.ID, 1); err == nil || !strings.Contains(err.Error(), "a process that avoids the daemon would have no limit: no permission") {
		t.Errorf("error %v", err)
	}
	n.refused = nil
	n.now = n.now.Add(time.Minute)
	n.run(c)
	n.exclusive = false // by hand, or a reset
	n.look(t.Context())
	if want := []string{gpu + " true", gpu + " true"}; !slices.Equal(n.modes, want) {
		t.Errorf("compute modes %q, want %q", n.modes, want)
	}

	other := newNode(t)
	other.exclusive = true
	other.run(c)
	if err := other.daemon(gpu).retire(t.Context()); err != nil || !other.exclusive || len(other.modes) > 0 {
		t.Errorf("an administrator's mode: %t after %q, error %v", other.exclusive, other.modes, err)
	}
}

// TestFaultOfAClient: a server that a client's fatal fault has stopped takes nobody. It
// is not killed, for its clients are ending; then it works again.
func TestFaultOfAClient(t *testing.T) {
	n := newNode(t)
	n.run(slice("a", 10240, 250, 1))
	n.told()
	n.steer("servers", "41\n")
	n.steer("status", "FAULT\n")
	b := slice("b", 5120, 100, 1)
	if _, err := n.Prepare(b); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(b.ID, 1); err == nil || !strings.Contains(err.Error(), "takes no other until all of them have ended") {
		t.Errorf("error %v", err)
	}
	n.look(t.Context())
	n.expect("fault")
	n.steer("status", "ACTIVE\n")
	if err := n.Start(b.ID, 1); err != nil {
		t.Error(err)
	}
}

// TestClientsAreCounted: a GPU has 48 clients at most. Who waits for a place takes none
// from others that wait, and a container's next start takes its own.
func TestClientsAreCounted(t *testing.T) {
	n := newNode(t)
	first, second := slice("a", 10240, 480, 24), slice("b", 10240, 480, 24)
	n.run(first)
	n.run(second)
	n.run(second)
	third, fourth := slice("c", 10240, 40, 1), slice("d", 10240, 40, 1)
	for _, c := range []enforce.Container{third, fourth} {
		if _, err := n.Prepare(c); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(c.ID, 1); err == nil || !strings.Contains(err.Error(), "would have 49 processes, and MPS takes 48") {
			t.Errorf("error %v", err)
		}
	}
	n.end(first)
	for _, c := range []enforce.Container{third, fourth} {
		if err := n.Start(c.ID, 1); err != nil {
			t.Error(err)
		}
	}
}

// end takes a container off the kubelet's books, and nobody else.
func (n *node) end(c enforce.Container) {
	n.t.Helper()
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(n.cfg.StateDir, "mps-containers", c.ID+".json"), past, past); err != nil {
		n.t.Fatal(err)
	}
	kept := map[string]bool{}
	for id := range n.containers {
		kept[id] = id != c.ID
	}
	if err := n.Keep(kept); err != nil {
		n.t.Fatal(err)
	}
}

// TestDeadAndHangingDaemonsAreReplaced with their limits.
func TestDeadAndHangingDaemonsAreReplaced(t *testing.T) {
	n := newNode(t)
	n.run(slice("a", 10240, 250, 1))
	n.told()
	n.daemon(gpu).kill()
	n.look(t.Context())
	n.expect("killed", append([]string{started}, defaults(10240, 25)...)...)
	n.steer("mute", "")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.daemon(gpu).servers(ctx); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a hanging daemon: %v", err)
	}
	n.release("mute") // the next one answers
	n.daemon(gpu).patience = 2 * time.Second
	n.look(t.Context())
	n.expect("hung", append([]string{started}, defaults(10240, 25)...)...)
	if n.lost != 2 {
		t.Errorf("told of %d lost daemons, want 2", n.lost)
	}
}

// TestPluginRestartLeavesTheClients: the next process finds daemon and containers
// as they are.
func TestPluginRestartLeavesTheClients(t *testing.T) {
	n := newNode(t)
	a := slice("a", 10240, 250, 1)
	n.run(a)
	n.told()
	n.open(n.cfg)
	if err := n.Start(a.ID, 1); err != nil {
		t.Fatal(err)
	}
	n.expect("after a restart", defaults(10240, 25)...)
}

// TestWholeGPU: MPS and its compute mode are out of the way of a whole GPU, and come
// back for the next part of it.
func TestWholeGPU(t *testing.T) {
	n := newNode(t)
	a := slice("a", 10240, 250, 1)
	n.run(a)
	n.told()
	n.end(a)
	whole := enforce.Container{ID: enforce.ContainerID("w", []string{"w"}), Whole: true, Shares: []enforce.Share{{UUID: gpu}}}
	if e := n.run(whole); len(e.Mounts)+len(e.Env) > 0 {
		t.Errorf("edits of a whole GPU: %+v", e)
	}
	n.expect("whole", "quit")
	n.run(slice("b", 5120, 500, 1))
	n.expect("a part again", append([]string{started}, defaults(5120, 50)...)...)
	if want := []string{gpu + " true", gpu + " false", gpu + " true"}; !slices.Equal(n.modes, want) {
		t.Errorf("compute modes %q, want %q", n.modes, want)
	}
}

// TestWholeGPUStaysWhole: a container that ended a moment ago is still on record, and
// must not bring MPS back onto a GPU that another one has whole.
func TestWholeGPUStaysWhole(t *testing.T) {
	n := newNode(t)
	n.run(slice("a", 10240, 250, 1))
	n.run(enforce.Container{ID: enforce.ContainerID("w", []string{"w"}), Whole: true, Shares: []enforce.Share{{UUID: gpu}}})
	n.told()
	n.look(t.Context())
	n.expect("whole")
	if n.exclusive {
		t.Error("the compute mode of a whole GPU is EXCLUSIVE_PROCESS")
	}
	n.run(slice("b", 5120, 500, 1))
	n.told()
	n.daemon(gpu).kill()
	n.look(t.Context())
	n.expect("a part again", append([]string{started}, defaults(10240, 50)...)...)
}

func TestSameMemory(t *testing.T) {
	for text, want := range map[string]bool{
		"10240M": true, "10G": true, "Default: 10240 MB": true, "10GB": true, "": false, "10241M": false, "11G": false, "10240": false, "none": false,
	} {
		if got := sameMemory(text, 10240); got != want {
			t.Errorf("sameMemory(%q) = %t", text, got)
		}
	}
}

func FuzzSameMemory(f *testing.F) {
	f.Add("10240M", int64(10240))
	f.Fuzz(func(t *testing.T, text string, mib int64) {
		if sameMemory(text, mib) && mib < 0 {
			t.Errorf("%q is %d MiB", text, mib)
		}
		if mib > 0 && mib < 1e12 && !sameMemory(fmt.Sprintf("%dM", mib), mib) {
			t.Errorf("%d MiB is not itself", mib)
		}
	})
}

func TestNoControlProgram(t *testing.T) {
	if _, err := New(Config{Control: "/nowhere/nvidia-cuda-mps-control", StateDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "nvidia-cuda-mps-control") {
		t.Errorf("error %v", err)
	}
}
