// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

// Words for the states of a pod.
const (
	Pending   = "Pending"
	Gated     = "Gated"
	Allocated = "Allocated"
	Pipelined = "Pipelined"
	Binding   = "Binding"
	Bound     = "Bound"
	Running   = "Running"
	Releasing = "Releasing"
	Succeeded = "Succeeded"
	Failed    = "Failed"
)

// States lists the words for the states of a pod.
var States = []string{Pending, Gated, Allocated, Pipelined, Binding, Bound, Running, Releasing, Succeeded, Failed}

// Modes of Rounds.
const (
	ModeFull   = "full"
	ModeSingle = "single"
)

// Actions are the steps of a cycle, in the order of a full round.
var Actions = []string{"allocate", "consolidate", "reclaim", "preempt", "evictStaleGangs"}

// Rounds runs the cluster in rounds, each on a fresh snapshot.
type Rounds struct {
	// Mode is full (all Actions, Until+After rounds) or single (one action,
	// once).
	Mode    string   `json:"mode"`
	Actions []string `json:"actions,omitempty"`
	Until   int      `json:"until"`
	After   int      `json:"after"`
	// StaleGraceSeconds; absent is 0 in full and 60 in single mode.
	StaleGraceSeconds *Seconds `json:"staleGraceSeconds,omitempty"`
}

// Engine changes the placement policy.
type Engine struct {
	// Only lists parts of another scheduler that were loaded. It is kept, not
	// read.
	Only                 []string       `json:"only,omitempty"`
	NodePlacement        *NodePlacement `json:"nodePlacement,omitempty"`
	GPUSharing           string         `json:"gpuSharing,omitempty"`
	PreferSharedGPUNodes *bool          `json:"preferSharedGpuNodes,omitempty"`
}

// NodePlacement is pack or spread for pods with and without GPU.
type NodePlacement struct {
	GPU string `json:"gpu,omitempty"`
	CPU string `json:"cpu,omitempty"`
}

// Settings of the cluster. What is absent keeps its default.
type Settings struct {
	UsageFactor             *MilliGPU `json:"usageFactor,omitempty"`
	ReclaimMultiplier       *MilliGPU `json:"reclaimMultiplier,omitempty"`
	MaxConsolidationVictims *int      `json:"maxConsolidationVictims,omitempty"`
	ReclaimMoves            *bool     `json:"reclaimMoves,omitempty"`
	ReclaimRuntimeByQueue   *bool     `json:"reclaimRuntimeByQueue,omitempty"`
	// MIGSlicesAsGPUs charges each compute slice of a MIG instance as a whole GPU;
	// absent is true. False charges its part of a card, as a cluster does.
	MIGSlicesAsGPUs          *bool    `json:"migSlicesAsGpus,omitempty"`
	StaleGraceSeconds        *Seconds `json:"staleGraceSeconds,omitempty"`
	PreemptMinRuntimeSeconds *Seconds `json:"preemptMinRuntimeSeconds,omitempty"`
	ReclaimMinRuntimeSeconds *Seconds `json:"reclaimMinRuntimeSeconds,omitempty"`
	// EvictionsPerMinute and QueueEvictionsPerMinute bound, in a timeline,
	// evictions for claimants in all and in each queue under no bound of its own;
	// 0 is any number.
	EvictionsPerMinute      int `json:"evictionsPerMinute,omitempty"`
	QueueEvictionsPerMinute int `json:"queueEvictionsPerMinute,omitempty"`
	// PreemptionDelaySeconds of workloads where neither they nor their queues set
	// one.
	PreemptionDelaySeconds Seconds `json:"preemptionDelaySeconds,omitempty"`
	StepLimit              int     `json:"stepLimit,omitempty"`
	Seed                   uint64  `json:"seed,omitempty"`
}

// Timeline runs the cluster in simulated time from second 0: a cycle runs
// whenever something changed.
type Timeline struct {
	// UntilSeconds ends the run; absent: when nothing more happens.
	UntilSeconds *Seconds `json:"untilSeconds,omitempty"`
	// TerminationSeconds from a pod's eviction until its room is free.
	TerminationSeconds Seconds `json:"terminationSeconds,omitempty"`
	Events             []Event `json:"events"`
}

// Event is one change at one instant. Exactly one field besides AtSeconds is
// set; events of one instant happen in list order.
type Event struct {
	AtSeconds Seconds `json:"atSeconds"`
	// Submit adds a workload.
	Submit *Workload `json:"submit,omitempty"`
	// Finish and Fail end a workload or one pod; Delete removes it.
	Finish string `json:"finish,omitempty"`
	Fail   string `json:"fail,omitempty"`
	Delete string `json:"delete,omitempty"`
	// NodeDown loses the node's pods; NodeUp brings the node back.
	NodeDown string `json:"nodeDown,omitempty"`
	NodeUp   string `json:"nodeUp,omitempty"`
	Cordon   string `json:"cordon,omitempty"`
	Uncordon string `json:"uncordon,omitempty"`
	// SetNode and SetQueue add or replace; RemoveQueue removes.
	SetNode     *Node  `json:"setNode,omitempty"`
	SetQueue    *Queue `json:"setQueue,omitempty"`
	RemoveQueue string `json:"removeQueue,omitempty"`
}

// Expect is what must hold in the end.
type Expect struct {
	Workloads map[string]Expectation     `json:"workloads,omitempty"`
	Pods      map[string]Expectation     `json:"pods,omitempty"`
	Nodes     map[string]NodeExpectation `json:"nodes,omitempty"`
	// Binds, Evictions and Pipelined are upper bounds for each single round.
	Binds          *int `json:"binds,omitempty"`
	Evictions      *int `json:"evictions,omitempty"`
	Pipelined      *int `json:"pipelined,omitempty"`
	CountsTieBreak bool `json:"countsTieBreak,omitempty"`
}

// Expectation holds for one pod, or for every pod of a workload.
type Expectation struct {
	State        string    `json:"state,omitempty"`
	Node         string    `json:"node,omitempty"`
	GPUs         *MilliGPU `json:"gpus,omitempty"`
	AcceptedGPUs *MilliGPU `json:"acceptedGpus,omitempty"`
	CPUMilli     *int64    `json:"cpuMilli,omitempty"`
	MemoryMiB    *Bytes    `json:"memoryMiB,omitempty"`
	// GPUGroups is a hint when GPUGroupsAsserted is false.
	GPUGroups                []string `json:"gpuGroups,omitempty"`
	GPUGroupsAsserted        *bool    `json:"gpuGroupsAsserted,omitempty"`
	FitErrorReported         bool     `json:"fitErrorReported,omitempty"`
	StartedAtLeastSecondsAgo *Seconds `json:"startedAtLeastSecondsAgo,omitempty"`
	// TieBreak marks fields (TieBreakOn; none means all) that another, equally
	// good outcome may differ in, because of names (TieBreakBy).
	TieBreak   bool     `json:"tieBreak,omitempty"`
	TieBreakOn []string `json:"tieBreakOn,omitempty"`
	TieBreakBy []string `json:"tieBreakBy,omitempty"`
}

// NodeExpectation counts GPUs of a node.
type NodeExpectation struct {
	IdleGPUs      *int `json:"idleGpus,omitempty"`
	ReleasingGPUs *int `json:"releasingGpus,omitempty"`
}
