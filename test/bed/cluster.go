// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

// Options of a cluster. The zero value is a complete control plane without a
// scheduler and without nodes.
type Options struct {
	// APIServerFlags are appended to kube-apiserver's, for example
	// "--feature-gates=…".
	APIServerFlags []string
	// NoControllerManager leaves kube-controller-manager out. Then no namespace
	// gets a default service account (pods of a namespace are refused until one
	// is made), no owner's pods are made or collected, and no node's taints
	// follow its condition.
	NoControllerManager bool
	// ClientQPS limits the clients of RESTConfig to that many requests a
	// second; 0 means no limit.
	ClientQPS float32
	// Keep leaves the cluster's folder with its logs in place at the end.
	Keep bool
	// Progress receives whole lines while programs are built; default
	// os.Stderr.
	Progress io.Writer
}

// Cluster is a running control plane and its nodes. Its methods may be called
// from several goroutines.
type Cluster struct {
	options  Options
	folder   string
	programs binaries.Dir
	minder   *minder

	ca, frontProxyCA *authority
	apiPort          int
	client           kubernetes.Interface

	mu         sync.Mutex
	components map[string]*process
	order      []string // in which components were started
	stopped    bool
}

// Names of the control plane's components, for Kill, Restart, Signal and Logs.
// A scheduler has the name that it was started with.
const (
	Etcd              = binaries.Etcd
	APIServer         = binaries.APIServer
	ControllerManager = binaries.ControllerManager
	KubeScheduler     = binaries.Scheduler
	Kwok              = binaries.Kwok
)

// Start builds what is missing of the control plane's programs (minutes, once a
// machine), starts etcd, kube-apiserver and kube-controller-manager, and returns
// when they serve. The context bounds the start only; Stop ends the cluster.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	programs, err := binaries.Ensure(ctx, options.Progress, binaries.ControlPlane...)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, folder: folder, programs: programs, components: map[string]*process{}}
	if c.minder, err = startMinder(folder, options.Keep); err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// newFolder is short: sockets below it may have paths of at most 107 bytes.
func newFolder() (string, error) {
	base := os.TempDir()
	if len(base) > 30 {
		base = "/tmp"
	}
	folder, err := os.MkdirTemp(base, "fsbed-")
	if err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	for _, sub := range []string{"log", "pki", "etc"} {
		if err := os.Mkdir(filepath.Join(folder, sub), 0o755); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// Folder holds everything that the cluster writes: log, pki, etc, etcd and one
// folder a real node. It is removed at the end.
func (c *Cluster) Folder() string { return c.folder }

// Process is a program of the caller's that is to live and die with the
// cluster: a control plane under test, a device plugin.
type Process struct {
	Name string // of the component, also of its log file
	Path string
	Args []string
	Env  []string // "KEY=value", beside this program's environment
	// Ready returns nil once the process serves; nil means at once.
	Ready func(context.Context) error
}

// StartProcess runs the program as a component of the cluster and returns when
// it is ready.
func (c *Cluster) StartProcess(ctx context.Context, p Process) error {
	if p.Ready == nil {
		p.Ready = func(context.Context) error { return nil }
	}
	return c.run(ctx, &process{name: p.Name, path: p.Path, args: p.Args, env: p.Env, ready: p.Ready})
}

// run adds the process to the cluster and starts it.
func (c *Cluster) run(ctx context.Context, p *process) error {
	p.log = filepath.Join(c.folder, "log", p.name+".log")
	p.env = append(p.env, envFolder+"="+c.folder)
	c.mu.Lock()
	if _, ok := c.components[p.name]; ok || c.stopped {
		defer c.mu.Unlock()
		if c.stopped {
			return fmt.Errorf("start %s: the cluster was stopped", p.name)
		}
		return fmt.Errorf("start %s: the cluster has a component of that name, Restart starts it again", p.name)
	}
	c.components[p.name] = p
	c.order = append(c.order, p.name)
	c.mu.Unlock()
	return p.start(ctx)
}

func (c *Cluster) component(name string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.components[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("component %q is not part of this cluster, must be one of %s", name, strings.Join(c.order, ", "))
}

// Kill ends a component as kill -9 does and returns when it is gone.
func (c *Cluster) Kill(component string) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	return p.kill()
}

// Restart starts a component again with the same flags, port and data, killing
// it first if it runs, and returns when it serves.
func (c *Cluster) Restart(ctx context.Context, component string) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	_ = p.kill() // that it does not run is what Restart is for
	return p.start(ctx)
}

// Signal sends a signal to a component: SIGTERM for an orderly end, SIGSTOP and
// SIGCONT for one that hangs for a while.
func (c *Cluster) Signal(component string, sig syscall.Signal) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	_, err = p.signal(sig)
	return err
}

// Wait returns when the component's present process has ended, at once if it
// does not run, or with the context's error.
func (c *Cluster) Wait(ctx context.Context, component string) error {
	p, err := c.component(component)
	if err != nil {
		return err
	}
	p.mu.Lock()
	r := p.last
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Logs returns all that a component has written so far, over all its starts.
func (c *Cluster) Logs(component string) (string, error) {
	p, err := c.component(component)
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(p.log)
	return string(raw), err
}

// Stop kills all components, last started first, and removes what the cluster
// wrote. A second call does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	var all []*process
	for _, name := range slices.Backward(c.order) {
		all = append(all, c.components[name])
	}
	c.mu.Unlock()
	for _, p := range all {
		_ = p.kill() // one that does not run is no worry at the end
	}
	return c.minder.finish()
}
