// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fairslice/fairslice/core/amount"

// Resource names with a fixed unit. Any other name is an extended resource in
// units of one.
const (
	// ResourceGPU counts GPUs of any model in thousandths.
	ResourceGPU = "gpu"
	// ResourceCPU counts thousandths of a core.
	ResourceCPU = "cpu"
	// ResourceMemory counts bytes of main memory.
	ResourceMemory = "memory"
	// ResourcePods counts pod slots of a node.
	ResourcePods = "pods"
	// ResourceGPUModelPrefix and a GPU model name count GPUs of that model in
	// thousandths, for quotas per model: "gpu.NVIDIA-H100-80GB-HBM3".
	ResourceGPUModelPrefix = "gpu."
	// ResourceMIGPrefix and a profile name count MIG instances of that exact
	// profile: "mig-1g.10gb".
	ResourceMIGPrefix = "mig-"
)

// Quantities holds an amount per resource name. A missing name means "not
// set", which each field that uses Quantities defines.
type Quantities map[string]amount.Amount

// Node is a machine that pods run on.
type Node struct {
	Name string
	// Ready is false when the node reports NotReady: it takes no pods and its
	// capacity counts for nobody's share.
	Ready bool
	// Unschedulable is true when the node is cordoned.
	Unschedulable bool
	Labels        map[string]string
	Taints        []Taint
	// Allocatable holds cpu, memory, pods, MIG instances and extended
	// resources. GPUs are listed one by one in GPUs.
	Allocatable Quantities
	GPUs        []GPU
	// MIGStrategy is "", "single" (instances appear as whole GPUs) or "mixed"
	// (of the pods that ask for GPU, only those asking for MIG profiles fit).
	MIGStrategy string
	// Isolation is the strongest isolation level that the node offers, 0 for
	// none. Larger is stronger.
	Isolation int
}

// GPU is one physical device of a node.
type GPU struct {
	// ID is unique on its node and stays when the node restarts.
	ID    string
	Model string
	// MemoryMiB that containers may use; 0 when unknown, then the GPU can be
	// taken whole only.
	MemoryMiB int64
	// Healthy is false while the GPU takes no new containers. What runs on it
	// keeps it.
	Healthy bool
	// Shareable is false where only whole GPUs can be handed out.
	Shareable bool
	// MaxSharers is how many claims may share it at a time, 0 for no limit. Two
	// containers of one pod are two sharers.
	MaxSharers int
}

// Taint repels pods that do not tolerate it. Effects other than NoSchedule
// and NoExecute are ignored.
type Taint struct{ Key, Value, Effect string }

// Toleration lets a pod onto a node with a taint. Empty Key with Exists
// tolerates everything; empty Effect matches every effect.
type Toleration struct {
	Key, Value, Effect string
	// Exists ignores Value.
	Exists bool
}

// Operator compares a node label with Requirement.Values.
type Operator string

// Operators of Kubernetes' node selector requirements.
const (
	OpIn           Operator = "In"
	OpNotIn        Operator = "NotIn"
	OpExists       Operator = "Exists"
	OpDoesNotExist Operator = "DoesNotExist"
	OpGt           Operator = "Gt"
	OpLt           Operator = "Lt"
)

// FieldNodeName as Requirement.Key compares the node's name, not a label.
const FieldNodeName = "metadata.name"

// Requirement is one condition on a node's labels.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string
}

// PodAffinity demands (or, as anti-affinity, forbids) a pod with matching
// labels in the same topology domain.
type PodAffinity struct {
	MatchLabels map[string]string
	TopologyKey string
	Anti        bool
}

// Queue is a node of the queue tree. Only leaves run workloads.
type Queue struct {
	Name   string
	Parent string // "" for a root
	// Priority orders queues; higher is served first.
	Priority int32
	// Quota is guaranteed; a missing resource has none, amount.Unlimited has
	// all.
	Quota Quantities
	// Limit caps allocation; a missing resource is unlimited, 0 means nothing.
	Limit Quantities
	// OverQuotaWeight splits spare capacity; a missing resource has weight 0.
	OverQuotaWeight Quantities
	// CreatedAt in nanoseconds; older first in ties, then the lower name.
	CreatedAt int64
	// PreemptMinRuntime and ReclaimMinRuntime in nanoseconds protect running
	// workloads; negative means unset: the parent's value holds.
	PreemptMinRuntime, ReclaimMinRuntime int64
	// EvictionsPerMinute bounds how many pods of the queue, and of the queues
	// below it together, are evicted a minute for claimants; 0 means unset,
	// negative any number. Bounds above hold as well.
	EvictionsPerMinute int
	// PreemptionDelay in nanoseconds is that of workloads that set none; 0 means
	// unset: the parent's value holds. Negative is no delay.
	PreemptionDelay int64
	// Usage is the decayed share of the whole cluster that the queue used, in
	// millionths, per resource; missing means 0.
	Usage Quantities
}

