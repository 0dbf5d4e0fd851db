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

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fairslice/fairslice/deviceplugin/cdispec"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/pool"
	"github.com/fairslice/fairslice/deviceplugin/publish"
)

// How the instances of GPUs in MIG mode are served; the meaning is that of NVIDIA's
// device plugin.
const (
	// MIGNone leaves GPUs in MIG mode out.
	MIGNone = "none"
	// MIGSingle serves the instances as the node's GPUs: all are alike.
	MIGSingle = "single"
	// MIGMixed serves each profile as a resource of its own, beside GPUs that are not
	// in MIG mode.
	MIGMixed = "mixed"
)

var migStrategies = []string{MIGNone, MIGSingle, MIGMixed}

// MIGOptions say what becomes of GPUs in MIG mode.
type MIGOptions struct {
	// Strategy is none, single or mixed.
	Strategy string
	// ResourcePrefix and a profile name the resources of the strategy mixed.
	ResourcePrefix string
}

// defaultMIGOptions have the prefix that the control plane reads.
func defaultMIGOptions() MIGOptions {
	return MIGOptions{Strategy: MIGNone, ResourcePrefix: "nvidia.com/mig-"}
}

func (m *MIGOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&m.Strategy, "mig-strategy", m.Strategy, "how instances of GPUs in MIG mode are served: none (not), single (as GPUs; all must be alike), mixed (each profile as a resource)")
	f.StringVar(&m.ResourcePrefix, "mig-resource-prefix", m.ResourcePrefix, "what precedes a profile in a resource name, with --mig-strategy=mixed")
}

func (m *MIGOptions) validate(whole string) error {
	if !slices.Contains(migStrategies, m.Strategy) {
		return fmt.Errorf("option mig-strategy is %q, must be %s", m.Strategy, strings.Join(migStrategies, ", "))
	}
	if m.Strategy == MIGSingle && whole == "" {
		return errors.New("option whole-resource is empty, must be set with --mig-strategy=single, which serves instances under it")
	}
	const example = "1g.5gb"
	if errs := validation.IsQualifiedName(m.ResourcePrefix + example); len(errs) > 0 || !strings.Contains(m.ResourcePrefix, "/") {
		return fmt.Errorf("option mig-resource-prefix is %q, must be a domain, a slash and the beginning of a name, such as example.com/mig-", m.ResourcePrefix)
	}
	return nil
}

// resource of a profile; a plus sign is not allowed in the name of one, and a point
// stands for it, as NVIDIA's device plugin has it.
func (m *MIGOptions) resource(profile string) string {
	return m.ResourcePrefix + strings.ReplaceAll(profile, "+", ".")
}

// instancesOf lists what is served of GPUs in MIG mode. An error is one sentence
// about a layout that the strategy does not allow.
func (o *Options) instancesOf(gpus []nvml.GPU, log *slog.Logger) ([]nvml.Instance, error) {
	if !slices.ContainsFunc(gpus, func(g nvml.GPU) bool { return g.MIG }) {
		return nil, nil
	}
	if o.MIG.Strategy == MIGSingle {
		if err := checkSingle(gpus); err != nil {
			return nil, fmt.Errorf("option mig-strategy is %s, but %w", MIGSingle, err)
		}
	}
	var out []nvml.Instance
	for _, g := range gpus {
		switch {
		case !g.MIG:
			continue
		case o.MIG.Strategy == MIGNone:
			log.Warn("a GPU in MIG mode is not served: set --mig-strategy to serve its instances", "uuid", g.UUID)
			continue
		case len(g.Instances) == 0:
			log.Warn("a GPU in MIG mode has no instances and is not served", "uuid", g.UUID)
		}
		for _, i := range g.Instances {
			if i.Shared {
				log.Warn("a MIG instance is not served, because it shares its memory with other compute instances of its GPU instance", "uuid", i.UUID, "profile", i.Profile, "gpu", g.UUID)
				continue
			}
			out = append(out, i)
		}
	}
	return out, nil
}

