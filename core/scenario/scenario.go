// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import "encoding/json"

// Scenario is one cluster, what happens to it, and what is expected.
type Scenario struct {
	ID         string     `json:"id,omitempty"`
	Area       string     `json:"area,omitempty"`
	Summary    string     `json:"summary,omitempty"`
	Nodes      []Node     `json:"nodes,omitempty"`
	Queues     []Queue    `json:"queues,omitempty"`
	Topologies []Topology `json:"topologies,omitempty"`
	Workloads  []Workload `json:"workloads,omitempty"`
	DRA        *DRA       `json:"dra,omitempty"`
	Budgets    []Budget   `json:"budgets,omitempty"`
	Settings   *Settings  `json:"settings,omitempty"`
	Engine     *Engine    `json:"engine,omitempty"`
	Rounds     *Rounds    `json:"rounds,omitempty"`
	Timeline   *Timeline  `json:"timeline,omitempty"`
	Expect     *Expect    `json:"expect,omitempty"`
	// Observed is what another scheduler did. It is kept, not read.
	Observed json.RawMessage `json:"observed,omitempty"`
}

// Node is a machine; GPUs are alike.
type Node struct {
	Name string `json:"name"`
	// GPUs on offer; DRAGPUs are offered through resource slices instead.
	GPUs    int `json:"gpus,omitempty"`
	DRAGPUs int `json:"draGpus,omitempty"`
	// GPUDevices counts the physical GPUs of a MIG node.
	GPUDevices int `json:"gpuDevices,omitempty"`
	// GPUMemoryMiB of one GPU; absent is 100.
	GPUMemoryMiB *int64 `json:"gpuMemoryMiB,omitempty"`
	GPUModel     string `json:"gpuModel,omitempty"`
	// GPUList in place of GPUs, GPUMemoryMiB and GPUModel tells GPUs apart.
	GPUList []GPU `json:"gpuList,omitempty"`
	// CPUMilli, MemoryMiB and MaxPods; absent is 20 million, 20·10⁹ bytes, 110.
	CPUMilli  *int64            `json:"cpuMilli,omitempty"`
	MemoryMiB *Bytes            `json:"memoryMiB,omitempty"`
	MaxPods   *int64            `json:"maxPods,omitempty"`
	Other     map[string]int64  `json:"other,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Taints    []Taint           `json:"taints,omitempty"`
	// Down nodes take no pods and count for nobody's share.
	Down        bool             `json:"down,omitempty"`
	Cordoned    bool             `json:"cordoned,omitempty"`
	MIGStrategy string           `json:"migStrategy,omitempty"`
	MIGProfiles map[string]int64 `json:"migProfiles,omitempty"`
	Isolation   int              `json:"isolation,omitempty"`
}

// GPU is one GPU of a node.
type GPU struct {
	ID        string `json:"id"`
	Model     string `json:"model,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	// Unhealthy GPUs take nothing new; those with WholeOnly no shares.
	Unhealthy bool `json:"unhealthy,omitempty"`
	WholeOnly bool `json:"wholeOnly,omitempty"`
}

// Taint repels pods without a matching toleration.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Toleration lets a pod onto a tainted node.
type Toleration struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
	Exists bool   `json:"exists,omitempty"`
}

// Queue is one queue of the tree; parents are listed before children.
type Queue struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	// Priority; absent is 100.
	Priority *int32 `json:"priority,omitempty"`
	// CreationOrder ranks siblings, 1 is the oldest; absent is list order.
	CreationOrder   int          `json:"creationOrder,omitempty"`
	Quota           ResourceList `json:"quota,omitempty"`
	Limit           ResourceList `json:"limit,omitempty"`
	OverQuotaWeight ResourceList `json:"overQuotaWeight,omitempty"`
	// PreemptMinRuntimeSeconds and ReclaimMinRuntimeSeconds; absent inherits.
	PreemptMinRuntimeSeconds *Seconds `json:"preemptMinRuntimeSeconds,omitempty"`
	ReclaimMinRuntimeSeconds *Seconds `json:"reclaimMinRuntimeSeconds,omitempty"`
	// EvictionsPerMinute bounds, in a timeline, how many pods of the queue and
	// of those below it are evicted a minute for claimants; 0 is any number.
	EvictionsPerMinute *int `json:"evictionsPerMinute,omitempty"`
	// PreemptionDelaySeconds of workloads that set none; absent inherits.
	PreemptionDelaySeconds *Seconds `json:"preemptionDelaySeconds,omitempty"`
	// Usage is the past share of the whole cluster by resource.
	Usage map[string]Millionths `json:"usage,omitempty"`
}

