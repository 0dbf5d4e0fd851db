// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
)

// Action is what follows a container that stays over its limit.
type Action string

// The actions.
const (
	// Report writes an event and counts.
	Report Action = "report"
	// Kill also ends the container's largest process.
	Kill Action = "kill"
	// Evict also evicts the pod.
	Evict Action = "evict"
)

// Actions lists all, weakest first.
var Actions = []Action{Report, Kill, Evict}

// Rules of a Watchdog.
type Rules struct {
	Action Action
	// Polls in a row over the limit before anything happens, at least 1.
	Polls int
	// Grace after the first look at a container.
	Grace time.Duration
	// AllowanceBytes for each process that uses the GPU.
	AllowanceBytes uint64
}

// Container identifies one start of a container.
type Container struct {
	PodUID, Namespace, Pod, Name string
	// ID at the runtime: it differs after a restart.
	ID string
}

// compare orders containers.
func (c Container) compare(d Container) int {
	return cmp.Or(strings.Compare(c.Namespace, d.Namespace), strings.Compare(c.Pod, d.Pod), strings.Compare(c.PodUID, d.PodUID),
		strings.Compare(c.Name, d.Name), strings.Compare(c.ID, d.ID))
}

// Process of a container.
type Process struct {
	hostproc.Process
	UsedBytes uint64
	Unknown   bool
}

// Look is one container's use of the card at one poll.
type Look struct {
	Container
	LimitBytes uint64
	Processes  []Process
}

// Known sums what is known of the use.
func (l Look) Known() uint64 {
	var sum uint64
	for _, p := range l.Processes {
		sum = saturate(sum, p.UsedBytes)
	}
	return sum
}

// Verdict on a container.
type Verdict struct {
	Container
	Action                Action
	UsedBytes, LimitBytes uint64
	// Victim is the largest known process, for Kill.
	Victim Process
	// Polls that the container has been over its limit.
	Polls int
}

// Watchdog of one card. It is not safe for concurrent use.
type Watchdog struct {
	rules Rules
	seen  map[Container]*record
}

type record struct {
	since time.Time
	polls int // in a row over the limit, counted after the grace
}

// New returns a watchdog that has seen nothing.
func New(r Rules) *Watchdog {
	r.Polls = max(1, r.Polls)
	return &Watchdog{rules: r, seen: map[Container]*record{}}
}

// Observe takes one look at all containers of the card that use it; those that are
// missing are forgotten. Verdicts come in the order of namespace, pod, container.
func (w *Watchdog) Observe(looks []Look, now time.Time) []Verdict {
	var out []Verdict
	present := map[Container]bool{}
	for _, l := range looks {
		present[l.Container] = true
		r := w.seen[l.Container]
		if r == nil {
			r = &record{since: now}
			w.seen[l.Container] = r
		}
		switch {
		case !w.over(l):
			r.polls = 0
			continue
		case now.Sub(r.since) < w.rules.Grace:
			continue
		}
		r.polls++
		if r.polls%w.rules.Polls == 0 {
			out = append(out, w.verdict(l, r.polls))
		}
	}
	for c := range w.seen {
		if !present[c] {
			delete(w.seen, c)
		}
	}
	slices.SortFunc(out, func(a, b Verdict) int { return a.compare(b.Container) })
	return out
}

// over is rule W1. Processes whose use is unknown have an allowance too.
func (w *Watchdog) over(l Look) bool {
	allowed := l.LimitBytes
	for range l.Processes {
		allowed = saturate(allowed, w.rules.AllowanceBytes)
	}
	return l.Known() > allowed
}

func (w *Watchdog) verdict(l Look, polls int) Verdict {
	v := Verdict{Container: l.Container, Action: w.rules.Action, UsedBytes: l.Known(), LimitBytes: l.LimitBytes, Polls: polls}
	for _, p := range l.Processes {
		// Of equals the youngest: it has lost the least work.
		if !p.Unknown && (v.Victim.PID == 0 || cmp.Or(cmp.Compare(p.UsedBytes, v.Victim.UsedBytes), cmp.Compare(p.Start, v.Victim.Start)) > 0) {
			v.Victim = p
		}
	}
	if v.Action == Kill && v.Victim.PID == 0 {
		v.Action = Report // all that is known is parts
	}
	return v
}

func saturate(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
