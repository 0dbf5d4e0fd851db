// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/enforce/cgroup"
	"github.com/fairslice/fairslice/deviceplugin/enforce/intercept"
	"github.com/fairslice/fairslice/deviceplugin/enforce/mps"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// layerLevels are the levels that IsolationOptions.Levels may name: the others are
// no layers.
var layerLevels = []string{enforce.LevelCgroup, enforce.LevelMPS, enforce.LevelIntercept, enforce.LevelNone}

// IsolationOptions say what may hold containers to their memory.
type IsolationOptions struct {
	// Levels in order of preference: the first that the node can do is taken, and
	// published. One alone is forced.
	Levels []string
	// CgroupRoot is where the host mounts its control groups, at the same path here.
	CgroupRoot string
	// HostNVML is the path of libnvidia-ml.so.1 on the host, for the hook; empty for
	// the dynamic linker's choice.
	HostNVML string
	// MPSControl is NVIDIA's program, MPSShmDir the host's directory that daemons
	// see as /dev/shm, MPSMultiUser lets clients of different users in.
	MPSControl, MPSShmDir string
	MPSMultiUser          bool
}

// defaultIsolationOptions leave MPS out: with it, one container's fault ends its
// neighbours, which is for an administrator to accept.
func defaultIsolationOptions() IsolationOptions {
	return IsolationOptions{
		Levels:     []string{enforce.LevelCgroup, enforce.LevelIntercept, enforce.LevelNone},
		CgroupRoot: "/sys/fs/cgroup", MPSControl: "nvidia-cuda-mps-control", MPSShmDir: "/dev/shm", MPSMultiUser: true,
	}
}

func (i *IsolationOptions) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&i.Levels, "isolation", i.Levels, "what holds containers to their memory, the first that the node can do of: "+strings.Join(layerLevels, ", "))
	f.StringVar(&i.CgroupRoot, "cgroup-root", i.CgroupRoot, "where the control groups are mounted, here and on the host")
	f.StringVar(&i.HostNVML, "host-nvml-library", i.HostNVML, "path of libnvidia-ml.so.1 on the host; empty for the dynamic linker's choice")
	f.StringVar(&i.MPSControl, "mps-control", i.MPSControl, "NVIDIA's program that controls MPS")
	f.StringVar(&i.MPSShmDir, "mps-shm-dir", i.MPSShmDir, "the host's directory that is /dev/shm here")
	f.BoolVar(&i.MPSMultiUser, "mps-multi-user", i.MPSMultiUser, "let containers of different users share an MPS server")
}

func (i *IsolationOptions) validate(stateDir, cdiDir string) error {
	if len(i.Levels) == 0 {
		return fmt.Errorf("option isolation is empty, must be of %s", strings.Join(layerLevels, ", "))
	}
	for _, l := range i.Levels {
		if !slices.Contains(layerLevels, l) {
			return fmt.Errorf("option isolation has %q, must be of %s", l, strings.Join(layerLevels, ", "))
		}
	}
	needed := map[string]string{}
	if slices.Contains(i.Levels, enforce.LevelCgroup) {
		needed["cgroup-root"], needed["cdi-dir"], needed["state-dir"] = i.CgroupRoot, cdiDir, stateDir
	}
	if slices.Contains(i.Levels, enforce.LevelMPS) {
		needed["mps-shm-dir"], needed["state-dir"] = i.MPSShmDir, stateDir
	}
	for _, name := range []string{"cgroup-root", "cdi-dir", "mps-shm-dir", "state-dir"} {
		if value, is := needed[name]; is && !filepath.IsAbs(value) {
			return fmt.Errorf("option %s is %q, must be an absolute path", name, value)
		}
	}
	return nil
}

// chooseLayer takes the first level that works. A level is tried, not guessed from
// a version.
func (a *agent) chooseLayer(lib nvml.Library) error {
	if a.onlyInstances() {
		a.log.Info("containers are held to their memory", "isolation", enforce.LevelMIG)
		return nil // the hardware holds them
	}
	var why []error
	for _, level := range a.o.Isolation.Levels {
		layer, err := a.tryLayer(level, lib)
		if err == nil {
			a.layer = layer
			a.log.Info("containers are held to their memory", "isolation", layer.Level())
			return nil
		}
		a.log.Info("this node cannot do an isolation level", "isolation", level, "reason", err)
		why = append(why, fmt.Errorf("%s: %w", level, err))
	}
	return fmt.Errorf("option isolation names %s, of which this node can do none: %w", strings.Join(a.o.Isolation.Levels, ", "), errors.Join(why...))
}