// Topology names node labels from the widest to the narrowest level.
type Topology struct {
	Name   string
	Levels []string
}

// TopologyConstraint keeps pods in one domain.
type TopologyConstraint struct {
	Topology string
	// Required and Preferred are levels (node label keys), "" for none.
	Required, Preferred string
}

// SubGroup is a part of a gang with its own minimum. Only leaves hold pods.
type SubGroup struct {
	Name, Parent string
	// MinMember is the number of pods that must run together, on leaves.
	MinMember int
	// MinSubGroup is the number of children that must reach their minimum, on
	// inner sub-groups; 0 means all of them, NoSubGroup none.
	MinSubGroup int
	Topology    *TopologyConstraint
	// Finished as in Workload, on leaves.
	Finished int
}

// NoSubGroup as MinSubGroup makes every child an extra.
const NoSubGroup = -1

// Spreading chooses between filling up and spreading out.
type Spreading int8

// Pack fills what is in use first; Spread takes what is freest first. Fill, for
// nodes that serve GPUs, takes what leaves GPUs most usable for the mix of pods
// that there is; it then chooses the GPUs as well.
const (
	Pack Spreading = iota
	Spread
	Fill
)

// Workload is a gang or a single pod: what is placed, or waits, as a whole.
type Workload struct {
	// Key is unique: "<namespace>/<name>".
	Key string
	// Queue is the leaf queue; "" for pods that no queue manages, which only
	// take up room.
	Queue       string
	Priority    int32
	Preemptible bool
	// MinMember is the gang's minimum when there are no SubGroups.
	MinMember int
	SubGroups []SubGroup
	// MinSubGroup as in SubGroup, for the top level.
	MinSubGroup int
	Topology    *TopologyConstraint
	CreatedAt   int64 // nanoseconds
	// StartedAt is when the workload last started, in nanoseconds; 0 never.
	StartedAt int64
	// StaleSince is when the gang fell below its minimum; 0 when it did not.
	StaleSince int64
	// Finished counts members that ended well and whose pods are gone, so that
	// a gang that ends member by member is not taken for a broken one.
	Finished int
	// Released says that a member is lost and that the gang gives up the others
	// with it: what holds room is evicted once StaleGrace is over, also if its
	// minimum could be reached again or members have finished.
	Released bool
	// OneRun says that the pods that finished and those that come belong to the
	// same run. Without it a run is over once the minimum has finished.
	OneRun bool
	// StaleGrace in nanoseconds; negative means the cluster's setting.
	StaleGrace int64
	// PreemptionDelay in nanoseconds: no eviction for this workload until it
	// has been pending that long; 0 means unset: that of its queue holds.
	// Negative is no delay.
	PreemptionDelay int64
	// SparedUntil in nanoseconds: before it, what the workload needs for its
	// minimum is no victim of a claimant, as it was one a short while ago.
	SparedUntil int64
	// PendingSince in nanoseconds, for PreemptionDelay.
	PendingSince int64
	// Recreated is true if something makes a new pod for an evicted one. Pods
	// of a workload without it are never moved.
	Recreated bool
	// NodeSpreading and GPUSpreading override the cluster's settings when
	// HasSpreading is true.
	HasSpreading                bool
	NodeSpreading, GPUSpreading Spreading
}

// PodState is where a pod is in its life.
type PodState int8

// States of a pod. Promised, Bound and Releasing hold room on a node.
const (
	// Pending pods wait for the plan.
	Pending PodState = iota
	// Gated pods are held by somebody else's scheduling gate: alive, not
	// ready.
	Gated
	// Promised pods have a place from an earlier plan and are not bound yet.
	Promised
	// Bound pods hold their place: assumed, bound or running.
	Bound
	// Releasing pods are being deleted and still hold their place.
	Releasing
	// Stuck pods have been releasing for too long: they hold their place,
	// which is promised to nobody, and are no victims.
	Stuck
	// Succeeded and Failed pods hold nothing.
	Succeeded
	Failed
)

// ClaimKind is how a container asks for GPU.
type ClaimKind int8

// Kinds of claims.
const (
	// WholeGPU claims Count GPUs entirely.
	WholeGPU ClaimKind = iota
	// GPUSlice claims Milli thousandths of each of Count GPUs.
	GPUSlice
	// GPUMemory claims MemoryMiB of each of Count GPUs.
	GPUMemory
)

