// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/test/stack"
)

// machine is a simulated machine whose NVML lists the processes of a file. Its
// kernel driver is drive: each container has a stand-in GPU that accounts by process,
// and drive tells NVML of them with the PIDs of the host.
const machine = `name: eight GPUs whose processes are told
processesFile: %s
gpus:
- count: 8
  base: a100-sxm4-40gb
  numa: [0, 0, 0, 0, 1, 1, 1, 1]
`

func processesFile(dir string) string { return filepath.Join(dir, "processes.yaml") }

// writeMachine returns the path of the profile.
func writeMachine(dir string) (string, error) {
	profile := filepath.Join(dir, "machine.yaml")
	return profile, os.WriteFile(profile, fmt.Appendf(nil, machine, processesFile(dir)), 0o644)
}

// drive tells the NVML of the node, until the test ends, which processes use which
// GPU, as the kernel's driver does.
func (f fixture) drive(n *stack.RealNode, dir string) {
	f.t.Helper()
	object, err := f.Client.CoreV1().Nodes().Get(f.ctx, n.Name, metav1.GetOptions{})
	f.must(err)
	inventory, err := v1alpha1.DecodeInventory(object.Annotations[v1alpha1.AnnotationGPUs])
	f.must(err)
	var uuids []string
	for _, g := range inventory.GPUs {
		uuids = append(uuids, g.UUID)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if err := writeProcesses(dir, onNode(n.CgroupRoot(), uuids)); err != nil {
				f.t.Error("the driver's part:", err)
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	f.t.Cleanup(func() { close(stop); <-stopped; os.Remove(processesFile(dir)) })
}

func writeProcesses(dir string, list []nvml.FileProcess) error {
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	next := processesFile(dir) + ".next"
	if err := os.WriteFile(next, raw, 0o644); err != nil {
		return err
	}
	return os.Rename(next, processesFile(dir))
}

// onNode lists the processes below the control group that hold memory of a stand-in
// GPU. What ends meanwhile is left out.
func onNode(cgroup string, uuids []string) []nvml.FileProcess {
	var out []nvml.FileProcess
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), cgroup+"/") {
			continue
		}
		of := filepath.Dir(file)
		inside, err := innermostPID(of)
		state, errState := os.ReadFile(filepath.Join(of, "root/tmp/fairslice-standin"))
		pid, errPID := strconv.ParseUint(filepath.Base(of), 10, 32)
		if err != nil || errState != nil || errPID != nil {
			continue
		}
		uuid, used := standinUse(state, inside)
		if at := slices.Index(uuids, uuid); at >= 0 && used > 0 {
			out = append(out, nvml.FileProcess{GPU: at, PID: uint32(pid), UsedMiB: used >> 20})
		}
	}
	return out
}

// innermostPID is what the process itself takes for its PID.
func innermostPID(proc string) (uint32, error) {
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s has no line NSpid", proc)
	}
	pid, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
	return uint32(pid), err
}

// standinUse reads the state of a stand-in machine with one GPU (struct machine in
// deviceplugin/interceptor/standin/machine.c): the GPU's UUID, and what the process
// holds of it.
func standinUse(state []byte, pid uint32) (uuid string, used uint64) {
	const gpus, gpuSize, procSize, maxGPUs, maxProcs = 56, 56, 144, 16, 512
	const procs = gpus + maxGPUs*gpuSize
	if len(state) < procs+maxProcs*procSize {
		return "", 0
	}
	id := hex.EncodeToString(state[gpus : gpus+16])
	uuid = fmt.Sprintf("GPU-%s-%s-%s-%s-%s", id[:8], id[8:12], id[12:16], id[16:20], id[20:])
	for i := range maxProcs {
		p := state[procs+i*procSize:]
		if binary.LittleEndian.Uint32(p) == pid {
			used += binary.LittleEndian.Uint64(p[16:])
		}
	}
	return uuid, used
}

func uuidsOf(gpus []v1alpha1.AssignedGPU) []string {
	var out []string
	for _, g := range gpus {
		out = append(out, g.UUID)
	}
	return out
}