// checkSingle is nil if all GPUs are in MIG mode and all their instances alike.
func checkSingle(gpus []nvml.GPU) error {
	first := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.MIG })
	var model *nvml.Instance
	for _, g := range gpus {
		switch {
		case !g.MIG:
			return fmt.Errorf("GPU %d (%s) is in MIG mode and GPU %d (%s) is not: put all into MIG mode, or use the strategy mixed", gpus[first].Index, gpus[first].UUID, g.Index, g.UUID)
		case len(g.Instances) == 0:
			return fmt.Errorf("GPU %d (%s) has no MIG instances: make some, or use the strategy mixed", g.Index, g.UUID)
		}
		for n := range g.Instances {
			i := &g.Instances[n]
			if model == nil {
				model = i
			}
			switch {
			case i.Shared:
				return fmt.Errorf("MIG instance %s of GPU %d (%s) shares its memory with other compute instances of its GPU instance: make one compute instance of it", i.UUID, g.Index, g.UUID)
			case i.Profile != model.Profile || i.Model != model.Model:
				return fmt.Errorf("MIG instances differ, %s of %s on GPU %d and %s of %s on GPU %d: make all alike, or use the strategy mixed",
					model.Profile, model.Model, model.Index, i.Profile, i.Model, i.Index)
			}
		}
	}
	return nil
}

// instanceCards makes a card of each instance, and completes the names of the
// resources: under the strategy mixed, one for each profile.
func (o *Options) instanceCards(instances []nvml.Instance, names match.Names, id func(uuid string) string, s sizing) ([]card, match.Names, error) {
	var profiles []string
	if o.MIG.Strategy == MIGMixed {
		for _, i := range instances {
			profiles = append(profiles, i.Profile)
		}
		slices.Sort(profiles)
		profiles = slices.Compact(profiles)
	}
	for _, p := range profiles {
		resource := o.MIG.resource(p)
		if _, taken := names.Kind(resource); taken {
			return nil, nil, fmt.Errorf("option mig-resource-prefix makes resource %s of profile %s, which another resource has already", resource, p)
		}
		names = append(names, resource)
	}
	out := make([]card, 0, len(instances))
	for _, i := range instances {
		as := pool.Whole
		if at := slices.Index(profiles, i.Profile); at >= 0 {
			as = pool.Profiles + pool.Kind(at)
		}
		foreign := int64(0)
		if !s.held(id(i.UUID)) && i.UsedMiB > foreignUseMiB {
			foreign = i.UsedMiB
		}
		out = append(out, card{hardware: i.GPU, instance: &i, foreignMiB: foreign, account: pool.GPU{
			UUID: i.UUID, ID: id(i.UUID), MemoryMiB: i.TotalMiB - i.ReservedMiB, Instance: true, As: as, Milli: i.ComputeMilli,
		}})
	}
	return out, names, nil
}

// withoutIdle drops the names of resources of which a node that has instances
// alone would have no device.
func withoutIdle(names match.Names, cards []card) match.Names {
	if len(cards) == 0 || slices.ContainsFunc(cards, func(c card) bool { return c.instance == nil }) {
		return names
	}
	names = slices.Clone(names)
	names[pool.Slice], names[pool.Memory] = "", ""
	if !slices.ContainsFunc(cards, func(c card) bool { return c.account.As == pool.Whole }) {
		names[pool.Whole] = ""
	}
	return names
}

// model of a card as a label value. Instances that stand for GPUs are no GPUs of
// their card's model, as NVIDIA's feature discovery has it, too.
func (c *card) model() string {
	if c.instance != nil && c.account.As == pool.Whole {
		return publish.LabelValue(c.hardware.Model + "-MIG-" + c.instance.Profile)
	}
	return publish.LabelValue(c.hardware.Model)
}

// cardUUID is that of the physical GPU.
func (c *card) cardUUID() string {
	if c.instance != nil {
		return c.instance.Card
	}
	return c.account.UUID
}

// onlyInstances says that every device of the node is held by the hardware.
func (a *agent) onlyInstances() bool {
	return len(a.cards) > 0 && !slices.ContainsFunc(a.cards, func(c card) bool { return c.instance == nil })
}

// cdiDevices are the cards with the device nodes that they need. An instance needs
// those of its card and of the driver's capabilities to use it.
func (a *agent) cdiDevices(simulated bool) ([]cdispec.Device, error) {
	var minors cdispec.Minors
	if !simulated && slices.ContainsFunc(a.cards, func(c card) bool { return c.instance != nil }) {
		var err error
		if minors, err = cdispec.ReadMinors(filepath.Join(a.o.Watch.ProcRoot, "driver/nvidia-caps/mig-minors")); err != nil {
			return nil, err
		}
	}
	out := make([]cdispec.Device, 0, len(a.cards))
	for _, c := range a.cards {
		d := cdispec.Device{UUID: c.account.UUID, Minor: c.hardware.Minor}
		if c.instance != nil && !simulated {
			var err error
			if d.Capabilities, err = minors.Of(c.hardware.Minor, c.instance.GPUInstance, c.instance.ComputeInstance); err != nil {
				return nil, fmt.Errorf("MIG instance %s: %w", c.account.UUID, err)
			}
		}
		out = append(out, d)
	}
	return out, nil
}
