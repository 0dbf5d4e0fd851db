// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// GPU is one physical device.
type GPU struct {
	// UUID as the driver reports it, for example "GPU-fef8089b-…".
	UUID string
	// Index is the driver's index, in PCI order; it may change after a reboot.
	Index int
	// Minor is the number of the device node /dev/nvidia<Minor>, −1 if unknown.
	Minor int
	// Model as the driver names it, for example "NVIDIA A100-SXM4-40GB".
	Model string
	// TotalMiB is the card's memory, ReservedMiB what the driver keeps of it for
	// itself (0 if it does not say), UsedMiB what is in use now.
	TotalMiB, ReservedMiB, UsedMiB int64
	// NUMANode is −1 when unknown.
	NUMANode int
	// MIG is true while the card is split into MIG instances.
	MIG bool
	// Instances of a card in MIG mode that answer.
	Instances []Instance
}

// Event is a critical error that the driver reported.
type Event struct {
	// UUID of the GPU; empty when the driver did not say, then it may be any.
	UUID string
	// XID is the driver's error code.
	XID uint64
	// At is when the event was read.
	At time.Time
}

// Library is a machine's GPUs.
type Library interface {
	// GPUs lists the GPUs that answer, with their MIG instances. Those that do not
	// are in the error, which may come together with a list.
	GPUs() ([]GPU, error)
	// Watch reports critical errors of the GPUs, never of MIG instances, until ctx is done. It returns
	// early, with an error, where the driver supports no events.
	Watch(ctx context.Context, report func(Event)) error
	// Probe is nil if the GPU answers and asks for no reset; for a MIG instance, if
	// it is there and its GPU asks for none.
	Probe(uuid string) error
	// Memory of one GPU, or of one MIG instance, now.
	Memory(uuid string) (Memory, error)
	// Processes that use memory of one GPU, or of one MIG instance, by PID. An error
	// means that nothing is known, never that there are none.
	Processes(uuid string) ([]Process, error)
	// Simulated says that there is no hardware behind it.
	Simulated() bool
	// Close releases the library.
	Close() error
}

// driver is Library on top of go-nvml's interface.
type driver struct {
	lib       nvml.Interface
	simulated bool
	close     sync.Once
}

// Open loads the NVIDIA driver's library. An empty path means the dynamic
// linker's choice of libnvidia-ml.so.1.
func Open(path string) (Library, error) {
	var opts []nvml.LibraryOption
	name := "libnvidia-ml.so.1"
	if path != "" {
		opts, name = append(opts, nvml.WithLibraryPath(path)), path
	}
	return start(nvml.New(opts...), name, false)
}

func start(lib nvml.Interface, name string, simulated bool) (Library, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS, nvml.ERROR_ALREADY_INITIALIZED:
		return &driver{lib: lib, simulated: simulated}, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("cannot load %s: is the NVIDIA driver installed on this node and its library visible to this process?", name)
	default:
		return nil, fmt.Errorf("cannot initialize %s: %w", name, ret)
	}
}

func (d *driver) Simulated() bool { return d.simulated }

func (d *driver) Close() error {
	var err error
	d.close.Do(func() {
		if ret := d.lib.Shutdown(); ret != nvml.SUCCESS {
			err = fmt.Errorf("shutting NVML down: %w", ret)
		}
	})
	return err
}

func (d *driver) GPUs() ([]GPU, error) {
	n, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("counting the GPUs: %w", ret)
	}
	var (
		out  []GPU
		lost []error
	)
	for i := range n {
		g, err := d.gpu(i)
		if err != nil {
			lost = append(lost, fmt.Errorf("GPU at index %d: %w", i, err))
			continue
		}
		if g.MIG {
			if g.Instances, err = d.instancesOf(g); err != nil {
				lost = append(lost, err)
			}
		}
		out = append(out, g)
	}
	return out, errors.Join(lost...)
}

