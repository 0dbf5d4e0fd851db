// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"time"
)

// State of a card.
type State int

// The states; only Healthy cards take new containers.
const (
	Healthy State = iota
	Unhealthy
	Probation
)

// String names the state as logs and metrics do.
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	case Probation:
		return "probation"
	default:
		return fmt.Sprintf("state %d", int(s))
	}
}

// DefaultIgnored are XIDs that an application can cause on a sound card
// (NVIDIA, "XID Errors": 13 graphics exception, 31 page fault, 43 and 45 channel
// reset after an application fault, 68 video processor exception, 109 context
// switch time-out).
var DefaultIgnored = []uint64{13, 31, 43, 45, 68, 109}

// Rules of the machine.
type Rules struct {
	// Ignored XIDs change nothing.
	Ignored []uint64
	// Probation is how long a card must answer before it is Healthy again.
	Probation time.Duration
	// MaxProbation bounds the doubling at each relapse.
	MaxProbation time.Duration
}

// DefaultRules are what the plugin uses unless told otherwise.
func DefaultRules() Rules {
	return Rules{Ignored: DefaultIgnored, Probation: time.Minute, MaxProbation: time.Hour}
}

// Machine is the state of one card. The zero Machine is Healthy. It is not safe
// for concurrent use.
type Machine struct {
	state    State
	reason   string
	since    time.Time
	relapses uint
}

// State and why it is not Healthy ("" when it is).
func (m *Machine) State() (State, string) { return m.state, m.reason }

// OnXID takes a critical error that the driver reported; it returns whether the
// state changed.
func (m *Machine) OnXID(r Rules, xid uint64, now time.Time) bool {
	if slices.Contains(r.Ignored, xid) {
		return false
	}
	return m.fail(r, fmt.Sprintf("the driver reported XID %d", xid), now)
}

// OnProbe takes the result of a probe, nil if the card answered; it returns
// whether the state changed.
func (m *Machine) OnProbe(r Rules, err error, now time.Time) bool {
	if err != nil {
		return m.fail(r, err.Error(), now)
	}
	switch m.state {
	case Unhealthy:
		m.state, m.since = Probation, now
		return true
	case Probation:
		if now.Sub(m.since) < m.probation(r) {
			return false
		}
		m.state, m.reason, m.since = Healthy, "", now
		return true
	default:
		return false
	}
}

func (m *Machine) fail(r Rules, reason string, now time.Time) bool {
	changed := m.state != Unhealthy
	switch {
	case m.state == Healthy && now.Sub(m.since) > 2*m.probation(r):
		m.relapses = 0 // a first failure, or one after a long healthy spell
	case changed:
		m.relapses++
	}
	m.state, m.reason = Unhealthy, reason
	if changed {
		m.since = now
	}
	return changed
}

func (m *Machine) probation(r Rules) time.Duration {
	d := r.Probation
	for range m.relapses {
		if d *= 2; d >= r.MaxProbation {
			return r.MaxProbation
		}
	}
	return d
}
