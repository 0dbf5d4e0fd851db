// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/deviceplugin/health"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/plugin"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// ReserveAuto keeps of each GPU what the driver says that it reserves, and the
// contexts of its model for as many processes as may share it.
const ReserveAuto = -1

// Options of the device plugin. Start from DefaultOptions.
type Options struct {
	// NodeName is this node's name in the API.
	NodeName string
	// Kubeconfig is a file; empty means the pod's own service account.
	Kubeconfig string

	// PluginDir holds the kubelet's socket, its checkpoint and our sockets.
	PluginDir string
	// PodResourcesSocket of the kubelet.
	PodResourcesSocket string

	// NVMLLibrary is a path; empty means libnvidia-ml.so.1.
	NVMLLibrary string
	// Simulate names an embedded machine profile, or a YAML file, instead of NVML.
	Simulate string
	// GPUs to serve, by UUID or index; empty means all.
	GPUs []string
	// ReserveMiB of each GPU that no container gets, or ReserveAuto.
	ReserveMiB int64
	// ReserveModels overrides ReserveMiB, by the model as in label gpu.model.
	ReserveModels map[string]int64
	// MaxSharers is how many containers may share a GPU at a time, 0 for no limit.
	// The control plane keeps it.
	MaxSharers int
	// MIG is what becomes of GPUs in MIG mode.
	MIG MIGOptions
	// ForeignMemory is what is done about memory used outside Fairslice: warn,
	// subtract or ignore.
	ForeignMemory string

	// WholeResource, SliceResource and MemoryResource name what is served; an empty
	// name is not served.
	WholeResource, SliceResource, MemoryResource string
	// AllowUnplanned also gives slices and GiB to pods that were not placed by the
	// Fairslice control plane.
	AllowUnplanned bool

	// DeviceLists say how a container gets its GPUs, see plugin.DeviceLists.
	DeviceLists []string
	// ToolkitConfig is the config.toml of NVIDIA's container toolkit, to see whether
	// containers can reach other GPUs; empty to not look.
	ToolkitConfig string
	// CDIDir is where the CDI specification is written.
	CDIDir string
	// DevRoot is where the host's /dev is seen.
	DevRoot string

	// InterceptorDir holds libfairslice.so; empty means that the interceptor is not
	// used.
	InterceptorDir string
	// StateDir is where the files of limits are kept; the host must see it at
	// the same path.
	StateDir string

	// IgnoreXIDs are critical errors that do not make a GPU unhealthy.
	IgnoreXIDs []uint
	// Probation is how long a GPU must answer before it is used again.
	Probation time.Duration
	// ProbeEvery is the time between two probes of a GPU.
	ProbeEvery time.Duration

	// InformerWait bounds how long an allocation waits for the pod to appear.
	InformerWait time.Duration
	// ReconcileEvery is the time between two comparisons with the kubelet.
	ReconcileEvery time.Duration
	// RescanEvery is the time between two looks for GPUs that were not there.
	RescanEvery time.Duration

	// Isolation is what may hold containers to their memory.
	Isolation IsolationOptions
	// Watch is what is done about containers that use more memory than they may.
	Watch WatchOptions

	// MetricsAddr serves /metrics and /healthz; empty means not at all.
	MetricsAddr string

	// Log; nil means slog.Default.
	Log *slog.Logger
	// Client and Library replace what Kubeconfig and NVMLLibrary or Simulate would
	// give.
	Client  kubernetes.Interface
	Library nvml.Library
}

// DefaultOptions are those of a kubeadm node.
func DefaultOptions() Options {
	names, rules := match.DefaultNames(), health.DefaultRules()
	o := Options{
		PluginDir:          "/var/lib/kubelet/device-plugins",
		PodResourcesSocket: "/var/lib/kubelet/pod-resources/kubelet.sock",
		ReserveMiB:         ReserveAuto,
		ForeignMemory:      ForeignWarn,
		WholeResource:      names[pool.Whole], SliceResource: names[pool.Slice], MemoryResource: names[pool.Memory],
		DeviceLists: []string{plugin.ListEnv},
		CDIDir:      "/var/run/cdi",
		DevRoot:     "/dev",
		StateDir:    "/var/lib/fairslice",
		Probation:   rules.Probation, ProbeEvery: 10 * time.Second,
		InformerWait: 2 * time.Second, ReconcileEvery: 10 * time.Second, RescanEvery: time.Minute,
		MIG:         defaultMIGOptions(),
		Isolation:   defaultIsolationOptions(),
		Watch:       defaultWatchOptions(),
		MetricsAddr: ":9400",
	}
	for _, xid := range rules.Ignored {
		o.IgnoreXIDs = append(o.IgnoreXIDs, uint(xid))
	}
	return o
}