func (a *agent) tryLayer(level string, lib nvml.Library) (enforce.Layer, error) {
	switch level {
	case enforce.LevelCgroup:
		l, err := a.cgroupLayer()
		if err != nil {
			return nil, err
		}
		return a.withInterceptor(l)
	case enforce.LevelMPS:
		l, err := a.mpsLayer(lib)
		if err != nil {
			return nil, err
		}
		stacked, err := a.withInterceptor(l)
		if err == nil {
			a.background = append(a.background, l.Run)
			a.limitSharers(mps.MaxClients)
		}
		return stacked, err
	case enforce.LevelIntercept:
		if a.o.InterceptorDir == "" {
			return nil, errors.New("option interceptor-dir is empty")
		}
		return intercept.New(a.o.InterceptorDir, a.o.StateDir)
	default:
		return enforce.None{}, nil
	}
}

// limitSharers lets at most n containers share a GPU, fewer where the option says so.
func (a *agent) limitSharers(n int) {
	for i := range a.cards {
		if c := &a.cards[i]; c.maxSharers == 0 || c.maxSharers > n {
			c.maxSharers = n
		}
	}
}

// withInterceptor lets the interceptor, where it is configured, cover what a layer
// does not: compute below a control group's limit, the sum of a container's
// processes below MPS.
func (a *agent) withInterceptor(l enforce.Layer) (enforce.Layer, error) {
	if a.o.InterceptorDir == "" {
		return l, nil
	}
	i, err := intercept.New(a.o.InterceptorDir, a.o.StateDir)
	if err != nil {
		return nil, err
	}
	return enforce.Stack(l, i), nil
}

func (a *agent) cgroupLayer() (enforce.Layer, error) {
	driver, err := cgroup.Open(a.o.NVMLLibrary)
	if err != nil {
		return nil, err
	}
	defer func() { _ = driver.Close() }()
	uuids := make([]string, 0, len(a.cards))
	for _, c := range a.cards {
		if c.instance == nil { // the driver has no limits in MIG mode
			uuids = append(uuids, c.account.UUID)
		}
	}
	if err := cgroup.Probe(driver, a.o.Isolation.CgroupRoot, uuids); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program of the hook: %w", err)
	}
	return cgroup.New(cgroup.Config{
		CDIDir: a.o.CDIDir, StateDir: a.o.StateDir, Program: program,
		NVMLLibrary: a.o.Isolation.HostNVML, CgroupRoot: a.o.Isolation.CgroupRoot,
	})
}

// exclusive is a Library that can set the compute mode EXCLUSIVE_PROCESS.
type exclusive interface {
	SetExclusive(uuid string, on bool) (changed bool, err error)
}

func (a *agent) mpsLayer(lib nvml.Library) (*mps.Layer, error) {
	cfg := mps.Config{
		Control: a.o.Isolation.MPSControl, Dir: filepath.Join(a.o.StateDir, "mps"), StateDir: a.o.StateDir,
		ShmDir: a.o.Isolation.MPSShmDir, ProbeEvery: a.o.ProbeEvery, Patience: 5 * time.Second, Now: time.Now, Log: a.log,
		Cgroup:       filepath.Join(a.o.Isolation.CgroupRoot, "fairslice-mps"),
		SetExclusive: func(string, bool) (bool, error) { return false, nil }, // simulated GPUs have no compute mode
		Lost:         a.tellLostMPS,
	}
	if a.o.Isolation.MPSMultiUser {
		cfg.Args = append(cfg.Args, "-multiuser-server")
	}
	if e, can := lib.(exclusive); can {
		cfg.SetExclusive = e.SetExclusive
	}
	return mps.New(cfg)
}

// declarations remember how many GPU processes each pod of the node declares.
type declarations struct {
	mu    sync.Mutex
	byUID map[string]string
}

func (d *declarations) upsert(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byUID == nil {
		d.byUID = map[string]string{}
	}
	delete(d.byUID, string(p.UID))
	if text, set := p.Annotations[v1alpha1.AnnotationGPUProcesses]; set {
		d.byUID[string(p.UID)] = text
	}
}

func (d *declarations) remove(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byUID, uid)
}

// of is 1 where a pod declares nothing.
func (d *declarations) of(uid string) (int, error) {
	d.mu.Lock()
	text, set := d.byUID[uid]
	d.mu.Unlock()
	if !set {
		return 1, nil
	}
	return v1alpha1.ParseGPUProcesses(text)
}

// start prepares the limit of a container that is about to start.
func (a *agent) start(k pool.Kind, ids []string) error {
	if shares, err := a.pool.Shares(k, ids); err == nil && len(shares) > 0 && shares[0].GPU.Instance {
		return nil
	}
	processes := 0
	if owner, known := a.ownerOf(k, ids); known {
		var err error
		if processes, err = a.declared.of(owner.PodUID); err != nil {
			return err
		}
	}
	if err := a.layer.Start(enforce.ContainerID(a.names[k], ids), processes); err != nil {
		return fmt.Errorf("the %s limit: %w", a.layer.Level(), err)
	}
	return nil
}