// GPUClaim is what one container (or an init container and those that reuse
// its devices) asks for. All GPUs of a claim are different GPUs of one node;
// two claims of a pod may share a GPU unless whole.
type GPUClaim struct {
	// Name is unique in the pod.
	Name      string
	Kind      ClaimKind
	Count     int
	Milli     int64 // per GPU, 1 to 1000; GPUSlice only
	MemoryMiB int64 // per GPU; GPUMemory only
}

// HeldGPU is what a claim got of one GPU.
type HeldGPU struct {
	Claim string
	// GPU is the GPU's ID on the pod's node.
	GPU       string
	Milli     int64
	MemoryMiB int64
}

// Pod is one pod of a workload.
type Pod struct {
	UID      string
	Name     string
	Workload string // Workload.Key
	SubGroup string
	State    PodState
	// StandIn pods are Promised and stand for one that is still to come, such as
	// the successor of a pod that moves: they keep its room and never start.
	StandIn bool
	// Returns is set on Releasing pods that a plan evicted and of which the
	// successor is not there yet. If their workload is Recreated, its queues go on
	// requesting what they cost: shares that changed while a victim is on its way
	// out would change back once it waits again.
	Returns bool
	// Node and Held are set in states that hold room. A pod in such a state
	// with claims but no Held gets free GPUs of its node booked for it, lowest
	// IDs first.
	Node    string
	Held    []HeldGPU
	Request Quantities // cpu, memory, MIG, extended; the pod slot is implied
	Claims  []GPUClaim
	// NodeTerms are alternatives; every Requirement of one must hold. Empty
	// allows every node; a term without requirements allows none.
	NodeTerms    [][]Requirement
	Tolerations  []Toleration
	Affinities   []PodAffinity
	Labels       map[string]string
	MinIsolation int
	// NominatedNode is preferred to any other node that fits.
	NominatedNode string
	// ExcludedNodes refused the pod for reasons that the model does not know
	// (volumes, ports), as kube-scheduler found out.
	ExcludedNodes []string
	// Leader pods (launcher, master, head) go first in their workload.
	Leader bool
	// Order is explicit; higher goes first, and having one beats having none.
	Order     int
	HasOrder  bool
	CreatedAt int64 // nanoseconds
}

// DisruptionBudget bounds evictions. It is a hard rule.
type DisruptionBudget struct {
	// Key is "<namespace>/<name>".
	Key string
	// Pods are the UIDs that the budget covers.
	Pods []string
	// Allowed is the number of them that may be evicted now.
	Allowed int
	// Refusal is a sentence that says why Pods may not be evicted, where that is
	// no disruption budget's doing; "" for a budget.
	Refusal string
}

// Settings of the cluster, all deterministic.
type Settings struct {
	NodeSpreadingGPU, NodeSpreadingCPU Spreading
	GPUSpreading                       Spreading
	// PreferSharedGPUNodes prefers nodes whose partly used GPUs have room.
	PreferSharedGPUNodes bool
	// UsageFactor is k in thousandths: how strongly past usage moves the
	// over-quota split.
	UsageFactor int64
	// ReclaimMultiplier in thousandths, at least 1000.
	ReclaimMultiplier int64
	// MaxConsolidationVictims caps moved workloads of one consolidation; 0
	// turns it off, negative means no cap.
	MaxConsolidationVictims int
	// ReclaimMoves lets reclaim move victims instead of only evicting them.
	ReclaimMoves bool
	// ReclaimRuntimeByQueue resolves reclaimMinRuntime by the victim's own
	// queue; false uses the lowest common ancestor.
	ReclaimRuntimeByQueue bool
	// MIGSlicesAsGPUs charges each compute slice of a MIG instance as a whole GPU;
	// else an instance costs its part of a card.
	MIGSlicesAsGPUs bool
	// StaleGrace in nanoseconds; negative never evicts stale gangs.
	StaleGrace int64
	// PreemptMinRuntime and ReclaimMinRuntime in nanoseconds hold where no
	// queue sets one.
	PreemptMinRuntime, ReclaimMinRuntime int64
	// PreemptionDelay in nanoseconds holds where neither workload nor queue sets
	// one.
	PreemptionDelay int64
	// StepLimit bounds the search for victims of one workload, in simulated
	// scenarios; 0 means the default.
	StepLimit int
	// Seed breaks ties that no rule orders.
	Seed uint64
}

// DefaultSettings are those of a fresh installation.
func DefaultSettings() Settings {
	return Settings{
		PreferSharedGPUNodes:    true,
		UsageFactor:             1000,
		ReclaimMultiplier:       1000,
		MaxConsolidationVictims: 16,
		ReclaimMoves:            true,
		StaleGrace:              60_000_000_000,
	}
}
