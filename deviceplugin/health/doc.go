// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package health decides whether a GPU takes new containers. One state machine
// per card; all devices of the card follow it together.
//
//	           critical XID or failed probe
//	   ┌──────────────────────────────────────────────┐
//	   │                                              ▼
//	Healthy ◄── probation served ── Probation ◄── Unhealthy
//	                                   │  probe answers
//	                                   └──────────────▲
//	                             critical XID or failed probe
//
// A card in Probation answers again but takes no new containers until it has
// answered every probe for the whole probation time. Each relapse doubles that
// time, up to a limit; a long healthy spell forgets relapses.
//
// Errors that an application causes (DefaultIgnored) change nothing. The package
// reads no clock: time comes in with each call. It never touches a GPU, a pod or
// the API.
package health