func (d *driver) gpu(index int) (GPU, error) {
	dev, ret := d.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return GPU{}, ret
	}
	g := GPU{Index: index, Minor: -1, NUMANode: -1}
	if g.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("reading its UUID: %w", ret)
	}
	if g.Model, ret = dev.GetName(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("reading the model of %s: %w", g.UUID, ret)
	}
	if err := readMemory(dev, &g); err != nil {
		return g, err
	}
	if minor, ret := dev.GetMinorNumber(); ret == nvml.SUCCESS {
		g.Minor = minor
	}
	if node, ret := dev.GetNumaNodeId(); ret == nvml.SUCCESS {
		g.NUMANode = node
	}
	switch current, _, ret := dev.GetMigMode(); ret {
	case nvml.SUCCESS:
		g.MIG = current == nvml.DEVICE_MIG_ENABLE
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
	default: // not to be given out whole by mistake
		return g, fmt.Errorf("reading the MIG mode of %s: %w", g.UUID, ret)
	}
	return g, nil
}

// readMemory prefers the second form of the call, which tells the driver's own
// share; old drivers have only the first, which hides it in "used".
func readMemory(dev nvml.Device, g *GPU) error {
	const mib = 1 << 20
	if m, ret := dev.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
		g.TotalMiB, g.ReservedMiB, g.UsedMiB = int64(m.Total/mib), int64((m.Reserved+mib-1)/mib), int64(m.Used/mib)
		return nil
	}
	m, ret := dev.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("reading the memory of %s: %w", g.UUID, ret)
	}
	g.TotalMiB, g.UsedMiB = int64(m.Total/mib), int64(m.Used/mib)
	return nil
}

func (d *driver) Probe(uuid string) error {
	dev, card, err := d.handle(uuid)
	if err != nil {
		return err
	}
	if _, ret := dev.GetMemoryInfo(); ret != nvml.SUCCESS {
		return fmt.Errorf("GPU %s does not answer: %w", uuid, ret)
	}
	// Newer drivers say that a card which answers still needs a reset; older
	// ones do not know the field.
	want := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if card.GetFieldValues(want) != nvml.SUCCESS || nvml.Return(want[0].NvmlReturn) != nvml.SUCCESS {
		return nil //nolint:nilerr // the card answers; its driver does not know the field
	}
	if action := nvml.DeviceGpuRecoveryAction(want[0].Value[0]); action != nvml.GPU_RECOVERY_ACTION_NONE {
		return fmt.Errorf("GPU %s answers and needs %s", uuid, recoveryName(action))
	}
	return nil
}

func recoveryName(a nvml.DeviceGpuRecoveryAction) string {
	switch a {
	case nvml.GPU_RECOVERY_ACTION_GPU_RESET:
		return "a reset"
	case nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		return "a reboot of the node"
	case nvml.GPU_RECOVERY_ACTION_DRAIN_P2P:
		return "its peer-to-peer traffic drained"
	case nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
		return "to be drained and reset"
	default:
		return fmt.Sprintf("recovery action %d", a)
	}
}

// waitMillis bounds one wait for events, and so the time to notice the end of
// the context.
const waitMillis = 500

func (d *driver) Watch(ctx context.Context, report func(Event)) error {
	set, ret := d.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("creating an NVML event set: %w", ret)
	}
	defer func() { _ = set.Free() }() // nothing is left to do about a failure
	if err := d.register(set); err != nil {
		return err
	}
	for ctx.Err() == nil {
		data, ret := set.Wait(waitMillis)
		switch {
		case ret == nvml.ERROR_TIMEOUT:
		case ret != nvml.SUCCESS:
			// A lost card makes the wait itself fail; probes will tell which.
			report(Event{At: time.Now()})
			sleep(ctx, waitMillis*time.Millisecond)
		case data.EventType == nvml.EventTypeXidCriticalError:
			e := Event{XID: data.EventData, At: time.Now()}
			if data.Device != nil {
				e.UUID, _ = data.Device.GetUUID()
			}
			report(e)
		}
	}
	return nil
}

// register subscribes every card that supports it; only if none does is that an
// error.
func (d *driver) register(set nvml.EventSet) error {
	n, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("counting the GPUs: %w", ret)
	}
	var refused []string
	for i := range n {
		dev, ret := d.lib.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS {
			ret = dev.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
		if ret != nvml.SUCCESS {
			refused = append(refused, fmt.Sprintf("index %d (%v)", i, ret))
		}
	}
	if n > 0 && len(refused) == n {
		return fmt.Errorf("no GPU reports critical errors: %s", strings.Join(refused, ", "))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