// AddFlags binds the options to flags; the values at the time of the call are
// the defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.NodeName, "node-name", o.NodeName, "name of this node in the API")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file; empty for the pod's own service account")
	f.StringVar(&o.PluginDir, "device-plugin-dir", o.PluginDir, "the kubelet's directory for device plugins")
	f.StringVar(&o.PodResourcesSocket, "pod-resources-socket", o.PodResourcesSocket, "the kubelet's PodResources socket")
	f.StringVar(&o.NVMLLibrary, "nvml-library", o.NVMLLibrary, "path of libnvidia-ml.so.1; empty for the dynamic linker's choice")
	f.StringVar(&o.Simulate, "simulate", o.Simulate, "simulate a machine instead: "+strings.Join(nvml.Profiles(), ", ")+" or the path of a YAML file")
	f.StringSliceVar(&o.GPUs, "gpus", o.GPUs, "GPUs to serve, by UUID or index; empty for all")
	f.Int64Var(&o.ReserveMiB, "reserve-mib", o.ReserveMiB, "memory of each GPU that no container gets; -1 for what the driver reserves and the model's CUDA contexts, one for each of --max-sharers")
	f.StringToInt64Var(&o.ReserveModels, "reserve-model-mib", o.ReserveModels, "the same for single models, such as Tesla-T4=300,NVIDIA-A100-SXM4-40GB=600")
	f.IntVar(&o.MaxSharers, "max-sharers", o.MaxSharers, "containers that may share a GPU at a time; 0 for no limit")
	f.StringVar(&o.ForeignMemory, "foreign-memory", o.ForeignMemory, "what is done about memory of a GPU used outside Fairslice: "+strings.Join(foreignPolicies, ", "))
	f.StringVar(&o.WholeResource, "whole-resource", o.WholeResource, "resource name of whole GPUs; empty to serve none")
	f.StringVar(&o.SliceResource, "slice-resource", o.SliceResource, "resource name of hundredths of a GPU; empty to serve none")
	f.StringVar(&o.MemoryResource, "memory-resource", o.MemoryResource, "resource name of GiB of a GPU; empty to serve none")
	f.BoolVar(&o.AllowUnplanned, "allow-unplanned", o.AllowUnplanned, "also give slices and GiB to pods that Fairslice did not place")
	f.StringSliceVar(&o.DeviceLists, "device-list", o.DeviceLists, "how a container gets its GPUs: "+strings.Join(plugin.DeviceLists, ", "))
	f.StringVar(&o.ToolkitConfig, "toolkit-config", o.ToolkitConfig, "config.toml of NVIDIA's container toolkit, to see whether containers can reach other GPUs; empty to not look")
	f.StringVar(&o.CDIDir, "cdi-dir", o.CDIDir, "where the CDI specification is written")
	f.StringVar(&o.DevRoot, "dev-root", o.DevRoot, "where the host's /dev is seen")
	f.StringVar(&o.InterceptorDir, "interceptor-dir", o.InterceptorDir, "directory of libfairslice.so; empty to do without the interceptor")
	f.StringVar(&o.StateDir, "state-dir", o.StateDir, "where the files of limits are kept, at the same path on the host")
	f.UintSliceVar(&o.IgnoreXIDs, "ignore-xids", o.IgnoreXIDs, "XIDs that do not make a GPU unhealthy")
	f.DurationVar(&o.Probation, "probation", o.Probation, "how long a GPU must answer before it is used again")
	f.DurationVar(&o.ProbeEvery, "probe-every", o.ProbeEvery, "time between two probes of a GPU")
	f.DurationVar(&o.InformerWait, "informer-wait", o.InformerWait, "how long an allocation waits for its pod to appear")
	f.DurationVar(&o.ReconcileEvery, "reconcile-every", o.ReconcileEvery, "time between two comparisons with the kubelet")
	f.DurationVar(&o.RescanEvery, "rescan-every", o.RescanEvery, "time between two looks for GPUs and MIG instances that were not there")
	o.MIG.addFlags(f)
	o.Isolation.addFlags(f)
	o.Watch.addFlags(f)
	f.StringVar(&o.MetricsAddr, "metrics-addr", o.MetricsAddr, "address of /metrics and /healthz; empty for none")
}

