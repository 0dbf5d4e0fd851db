// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout          = 10 * time.Second
	startPoll             = 50 * time.Millisecond
	firstRetry, lastRetry = time.Second, time.Minute
	// exclusiveMark says that the card's compute mode is our doing.
	exclusiveMark = "exclusive"
)

// daemon is the control daemon of one GPU, running or not. One that was started by
// an earlier process, or by hand, is taken over if it answers.
type daemon struct {
	cfg *Config
	dir string
	control

	mu       sync.Mutex
	child    *exec.Cmd
	ended    chan struct{} // closed when child has ended
	applied  limits
	retired  bool // the GPU was given whole, and no part of it since
	failures int
	notYet   time.Time // no attempt before
	last     error     // why the last attempt failed
}

func newDaemon(cfg *Config, uuid string) *daemon {
	dir := filepath.Join(cfg.Dir, uuid)
	return &daemon{cfg: cfg, dir: dir, control: control{
		program: cfg.Control, pipe: filepath.Join(dir, "pipe"), log: filepath.Join(dir, "log"), uuid: uuid, patience: cfg.Patience,
	}}
}

// ensure returns nil if the daemon answers and holds to the limits. Otherwise it is
// started, unless it has failed a moment ago.
func (d *daemon) ensure(ctx context.Context, want limits) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = false
	return d.hold(ctx, want)
}

// watch is ensure where no container starts: the records of those that have ended
// stay a while, and must not bring back a daemon that is retired.
func (d *daemon) watch(ctx context.Context, want limits) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.retired {
		return nil
	}
	return d.hold(ctx, want)
}

// hold must be called with the lock held.
func (d *daemon) hold(ctx context.Context, want limits) error {
	pids, err := d.servers(ctx)
	if err != nil {
		if now := d.cfg.Now(); now.Before(d.notYet) {
			return fmt.Errorf("the MPS daemon of GPU %s does not run, it is started again in %v: %w", d.uuid, d.notYet.Sub(now).Round(time.Second), d.last)
		}
		if err := d.start(ctx); err != nil {
			d.fail(err)
			return err
		}
	}
	if err := d.usable(ctx, pids); err != nil {
		return err
	}
	if d.applied == want {
		d.failures = 0
		return nil
	}
	if now := d.cfg.Now(); now.Before(d.notYet) {
		return fmt.Errorf("the MPS daemon of GPU %s has refused its limits, it is asked again in %v: %w", d.uuid, d.notYet.Sub(now).Round(time.Second), d.last)
	}
	d.applied = limits{}
	if err := d.set(ctx, want); err != nil {
		d.fail(err)
		return err
	}
	d.applied, d.failures = want, 0
	return nil
}

// usable returns nil if a process that starts now finds the daemon's server, and none
// but it. The compute mode is looked at each time: an administrator or a reset of the
// GPU may have changed it.
func (d *daemon) usable(ctx context.Context, servers []int) error {
	for _, pid := range servers {
		if d.faulty(ctx, pid) {
			return fmt.Errorf("the MPS server of GPU %s has a fault of one of its clients: it takes no other until all of them have ended", d.uuid)
		}
	}
	return d.makeExclusive()
}

func (d *daemon) fail(err error) {
	wait := min(lastRetry, firstRetry<<min(d.failures, 10))
	d.failures++
	d.last, d.notYet = err, d.cfg.Now().Add(wait)
	d.cfg.Log.Error("an MPS daemon is not ready, containers of its GPU wait", "uuid", d.uuid, "retry", wait, "error", err)
}

// start replaces a daemon that does not answer.
func (d *daemon) start(ctx context.Context) error {
	if d.applied != (limits{}) {
		d.cfg.Log.Error("an MPS daemon no longer answers and is started again: its clients have failed", "uuid", d.uuid)
		d.cfg.Lost(d.uuid)
	}
	d.kill()
	d.applied = limits{}
	for _, dir := range []string{d.pipe, d.log} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the MPS directory of GPU %s: %w", d.uuid, err)
		}
	}
	if err := d.makeExclusive(); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(d.log, "daemon.out"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("starting the MPS daemon of GPU %s: %w", d.uuid, err)
	}
	defer out.Close()
	args := append([]string{"-f"}, d.cfg.Args...)
	cmd := exec.Command(d.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.environment(), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	release := ownCgroup(cmd, d.cfg.Cgroup)
	err = cmd.Start()
	release()
	if err != nil {
		return fmt.Errorf("starting the MPS daemon of GPU %s: %w", d.uuid, err)
	}
	ended := make(chan struct{})
	d.child, d.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return d.await(ctx, ended)
}

// ownCgroup keeps the daemon out of our control group, so that a runtime that ends
// our container leaves it running. Where that is not possible it ends with us.
func ownCgroup(cmd *exec.Cmd, dir string) func() {
	if dir == "" || os.Mkdir(dir, 0o755) != nil && !isDir(dir) {
		return func() {}
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
		return func() {}
	}
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
	return func() { _ = f.Close() }
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// await returns when the daemon answers; it kills one that does not in time.
func (d *daemon) await(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := d.servers(ctx)
		if err == nil {
			d.cfg.Log.Info("started an MPS daemon", "uuid", d.uuid, "pipe", d.pipe)
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the MPS daemon of GPU %s has ended at once (%s); see %s", d.uuid, d.child.ProcessState, d.log)
		case <-ctx.Done():
			d.kill()
			return fmt.Errorf("the MPS daemon of GPU %s did not answer within %v of its start; see %s: %w", d.uuid, startTimeout, d.log, err)
		case <-time.After(startPoll):
		}
	}
}

// kill ends a daemon that we started, with its servers.
func (d *daemon) kill() {
	if d.child == nil {
		return
	}
	_ = syscall.Kill(-d.child.Process.Pid, syscall.SIGKILL)
	<-d.ended
	d.child, d.ended = nil, nil
}

// makeExclusive fails where the mode cannot be set: without it a process that avoids
// the daemon has no limit. The mark comes first, so that a mode of our making is never
// left behind; where the mode was so before, it is not ours to take back.
func (d *daemon) makeExclusive() error {
	mark := filepath.Join(d.dir, exclusiveMark)
	_, err := os.Stat(mark)
	ours := err == nil
	if !ours {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return fmt.Errorf("noting the compute mode of GPU %s: %w", d.uuid, err)
		}
	}
	changed, err := d.cfg.SetExclusive(d.uuid, true)
	if !ours && !changed {
		_ = os.Remove(mark)
	}
	if err != nil {
		return fmt.Errorf("GPU %s cannot be held by MPS, for a process that avoids the daemon would have no limit: %w", d.uuid, err)
	}
	if ours && changed {
		d.cfg.Log.Warn("the compute mode EXCLUSIVE_PROCESS had been taken from a GPU and is set again", "uuid", d.uuid)
	}
	return nil
}

// retire ends the daemon and takes the compute mode back, for a container that
// gets the whole GPU.
func (d *daemon) retire(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = true
	if _, err := d.servers(ctx); err == nil {
		// It waits for the clients; there are none left but those that are ending.
		if _, err := d.ask(ctx, "quit"); err != nil {
			return fmt.Errorf("ending MPS on a GPU that is given whole: %w", err)
		}
	}
	d.kill()
	d.applied = limits{}
	mark := filepath.Join(d.dir, exclusiveMark)
	if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := d.cfg.SetExclusive(d.uuid, false); err != nil {
		return fmt.Errorf("taking back the compute mode EXCLUSIVE_PROCESS of GPU %s: %w", d.uuid, err)
	}
	return os.Remove(mark)
}