// Topology names node labels from the widest to the narrowest level.
type Topology struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// TopologyConstraint keeps pods in one domain of a level.
type TopologyConstraint struct {
	Name      string `json:"name"`
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
}

// SubGroup is a leaf of a gang's group tree.
type SubGroup struct {
	Name      string              `json:"name"`
	MinMember int                 `json:"minMember"`
	Parent    string              `json:"parent,omitempty"`
	Topology  *TopologyConstraint `json:"topology,omitempty"`
}

// SubGroupSet encloses sub-groups and other sets.
type SubGroupSet struct {
	Name        string              `json:"name"`
	Parent      string              `json:"parent,omitempty"`
	MinSubGroup *int                `json:"minSubGroup,omitempty"`
	Topology    *TopologyConstraint `json:"topology,omitempty"`
}

// Workload is a gang or a single pod.
type Workload struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Queue     string `json:"queue"`
	Priority  int32  `json:"priority,omitempty"`
	// Preemptible; absent: yes below priority 100.
	Preemptible *bool `json:"preemptible,omitempty"`
	// MinMember; absent is the number of pods. Not with SubGroups.
	MinMember     *int                `json:"minMember,omitempty"`
	MinSubGroup   *int                `json:"minSubGroup,omitempty"`
	SubGroups     []SubGroup          `json:"subGroups,omitempty"`
	SubGroupSets  []SubGroupSet       `json:"subGroupSets,omitempty"`
	Topology      *TopologyConstraint `json:"topology,omitempty"`
	NodePlacement string              `json:"nodePlacement,omitempty"`
	GPUSharing    string              `json:"gpuSharing,omitempty"`
	// AgeSeconds since creation; absent: the k-th of n is n+1−k minutes old.
	AgeSeconds *Seconds `json:"ageSeconds,omitempty"`
	// StartedSecondsAgo; absent is 60 where a pod holds resources.
	StartedSecondsAgo *Seconds `json:"startedSecondsAgo,omitempty"`
	// StaleSeconds that the gang is already known to be below its minimum.
	StaleSeconds           *Seconds `json:"staleSeconds,omitempty"`
	StaleGraceSeconds      *Seconds `json:"staleGraceSeconds,omitempty"`
	PreemptionDelaySeconds Seconds  `json:"preemptionDelaySeconds,omitempty"`
	// DurationSeconds that each pod runs once bound; absent: for ever.
	DurationSeconds *Seconds `json:"durationSeconds,omitempty"`
	// NotRecreated pods are gone when evicted.
	NotRecreated bool `json:"notRecreated,omitempty"`
	// DeleteInTest keeps releasing pods releasing for ever.
	DeleteInTest bool    `json:"deleteInTest,omitempty"`
	BestEffort   bool    `json:"bestEffort,omitempty"`
	Request      Request `json:"request,omitzero"`
	// Replicas makes this many waiting pods "<name>-<index>" in place of Pods.
	Replicas int   `json:"replicas,omitempty"`
	Pods     []Pod `json:"pods,omitempty"`
}

// Request is what one pod asks for. GPU, GPUSlicePercent, GPUMemoryMiB and MIG
// exclude each other.
type Request struct {
	// GPU is whole, or a fraction below 1.
	GPU MilliGPU `json:"gpu,omitempty"`
	// GPUSlicePercent of each GPU.
	GPUSlicePercent int64 `json:"gpuSlicePercent,omitempty"`
	// GPUMemoryMiB of each GPU.
	GPUMemoryMiB int64 `json:"gpuMemoryMiB,omitempty"`
	// GPUDevices that a fraction, slice or memory request spreads over;
	// absent is 1.
	GPUDevices int              `json:"gpuDevices,omitempty"`
	MIG        map[string]int64 `json:"mig,omitempty"`
	// DRAGPUs implied by the pod's claims.
	DRAGPUs int `json:"draGpus,omitempty"`
	// CPUMilli and MemoryMiB; absent is 1000 and 10⁹ bytes, 0 if bestEffort.
	CPUMilli  *int64           `json:"cpuMilli,omitempty"`
	MemoryMiB *Bytes           `json:"memoryMiB,omitempty"`
	Other     map[string]int64 `json:"other,omitempty"`
}