// Validate returns one sentence about the first option that is wrong.
func (o *Options) Validate() error {
	if o.NodeName == "" {
		return errors.New("option node-name is empty, must be the node's name in the API")
	}
	if err := o.validateSizing(); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{
		"probation": o.Probation, "probe-every": o.ProbeEvery, "reconcile-every": o.ReconcileEvery, "rescan-every": o.RescanEvery,
	} {
		if d <= 0 {
			return fmt.Errorf("option %s is %v, must be above 0", name, d)
		}
	}
	if o.InformerWait < 0 || o.InformerWait > time.Minute {
		return fmt.Errorf("option informer-wait is %v, must be from 0 to 1m: the kubelet admits no other pod meanwhile", o.InformerWait)
	}
	for _, dir := range []struct{ name, value string }{{"device-plugin-dir", o.PluginDir}, {"pod-resources-socket", o.PodResourcesSocket}} {
		if !filepath.IsAbs(dir.value) {
			return fmt.Errorf("option %s is %q, must be an absolute path", dir.name, dir.value)
		}
	}
	if err := o.MIG.validate(o.WholeResource); err != nil {
		return err
	}
	if err := o.Isolation.validate(o.StateDir, o.CDIDir); err != nil {
		return err
	}
	if err := o.Watch.validate(); err != nil {
		return err
	}
	if err := o.validateLists(); err != nil {
		return err
	}
	return o.validateNames()
}

func (o *Options) validateLists() error {
	if len(o.DeviceLists) == 0 {
		return fmt.Errorf("option device-list is empty, must be of %s", strings.Join(plugin.DeviceLists, ", "))
	}
	for _, l := range o.DeviceLists {
		if !slices.Contains(plugin.DeviceLists, l) {
			return fmt.Errorf("option device-list has %q, must be of %s", l, strings.Join(plugin.DeviceLists, ", "))
		}
	}
	if o.ToolkitConfig != "" && !filepath.IsAbs(o.ToolkitConfig) {
		return fmt.Errorf("option toolkit-config is %q, must be an absolute path", o.ToolkitConfig)
	}
	if o.InterceptorDir != "" && !filepath.IsAbs(o.StateDir) {
		return fmt.Errorf("option state-dir is %q, must be an absolute path", o.StateDir)
	}
	if slices.Contains(o.DeviceLists, plugin.ListCDI) && !filepath.IsAbs(o.CDIDir) {
		return fmt.Errorf("option cdi-dir is %q, must be an absolute path", o.CDIDir)
	}
	return nil
}

func (o *Options) validateNames() error {
	seen := map[string]bool{"": true}
	served := 0
	for _, n := range []struct{ option, value string }{
		{"whole-resource", o.WholeResource}, {"slice-resource", o.SliceResource}, {"memory-resource", o.MemoryResource},
	} {
		if n.value == "" {
			continue
		}
		served++
		if errs := validation.IsQualifiedName(n.value); len(errs) > 0 || !strings.Contains(n.value, "/") {
			return fmt.Errorf("option %s is %q, must be a domain, a slash and a name, such as example.com/gpu", n.option, n.value)
		}
		if seen[n.value] {
			return fmt.Errorf("option %s is %q, which another resource has already", n.option, n.value)
		}
		seen[n.value] = true
	}
	if served == 0 {
		return errors.New("options whole-resource, slice-resource and memory-resource are all empty, at least one must be set")
	}
	return nil
}

func (o *Options) names() match.Names {
	return match.Names{pool.Whole: o.WholeResource, pool.Slice: o.SliceResource, pool.Memory: o.MemoryResource}
}

func (o *Options) rules() health.Rules {
	r := health.DefaultRules()
	r.Ignored, r.Probation = nil, o.Probation
	r.MaxProbation = max(r.MaxProbation, o.Probation)
	for _, xid := range o.IgnoreXIDs {
		r.Ignored = append(r.Ignored, uint64(xid))
	}
	return r
}
