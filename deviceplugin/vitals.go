// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/cordon"
	"github.com/fairslice/fairslice/deviceplugin/health"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

// vitals keeps the state machine of each card, and who is cordoned, and tells the
// book.
type vitals struct {
	lib   nvml.Library
	rules health.Rules
	every time.Duration
	book  *match.Book
	log   *slog.Logger
	uuids []string
	// parts are what fails with a card: itself, or its MIG instances.
	parts map[string][]string
	// told is called after each change, with the lock held.
	told func(uuid string, s health.State, why string)

	mu       sync.Mutex
	machines map[string]*health.Machine
	xids     map[string]int64 // critical XIDs seen, by UUID
	cordoned map[string]bool
	probe    chan struct{} // asks for a probe of all cards now
}

func newVitals(lib nvml.Library, o *Options, book *match.Book, cards []card, log *slog.Logger) *vitals {
	v := &vitals{
		told: func(string, health.State, string) {},
		lib:  lib, rules: o.rules(), every: o.ProbeEvery, book: book, log: log,
		machines: map[string]*health.Machine{}, parts: map[string][]string{}, xids: map[string]int64{}, probe: make(chan struct{}, 1),
	}
	for _, c := range cards {
		v.uuids = append(v.uuids, c.account.UUID)
		v.machines[c.account.UUID] = &health.Machine{}
		v.parts[c.cardUUID()] = append(v.parts[c.cardUUID()], c.account.UUID)
	}
	return v
}

// run watches until ctx is done.
func (v *vitals) run(ctx context.Context) {
	go v.watch(ctx)
	tick := time.NewTicker(v.every)
	defer tick.Stop()
	for {
		v.probeAll()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-v.probe:
		}
	}
}

// watch listens for XIDs; where the driver has no events, probes alone decide.
func (v *vitals) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := v.lib.Watch(ctx, v.onEvent); err != nil {
			v.log.Warn("critical errors of GPUs are not reported, probes alone decide on their health", "error", err)
			return
		}
	}
}

func (v *vitals) onEvent(e nvml.Event) {
	if e.UUID == "" {
		// Some card, or the library itself: look at all of them now.
		select {
		case v.probe <- struct{}{}:
		default:
		}
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, uuid := range v.parts[e.UUID] {
		v.xids[uuid]++
		if m := v.machines[uuid]; m.OnXID(v.rules, e.XID, e.At) {
			v.tell(uuid, m)
		}
	}
}

func (v *vitals) probeAll() {
	for _, uuid := range v.uuids {
		err := v.lib.Probe(uuid) // without the lock: a sick driver may take its time
		v.mu.Lock()
		if m := v.machines[uuid]; m.OnProbe(v.rules, err, time.Now()) {
			v.tell(uuid, m)
		}
		v.mu.Unlock()
	}
}

// tell must be called with the lock held.
func (v *vitals) tell(uuid string, m *health.Machine) {
	state, why := m.State()
	v.book.SetFit(uuid, v.unfit(uuid))
	level := slog.LevelWarn
	if state == health.Healthy {
		level = slog.LevelInfo
	}
	v.log.Log(context.Background(), level, "the health of a GPU changed", "uuid", uuid, "state", state.String(), "reason", why)
	v.told(uuid, state, why)
}

// state of a card, and how many critical XIDs it reported.
func (v *vitals) state(uuid string) (health.State, int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ours := v.machines[uuid]
	if !ours {
		return health.Unhealthy, 0
	}
	s, _ := m.State()
	return s, v.xids[uuid]
}

// unfit is why a card takes no new containers, "" if it does. It must be called
// with the lock held.
func (v *vitals) unfit(uuid string) string {
	m, ours := v.machines[uuid]
	if !ours {
		return "it is not served"
	}
	switch state, why := m.State(); {
	case state == health.Unhealthy:
		return "it is unhealthy: " + why
	case state == health.Probation:
		return "it is on probation after this: " + why
	case v.cordoned[uuid]:
		return cordon.Reason
	default:
		return ""
	}
}

// condition of a card for the inventory.
func (v *vitals) condition(uuid string) (why string, cordoned bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unfit(uuid), v.cordoned[uuid]
}

// setCordoned replaces the cordoned cards, and returns those that are new and those
// that are no longer.
func (v *vitals) setCordoned(uuids []string) (added, removed []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := map[string]bool{}
	for _, uuid := range uuids {
		next[uuid] = true
	}
	before := v.cordoned
	v.cordoned = next
	for _, uuid := range v.uuids {
		switch {
		case next[uuid] && !before[uuid]:
			added = append(added, uuid)
		case before[uuid] && !next[uuid]:
			removed = append(removed, uuid)
		default:
			continue
		}
		v.book.SetFit(uuid, v.unfit(uuid))
	}
	return added, removed
}
