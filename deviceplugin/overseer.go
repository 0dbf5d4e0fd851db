// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/hostproc"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/usage"
	"github.com/fairslice/fairslice/deviceplugin/watchdog"
)

// overseer looks at the processes of each card, for the metrics and the watchdog.
// One goroutine per card: a sick one holds up no other.
type overseer struct {
	lib       nvml.Library
	table     hostproc.Table
	directory *usage.Directory
	book      *match.Book
	o         WatchOptions
	uuids     []string
	// shared are those of which containers may have parts.
	shared []string
	log    *slog.Logger
	// judge is called for each verdict, foreign when foreign use of a card begins.
	judge   func(ctx context.Context, uuid string, v watchdog.Verdict)
	foreign func(c usage.Card)

	mu sync.Mutex
	// seen is the last look at each card; none where it cannot be looked at.
	seen map[string]usage.Card
	// over counts the times that a container was found over its limit.
	over map[place]int64
	// done counts what was done, by outcome.
	done map[string]int64
}

// place is a container on a card.
type place struct {
	owner match.Owner
	uuid  string
}

func newOverseer(a *agent, lib nvml.Library) *overseer {
	v := &overseer{
		lib: lib, table: hostproc.Table{Root: a.o.Watch.ProcRoot}, directory: a.directory, book: a.book, o: a.o.Watch, log: a.log,
		judge: a.judge, foreign: a.tellForeign, seen: map[string]usage.Card{}, over: map[place]int64{}, done: map[string]int64{},
	}
	for _, c := range a.cards {
		v.uuids = append(v.uuids, c.account.UUID)
		if c.instance == nil {
			v.shared = append(v.shared, c.account.UUID)
		}
	}
	return v
}

// run looks until ctx is done.
func (v *overseer) run(ctx context.Context) {
	if v.o.Action == WatchOff {
		return
	}
	if !v.lib.Simulated() && !v.table.OfHost() {
		v.log.Warn("processes on GPUs cannot be told apart and are not watched: the driver reports PIDs of the host, and this process is in another PID namespace (set hostPID: true)", "procRoot", v.table.Root)
		return
	}
	var all sync.WaitGroup
	for _, uuid := range v.uuids {
		all.Go(func() { v.follow(ctx, uuid) })
	}
	all.Wait()
}

func (v *overseer) follow(ctx context.Context, uuid string) {
	dog := watchdog.New(v.o.rules())
	tick := time.NewTicker(v.o.Every)
	defer tick.Stop()
	blind, crowded := false, 0
	for {
		card, err := v.look(uuid)
		if err != nil && !blind {
			v.log.Warn("the processes of a GPU are not known", "uuid", uuid, "error", err)
		}
		blind = err != nil
		v.keep(uuid, card, blind)
		if !blind {
			// A pod's status, by which its processes are known, comes a moment after they
			// start: only what stays foreign is told.
			if bytes, _ := card.ForeignBytes(); bytes>>20 <= foreignUseMiB {
				crowded = 0
			} else if crowded++; crowded == max(1, v.o.Polls) {
				v.foreign(card)
			}
			for _, verdict := range dog.Observe(looks(card), time.Now()) {
				v.judge(ctx, uuid, verdict)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks the driver, and /proc about each process.
func (v *overseer) look(uuid string) (usage.Card, error) {
	listed, err := v.lib.Processes(uuid)
	if err != nil {
		return usage.Card{}, err
	}
	processes := make([]usage.Process, 0, len(listed))
	for _, l := range listed {
		p, err := v.table.Identify(l.PID)
		if errors.Is(err, hostproc.ErrGone) {
			continue // its memory is being given back
		}
		if err != nil {
			return usage.Card{}, err // better blind than to hold it against the wrong one
		}
		processes = append(processes, usage.Process{Process: p, UsedBytes: l.UsedBytes, Unknown: l.Unknown})
	}
	return usage.Attribute(uuid, v.book.Allocations(), processes, v.directory.Owner), nil
}

// looks are what the watchdog judges: whole cards have no limit.
func looks(c usage.Card) []watchdog.Look {
	var out []watchdog.Look
	for _, s := range c.Samples {
		if s.Whole || len(s.Processes) == 0 {
			continue
		}
		l := watchdog.Look{LimitBytes: s.LimitBytes, Container: watchdog.Container{
			PodUID: s.Owner.PodUID, Namespace: s.Owner.Namespace, Pod: s.Owner.Pod, Name: s.Owner.Container, ID: s.ContainerID,
		}}
		for _, p := range s.Processes {
			l.Processes = append(l.Processes, watchdog.Process(p))
		}
		out = append(out, l)
	}
	return out
}

// keep remembers the look, and forgets counters of containers that left the card.
func (v *overseer) keep(uuid string, c usage.Card, blind bool) {
	v.mu.Lock()
	enforced := v.enforces()
	if blind {
		delete(v.seen, uuid)
	} else {
		v.seen[uuid] = c
		here := map[match.Owner]bool{}
		for _, s := range c.Samples {
			here[s.Owner] = true
		}
		for p := range v.over {
			if p.uuid == uuid && !here[p.owner] {
				delete(v.over, p)
			}
		}
	}
	changed := enforced != v.enforces()
	v.mu.Unlock()
	if changed {
		v.book.Touch() // the node's level of isolation has changed
	}
}

// enforces says whether every card with parts is watched and something is done about it. It
// must be called with the lock held.
func (v *overseer) enforces() bool {
	acts := v.o.Action == string(watchdog.Kill) || v.o.Action == string(watchdog.Evict)
	return acts && len(v.shared) > 0 && !slices.ContainsFunc(v.shared, func(uuid string) bool {
		_, watched := v.seen[uuid]
		return !watched
	})
}

// count notes that a container was found over its limit.
func (v *overseer) count(p place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over[p]++
}

// outcomes of verdicts.
const (
	outcomeKilled  = "killed"
	outcomeEvicted = "evicted"
	outcomeFailed  = "failed"
)

func (v *overseer) countOutcome(outcome string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done[outcome]++
}

// isolation is the level that the node offers.
func (a *agent) isolation() string {
	if a.onlyInstances() {
		return enforce.LevelMIG
	}
	if level := a.layer.Level(); level != enforce.LevelNone {
		return level
	}
	a.overseer.mu.Lock()
	defer a.overseer.mu.Unlock()
	if a.overseer.enforces() {
		return enforce.LevelWatch
	}
	return enforce.LevelNone
}