// Claim is what one container of a pod asks of Count GPUs: Milli thousandths
// or MemoryMiB of each, all of it if both are 0.
type Claim struct {
	Name      string `json:"name"`
	Count     int    `json:"count"`
	Milli     int64  `json:"milli,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
}

// Requirement is a condition on node labels; Op is In, NotIn, Exists,
// DoesNotExist, Gt or Lt.
type Requirement struct {
	Key    string   `json:"key"`
	Op     string   `json:"op"`
	Values []string `json:"values,omitempty"`
}

// HeldGPU is the exact part of a GPU that a pod, or one claim of it, holds.
type HeldGPU struct {
	Claim     string `json:"claim,omitempty"`
	GPU       string `json:"gpu"`
	Milli     int64  `json:"milli"`
	MemoryMiB int64  `json:"memoryMiB"`
}

// PodAffinity demands, or forbids, a matching pod in the same domain.
type PodAffinity struct {
	MatchLabels map[string]string `json:"matchLabels"`
	TopologyKey string            `json:"topologyKey"`
	// Anti is for the list Affinities.
	Anti bool `json:"anti,omitempty"`
}

// Pod is one pod of a workload.
type Pod struct {
	Name string `json:"name"`
	// State is one of the words of States; absent is Pending.
	State string `json:"state,omitempty"`
	Node  string `json:"node,omitempty"`
	// GPUGroups label the shared devices that the pod sits on.
	GPUGroups []string `json:"gpuGroups,omitempty"`
	// Held in place of GPUGroups says exactly what the pod holds.
	Held     []HeldGPU `json:"held,omitempty"`
	SubGroup string    `json:"subGroup,omitempty"`
	Request  *Request  `json:"request,omitempty"`
	// NodeAffinity lists the nodes that are allowed; empty allows all.
	NodeAffinity    []string          `json:"nodeAffinity,omitempty"`
	NodeSelector    map[string]string `json:"nodeSelector,omitempty"`
	Tolerations     []Toleration      `json:"tolerations,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	PodAffinity     *PodAffinity      `json:"podAffinity,omitempty"`
	PodAntiAffinity *PodAffinity      `json:"podAntiAffinity,omitempty"`
	// Affinities are further ones; NodeTerms further alternatives, in one of
	// which every requirement must hold.
	Affinities    []PodAffinity   `json:"affinities,omitempty"`
	NodeTerms     [][]Requirement `json:"nodeTerms,omitempty"`
	ExcludedNodes []string        `json:"excludedNodes,omitempty"`
	// Claims in place of the request's GPUs.
	Claims        []Claim `json:"claims,omitempty"`
	MinIsolation  int     `json:"minIsolation,omitempty"`
	NominatedNode string  `json:"nominatedNode,omitempty"`
	Leader        bool    `json:"leader,omitempty"`
	OrderPriority *int    `json:"orderPriority,omitempty"`
	// LegacyMIG pods took their instance by annotation and are never placed.
	LegacyMIG              bool              `json:"legacyMig,omitempty"`
	ResourceClaims         []string          `json:"resourceClaims,omitempty"`
	ResourceClaimTemplates map[string]string `json:"resourceClaimTemplates,omitempty"`
}

// Budget bounds evictions among pods.
type Budget struct {
	Name    string   `json:"name"`
	Pods    []string `json:"pods"`
	Allowed int      `json:"allowed"`
}

// DRA holds devices offered by resource slices and the claims on them.
type DRA struct {
	DeviceClasses []string   `json:"deviceClasses,omitempty"`
	Slices        []DRASlice `json:"slices,omitempty"`
	Claims        []DRAClaim `json:"claims,omitempty"`
}

// DRASlice lists devices of one node.
type DRASlice struct {
	Name    string   `json:"name"`
	Node    string   `json:"node"`
	Devices []string `json:"devices"`
}

// DRAClaim is a claim on devices, shared by the pods that name it.
type DRAClaim struct {
	Name              string      `json:"name"`
	Namespace         string      `json:"namespace,omitempty"`
	DeviceClass       string      `json:"deviceClass"`
	Count             int         `json:"count,omitempty"`
	Queue             string      `json:"queue,omitempty"`
	AllocatedDevices  []DRADevice `json:"allocatedDevices,omitempty"`
	ReservedFor       []string    `json:"reservedFor,omitempty"`
	ReservedForOthers int         `json:"reservedForOthers,omitempty"`
}

// DRADevice names an allocated device.
type DRADevice struct {
	Node   string `json:"node"`
	Device string `json:"device"`
}
