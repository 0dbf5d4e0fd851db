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
)

// card is a GPU that is served.
type card struct {
	hardware nvml.GPU
	account  pool.GPU
	// foreignMiB were in use at the start, before any container held the card.
	foreignMiB int64
	maxSharers int
	// instance is set where the card is a MIG instance; hardware is then its own.
	instance *nvml.Instance
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

// readCards lists the GPUs and MIG instances to serve, in the driver's order, and
// under which names. A GPU that cannot be served is left out with a warning; the
// others are served.
func readCards(gpus []nvml.GPU, err error, o *Options, s sizing, log *slog.Logger) ([]card, match.Names, error) {
	if err != nil {
		if len(gpus) == 0 {
			return nil, nil, fmt.Errorf("reading the GPUs: %w", err)
		}
		log.Warn("some GPUs do not answer and are not served until they do", "error", err)
	}
	chosen, err := choose(gpus, o.GPUs, err != nil)
	if err != nil {
		return nil, nil, err
	}
	shortID, err := shortIDs(gpus)
	if err != nil {
		return nil, nil, err
	}
	instances, err := o.instancesOf(chosen, log)
	if err != nil {
		return nil, nil, err
	}
	var out []card
	for _, g := range chosen {
		if g.MIG {
			continue
		}
		id := shortID(g.UUID)
		usable, foreign := s.usable(g, id)
		if usable <= 0 {
			log.Warn("a GPU has no memory left for containers and is not served", "uuid", g.UUID, "totalMiB", g.TotalMiB, "reservedMiB", s.reserve(g), "usedMiB", g.UsedMiB)
			continue
		}
		out = append(out, card{hardware: g, account: pool.GPU{UUID: g.UUID, ID: id, MemoryMiB: usable}, foreignMiB: foreign, maxSharers: o.MaxSharers})
	}
	more, names, err := o.instanceCards(instances, o.names(), shortID, s)
	out = append(out, more...)
	return out, withoutIdle(names, out), err
}

// shortIDs names all GPUs and instances of the node, so that serving fewer changes
// no name.
func shortIDs(gpus []nvml.GPU) (func(uuid string) string, error) {
	var uuids []string
	for _, g := range gpus {
		uuids = append(uuids, g.UUID)
		for _, i := range g.Instances {
			uuids = append(uuids, i.UUID)
		}
	}
	short, err := pool.ShortIDs(uuids)
	if err != nil {
		return nil, fmt.Errorf("naming the GPUs: %w", err)
	}
	return func(uuid string) string { return short[slices.Index(uuids, uuid)] }, nil
}

// choose picks the GPUs that the option names. One that is not there is an error,
// unless some are lost and others are there: then it may be one of them.
func choose(gpus []nvml.GPU, wanted []string, lost bool) ([]nvml.GPU, error) {
	if len(wanted) == 0 {
		return gpus, nil
	}
	var out []nvml.GPU
	for _, w := range wanted {
		at := slices.IndexFunc(gpus, func(g nvml.GPU) bool { return g.UUID == w || strconv.Itoa(g.Index) == w })
		if at < 0 && lost {
			continue
		}
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
	if len(out) == 0 {
		return nil, fmt.Errorf("option gpus names %s, of which none answers", strings.Join(wanted, ", "))
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
			UUID: c.account.UUID, ID: c.account.ID, Index: c.hardware.Index, Model: c.model(),
			MemoryMiB: c.account.MemoryMiB, NUMANode: c.hardware.NUMANode, Healthy: why == "",
			Cordoned: cordoned, Reason: why, MaxSharers: c.maxSharers,
		}
		for _, k := range names.Served() {
			if c.instance == nil && k < pool.Profiles || c.instance != nil && k == c.account.As {
				g.Resources = append(g.Resources, names[k])
			}
		}
		if c.instance != nil {
			g.MIG, g.Card = c.instance.Profile, c.instance.Card
		}
		v.GPUs = append(v.GPUs, g)
	}
	return v
}

// ErrGPUsChanged ends Run when a GPU or MIG instance appears that was not there at
// the start, or a GPU goes into MIG mode or out of it: a restart serves what is
// there, and loses nothing.
var ErrGPUsChanged = errors.New("the GPUs of this node have changed, the device plugin must be started again to serve them")

// present names each GPU in its mode, and each MIG instance.
func present(gpus []nvml.GPU) map[string]bool {
	out := map[string]bool{}
	for _, g := range gpus {
		out[fmt.Sprintf("%s, MIG mode %t", g.UUID, g.MIG)] = true
		for _, i := range g.Instances {
			out[i.UUID] = true
		}
	}
	return out
}

// rescan ends with ErrGPUsChanged when something appears that was not there at the
// start. What went away is the business of its health.
func (a *agent) rescan(ctx context.Context, lib nvml.Library) error {
	tick := time.NewTicker(a.o.RescanEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		gpus, _ := lib.GPUs() // those that answer are there
		for what := range present(gpus) {
			if !a.present[what] {
				a.log.Error("a GPU has appeared", "uuid", what)
				return ErrGPUsChanged
			}
		}
	}
}
