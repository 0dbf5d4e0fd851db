// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package explain

// Code is the kind of a Reason, stable enough for metrics and conditions.
type Code string

// Codes of waiting and eviction reasons.
const (
	QueueDoesNotExist       Code = "QueueDoesNotExist"
	QueueNotLeaf            Code = "QueueNotLeaf"
	OverLimit               Code = "OverLimit"
	NonPreemptibleOverQuota Code = "NonPreemptibleOverQuota"
	NoNodeFits              Code = "NoNodeFits"
	GangNotReady            Code = "GangNotReady"
	GangDoesNotFit          Code = "GangDoesNotFit"
	TopologyDoesNotFit      Code = "TopologyDoesNotFit"
	TopologyInvalid         Code = "TopologyInvalid"
	UnknownSubGroup         Code = "UnknownSubGroup"
	WaitingForVictims       Code = "WaitingForVictims"
	WaitingForRelease       Code = "WaitingForRelease"
	BudgetForbids           Code = "BudgetForbids"
	EvictionRefused         Code = "EvictionRefused"
	EvictionPace            Code = "EvictionPace"
	InvalidRequest          Code = "InvalidRequest"
	ReclaimedForFairShare   Code = "ReclaimedForFairShare"
	ReclaimedForQuota       Code = "ReclaimedForQuota"
	PreemptedByPriority     Code = "PreemptedByPriority"
	MovedToMakeRoom         Code = "MovedToMakeRoom"
	StaleGang               Code = "StaleGang"
)

// Reason is one typed reason with its numbers. Fields that a Code does not use
// are zero. Message is the sentence that people read.
type Reason struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Queue that blocks, and the resource it is short of, with amounts in the
	// resource's smallest unit.
	Queue     string `json:"queue,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Limit     int64  `json:"limit,omitempty"`
	Allocated int64  `json:"allocated,omitempty"`
	Requested int64  `json:"requested,omitempty"`
	// Missing members of a gang.
	Missing int `json:"missing,omitempty"`
	// LargestFree is the largest block that a node (or one GPU, for slices and
	// memory) has free of Resource.
	LargestFree int64  `json:"largestFree,omitempty"`
	Domain      string `json:"domain,omitempty"`
	// Victims are the pods that must end first.
	Victims []string `json:"victims,omitempty"`
	Budget  string   `json:"budget,omitempty"`
}
