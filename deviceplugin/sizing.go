// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/kubelet"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/publish"
)

// What is done about memory that is used outside Fairslice.
const (
	// ForeignWarn tells by an event on the node.
	ForeignWarn = "warn"
	// ForeignSubtract also publishes less: what is used at the start of the plugin,
	// on cards that no container holds yet.
	ForeignSubtract = "subtract"
	// ForeignIgnore does nothing.
	ForeignIgnore = "ignore"
)

// foreignPolicies are the values of Options.ForeignMemory.
var foreignPolicies = []string{ForeignWarn, ForeignSubtract, ForeignIgnore}

// foreignUseMiB of memory in use are not worth a word.
const foreignUseMiB = 64

// sizing says how much of each card containers may use.
type sizing struct {
	reserve func(nvml.GPU) int64
	policy  string
	// previous is what was published before, by UUID.
	previous map[string]int64
	// held says whether a container holds devices of the card.
	held func(shortID string) bool
}

// sizing reads what was published on the node, and who holds devices now. A card
// keeps its size while it is held: slices are parts of it, and device IDs that
// ceased to exist would be lost from the account.
func (o *Options) sizing(node *corev1.Node, simulated bool) sizing {
	reserve := func(g nvml.GPU) int64 { return o.reserve(g, simulated) }
	s := sizing{reserve: reserve, policy: o.ForeignMemory, previous: map[string]int64{}}
	if v, err := v1alpha1.DecodeInventory(node.Annotations[v1alpha1.AnnotationGPUs]); err == nil {
		for _, g := range v.GPUs {
			s.previous[g.UUID] = g.MemoryMiB
		}
	}
	s.held = func(short string) bool {
		state, err := kubelet.ReadCheckpoint(o.PluginDir)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist) // if in doubt, it is
		}
		names := o.names()
		return slices.ContainsFunc(state.Held, func(h kubelet.Held) bool {
			_, ours := names.Kind(h.Resource)
			ours = ours || o.MIG.Strategy == MIGMixed && strings.HasPrefix(h.Resource, o.MIG.ResourcePrefix)
			return ours && slices.ContainsFunc(h.IDs, func(id string) bool { return id == short || strings.HasPrefix(id, short+"-") })
		})
	}
	return s
}

// usable is the memory for containers, and how much of the card's is used by
// others. That is not told apart while containers hold the card.
func (s sizing) usable(g nvml.GPU, short string) (mib, foreign int64) {
	reserved := s.reserve(g)
	mib = g.TotalMiB - reserved
	if s.held(short) {
		if before := s.previous[g.UUID]; before > 0 && before <= g.TotalMiB-g.ReservedMiB {
			mib = before
		}
		return mib, 0
	}
	foreign = g.UsedMiB
	if g.ReservedMiB == 0 {
		foreign = max(0, foreign-reserved) // an old driver counts its own share as used
	}
	if foreign <= foreignUseMiB {
		return mib, 0
	}
	if s.policy == ForeignSubtract {
		mib -= foreign
	}
	return mib, foreign
}

// reserve of a card: its model's, else that of all, else the driver's own share and
// the contexts of as many processes as may share it, at least one.
func (o *Options) reserve(g nvml.GPU, simulated bool) int64 {
	if mib, named := o.ReserveModels[publish.LabelValue(g.Model)]; named {
		return mib
	}
	if o.ReserveMiB != ReserveAuto {
		return o.ReserveMiB
	}
	if simulated {
		return g.ReservedMiB // nobody makes contexts there
	}
	return g.ReservedMiB + contextMiB(g.Model)*int64(max(1, o.MaxSharers))
}

func (o *Options) validateSizing() error {
	if o.ReserveMiB < ReserveAuto {
		return fmt.Errorf("option reserve-mib is %d, must be -1 or more", o.ReserveMiB)
	}
	for _, model := range slices.Sorted(maps.Keys(o.ReserveModels)) {
		if model == "" || publish.LabelValue(model) != model {
			return fmt.Errorf("option reserve-model-mib names model %q, must be as in label %s: %s", model, v1alpha1.LabelGPUModel, publish.LabelValue(model))
		}
		if mib := o.ReserveModels[model]; mib < 0 {
			return fmt.Errorf("option reserve-model-mib is %d for %s, must be 0 or more", mib, model)
		}
	}
	if o.MaxSharers < 0 {
		return fmt.Errorf("option max-sharers is %d, must be 0 or more", o.MaxSharers)
	}
	if !slices.Contains(foreignPolicies, o.ForeignMemory) {
		return fmt.Errorf("option foreign-memory is %q, must be %s", o.ForeignMemory, strings.Join(foreignPolicies, ", "))
	}
	return nil
}

// tellForeignAtStart writes an event for each card of which a part was in use
// before any container of ours.
func (a *agent) tellForeignAtStart() {
	if a.o.ForeignMemory == ForeignIgnore {
		return
	}
	for _, c := range a.cards {
		if c.foreignMiB == 0 {
			continue
		}
		what := "containers may find less than they were promised"
		if a.o.ForeignMemory == ForeignSubtract {
			what = fmt.Sprintf("containers are given %d MiB", c.account.MemoryMiB)
		}
		a.log.Warn("memory of a GPU was in use before any container held it", "uuid", c.account.UUID, "usedMiB", c.foreignMiB, "memoryMiB", c.account.MemoryMiB)
		a.events.Event(a.nodeReference(), corev1.EventTypeWarning, reasonForeignMemory,
			fmt.Sprintf("%d of %d MiB of GPU %s were in use before any container held it: %s", c.foreignMiB, c.hardware.TotalMiB, c.account.UUID, what))
	}
}
