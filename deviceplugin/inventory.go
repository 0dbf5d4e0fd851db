// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/pool"
	"github.com/fairslice/fairslice/deviceplugin/publish"
)

// card is a GPU that is served.
type card struct {
	hardware nvml.GPU
	account  pool.GPU
	// foreignMiB were in use at the start, before any container held the card.
	foreignMiB int64
	maxSharers int
}

// openLibrary opens what the options name.
func openLibrary(o *Options) (nvml.Library, error) {
	switch {
	case o.Library != nil:
		return o.Library, nil
	case o.Simulate != "":
		p, err := nvml.LoadProfile(o.Simulate)
		if err != nil {
			return nil, err
		}
		return nvml.Simulate(p, o.NodeName)
	default:
		return nvml.Open(o.NVMLLibrary)
	}
}

// readCards lists the GPUs to serve, in the driver's order. A GPU that cannot be
// served is left out with a warning; the others are served.
func readCards(lib nvml.Library, o *Options, s sizing, log *slog.Logger) ([]card, error) {
	gpus, err := lib.GPUs()
	if err != nil {
		if len(gpus) == 0 {
			return nil, fmt.Errorf("reading the GPUs: %w", err)
		}
		log.Warn("some GPUs do not answer and are not served until they do", "error", err)
	}
	chosen, err := choose(gpus, o.GPUs)
	if err != nil {
		return nil, err
	}
	uuids := make([]string, 0, len(gpus))
	for _, g := range gpus {
		uuids = append(uuids, g.UUID)
	}
	// Short IDs of all GPUs of the node, so that serving fewer changes none.
	short, err := pool.ShortIDs(uuids)
	if err != nil {
		return nil, fmt.Errorf("naming the GPUs: %w", err)
	}
	var out []card
	for _, g := range chosen {
		if g.MIG {
			log.Warn("a GPU in MIG mode is not served", "uuid", g.UUID)
			continue
		}
		id := short[slices.Index(uuids, g.UUID)]
		usable, foreign := s.usable(g, id)
		if usable <= 0 {
			log.Warn("a GPU has no memory left for containers and is not served", "uuid", g.UUID, "totalMiB", g.TotalMiB, "reservedMiB", s.reserve(g), "usedMiB", g.UsedMiB)
			continue
		}
		out = append(out, card{hardware: g, account: pool.GPU{UUID: g.UUID, ID: id, MemoryMiB: usable}, foreignMiB: foreign, maxSharers: o.MaxSharers})
	}
	return out, nil
}

// choose picks the GPUs that the option names.
func choose(gpus []nvml.GPU, wanted []string) ([]nvml.GPU, error) {
	if len(wanted) == 0 {
		return gpus, nil
	}
	var out []nvml.GPU
	for _, w := range wanted {
		at := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID == w || strconv.Itoa(g.Index) == w })
		if at < 0 {
			var have []string
			for _, g := range gpus {
				have = append(have, fmt.Sprintf("%d (%s)", g.Index, g.UUID))
			}
			return nil, fmt.Errorf("option gpus names %q, this node has %s", w, strings.Join(have, ", "))
		}
		if !slices.ContainsFunc(out, func(g nvml.GPU) bool { return g.UUID == gpus[at].UUID }) {
			out = append(out, gpus[at])
		}
	}
	slices.SortFunc(out, func(a, b nvml.GPU) int { return a.Index - b.Index })
	return out, nil
}

// inventory is what the node publishes.
func inventory(cards []card, names match.Names, condition func(uuid string) (why string, cordoned bool)) v1alpha1.Inventory {
	var v v1alpha1.Inventory
	for _, c := range cards {
		why, cordoned := condition(c.account.UUID)
		g := v1alpha1.InventoryGPU{
			UUID: c.account.UUID, ID: c.account.ID, Index: c.hardware.Index, Model: publish.LabelValue(c.hardware.Model),
			MemoryMiB: c.account.MemoryMiB, NUMANode: c.hardware.NUMANode, Healthy: why == "",
			Cordoned: cordoned, Reason: why, MaxSharers: c.maxSharers,
		}
		for _, name := range names {
			if name != "" {
				g.Resources = append(g.Resources, name)
			}
		}
		v.GPUs = append(v.GPUs, g)
	}
	return v
}

// ErrGPUsChanged ends Run when a GPU appears that was not there at the start: a
// restart serves it, and loses nothing.
var ErrGPUsChanged = errors.New("the GPUs of this node have changed, the device plugin must be started again to serve them")

// rescanEvery is how often the driver is asked for GPUs that were not there.
const rescanEvery = time.Minute

// rescan ends with ErrGPUsChanged when a GPU appears that was not there at the
// start.
func (a *agent) rescan(ctx context.Context, lib nvml.Library) error {
	known := map[string]bool{}
	for _, c := range a.cards {
		known[c.account.UUID] = true
	}
	tick := time.NewTicker(rescanEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := readCards(lib, &a.o, a.sizing, slog.New(slog.DiscardHandler))
		if err != nil {
			continue // GPUs that went away are the business of their health
		}
		for _, c := range now {
			if !known[c.account.UUID] {
				a.log.Error("a GPU has appeared", "uuid", c.account.UUID)
				return ErrGPUsChanged
			}
		}
	}
}
