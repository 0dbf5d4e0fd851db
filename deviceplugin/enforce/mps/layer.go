// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/enforce/record"
)

const (
	// pipeInContainer is where a container finds its GPU's daemon.
	pipeInContainer = "/run/fairslice-mps"
	shmInContainer  = "/dev/shm"
	// readyTimeout is less than the kubelet's 30 s for the start of a container.
	readyTimeout = 20 * time.Second
	// MaxClients of a GPU since Volta (NVIDIA, Multi-Process Service).
	MaxClients = 48

	envPipe   = "CUDA_MPS_PIPE_DIRECTORY"
	envMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	envShare  = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
)

// Config of the layer.
type Config struct {
	// Control is NVIDIA's program nvidia-cuda-mps-control: a path, or a name to be
	// found in PATH. Args follow -f at the start of a daemon.
	Control string
	Args    []string
	// Dir holds each daemon's directories; containers see it at the same path of the
	// host. StateDir holds the records.
	Dir, StateDir string
	// ShmDir is, on the host, the directory that the daemons see as /dev/shm.
	ShmDir string
	// Cgroup is the directory of a control group (version 2) for the daemons; empty
	// for our own.
	Cgroup string
	// ProbeEvery is the time between two looks at a daemon.
	ProbeEvery time.Duration
	// Patience is how long a daemon may take for an answer.
	Patience time.Duration
	// SetExclusive sets the compute mode of a GPU to EXCLUSIVE_PROCESS, or back to
	// DEFAULT, and says whether it was another one before.
	SetExclusive func(uuid string, on bool) (changed bool, err error)
	// Lost is called when a daemon that had clients is started again. It must not call
	// the layer.
	Lost func(uuid string)
	Now  func() time.Time
	Log  *slog.Logger
}

// Layer implements enforce.Layer.
type Layer struct {
	cfg     Config
	records *record.Store

	mu         sync.Mutex
	containers map[string]enforce.Container
	// running are those that were started, or that may have been by an earlier process.
	running map[string]bool
	daemons map[string]*daemon // by UUID
}

// New looks for the control program and reads which containers there are.
func New(cfg Config) (*Layer, error) {
	program, err := exec.LookPath(cfg.Control)
	if err != nil {
		return nil, fmt.Errorf("MPS needs NVIDIA's program nvidia-cuda-mps-control: %w", err)
	}
	cfg.Control = program
	l := &Layer{cfg: cfg, containers: map[string]enforce.Container{}, running: map[string]bool{}, daemons: map[string]*daemon{}}
	if l.records, err = record.Open(filepath.Join(cfg.StateDir, "mps-containers")); err != nil {
		return nil, err
	}
	known, err := l.records.All()
	if err != nil {
		return nil, err
	}
	for _, c := range known {
		l.containers[c.ID], l.running[c.ID] = c, true
	}
	return l, nil
}

// Level is LevelMPS.
func (*Layer) Level() string { return enforce.LevelMPS }

// HoldsCompute is true: MPS limits the share of the multiprocessors.
func (*Layer) HoldsCompute() bool { return true }

// Prepare records the container and tells it where its daemon is. It starts
// nothing: the kubelet admits no other pod meanwhile.
func (l *Layer) Prepare(c enforce.Container) (enforce.Edits, error) {
	var own limits
	if !c.Whole {
		var err error
		if own, err = processLimits(c); err != nil {
			return enforce.Edits{}, err
		}
	}
	if err := l.records.Save(c); err != nil {
		return enforce.Edits{}, err
	}
	l.mu.Lock()
	l.containers[c.ID] = c
	l.mu.Unlock()
	if c.Whole {
		return enforce.Edits{}, nil
	}
	return enforce.Edits{
		Env: map[string]string{
			envPipe:   pipeInContainer,
			envMemory: fmt.Sprintf("0=%dM", own.memoryMiB),
			envShare:  strconv.FormatInt(own.percent, 10),
		},
		Mounts: []enforce.Mount{
			{Host: l.daemon(c.Shares[0].UUID).pipe, Container: pipeInContainer},
			{Host: l.cfg.ShmDir, Container: shmInContainer},
		},
	}, nil
}

// Start returns nil only if the container's daemon answers with limits that hold
// it; for a whole GPU, only if no daemon is in its way. A container without a
// record had its devices before the layer was in use.
func (l *Layer) Start(id string, processes int) error {
	l.mu.Lock()
	c, known := l.containers[id]
	l.mu.Unlock()
	if !known {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if c.Whole {
		for _, s := range c.Shares {
			if err := l.daemon(s.UUID).retire(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	// Two pods that ask for the same may have traded their devices, and with them
	// the environment, which the kubelet does not ask for again.
	if given := max(1, c.Processes); processes > given {
		return fmt.Errorf("its pod declares %d processes, and it was given limits for %d, because another pod was expected: delete the pod, its next one is given its own", processes, given)
	}
	if err := l.admit(c); err != nil {
		return err
	}
	uuid := c.Shares[0].UUID
	return l.daemon(uuid).ensure(ctx, l.want(uuid))
}

// admit takes the container's processes to those of its GPU's daemon: one client too
// many would be refused by the server, in the middle of a program.
func (l *Layer) admit(c enforce.Container) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	clients := max(1, c.Processes)
	for id := range l.running {
		other := l.containers[id]
		if id != c.ID && !other.Whole && len(other.Shares) == 1 && other.Shares[0].UUID == c.Shares[0].UUID {
			clients += max(1, other.Processes)
		}
	}
	if clients > MaxClients {
		return fmt.Errorf("with it GPU %s would have %d processes, and MPS takes %d: it waits until others have ended", c.Shares[0].UUID, clients, MaxClients)
	}
	l.running[c.ID] = true
	return nil
}

// Keep forgets other containers; what is left to the daemons' servers shrinks with
// the next look at them.
func (l *Layer) Keep(ids map[string]bool) error {
	gone, err := l.records.Keep(ids)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range gone {
		delete(l.containers, id)
		delete(l.running, id)
	}
	return err
}

// Run looks after the daemons until ctx is done. It leaves them running: their
// clients are.
func (l *Layer) Run(ctx context.Context) {
	tick := time.NewTicker(l.cfg.ProbeEvery)
	defer tick.Stop()
	for {
		l.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look brings the daemon of every GPU with containers up and its limits up to date.
func (l *Layer) look(ctx context.Context) {
	for uuid, want := range l.wanted() {
		if err := l.daemon(uuid).watch(ctx, want); err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn("MPS does not hold a GPU now", "uuid", uuid, "error", err)
		}
	}
}

// wanted are the limits of every GPU that has containers with a part of it.
func (l *Layer) wanted() map[string]limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]limits{}
	for _, c := range l.containers {
		if c.Whole {
			continue
		}
		if own, err := processLimits(c); err == nil {
			out[c.Shares[0].UUID] = largest(out[c.Shares[0].UUID], own)
		}
	}
	return out
}

func (l *Layer) want(uuid string) limits { return l.wanted()[uuid] }

func (l *Layer) daemon(uuid string) *daemon {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, known := l.daemons[uuid]
	if !known {
		d = newDaemon(&l.cfg, uuid)
		l.daemons[uuid] = d
	}
	return d
}
