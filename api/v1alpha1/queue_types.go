// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of Queue fields that a user leaves out.
const (
	// DefaultQueuePriority is the priority of a queue that sets none.
	DefaultQueuePriority = 100
	// DefaultOverQuotaWeight is a queue's weight for each resource that
	// overQuotaWeight does not name.
	DefaultOverQuotaWeight = 1
)

// Queue is a share of the cluster. Queues form a tree; pods run in leaves, and
// every rule of a queue also holds for the sum of the queues below it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fsq,categories=fairslice
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Quota",type=string,description="Guaranteed GPUs",JSONPath=`.spec.quota.gpu`
// +kubebuilder:printcolumn:name="Limit",type=string,description="Most GPUs; empty is unlimited",JSONPath=`.spec.limit.gpu`
// +kubebuilder:printcolumn:name="Fair Share",type=string,description="GPUs that the queue is entitled to now",JSONPath=`.status.fairShare.gpu`
// +kubebuilder:printcolumn:name="Allocated",type=string,description="GPUs in use",JSONPath=`.status.allocated.gpu`
// +kubebuilder:printcolumn:name="Requested",type=string,priority=1,description="GPUs in use or waited for",JSONPath=`.status.requested.gpu`
// +kubebuilder:printcolumn:name="Pending",type=integer,description="Pods that wait",JSONPath=`.status.pending.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="a queue's name must have at most 63 characters, because pods name their queue in a label"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",message="a queue cannot be its own parent: name another queue, or leave parent out for a root queue",fieldPath=".spec.parent"
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec is what the administrator grants.
//
// Resources are named "gpu" (GPUs of any model, whole or in part),
// "gpu.<model>" (GPUs of one model), "cpu", "memory", "ephemeral-storage",
// "pods", "hugepages-<size>", or as an extended resource
// ("example.com/fpga"). GPU resource names such as nvidia.com/gpu are refused:
// every way to ask for GPU is counted under "gpu".
//
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.limit) || self.quota.all(k, !(k in self.limit) || string(self.limit[k]) == 'unlimited' || !isQuantity(string(self.limit[k])) || (string(self.quota[k]) != 'unlimited' && (!isQuantity(string(self.quota[k])) || quantity(string(self.quota[k])).compareTo(quantity(string(self.limit[k]))) <= 0)))",messageExpression="'quota of ' + self.quota.filter(k, !(!(k in self.limit) || string(self.limit[k]) == 'unlimited' || !isQuantity(string(self.limit[k])) || (string(self.quota[k]) != 'unlimited' && (!isQuantity(string(self.quota[k])) || quantity(string(self.quota[k])).compareTo(quantity(string(self.limit[k]))) <= 0))))[0] + ' must not exceed its limit: lower the quota, raise the limit, or leave the limit out for no limit'",fieldPath=".quota"
type QueueSpec struct {
	// DisplayName is shown to people beside the object's name.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// Parent is the name of the queue above. Empty for a root queue.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="parent must be the name of a queue: lower-case letters, digits, '-' and '.', or empty for a root queue"
	// +optional
	Parent string `json:"parent,omitempty"`

	// Priority orders siblings: a queue of higher priority is served first,
	// both when spare capacity is divided and when a job is chosen.
	// +kubebuilder:default=100
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// Quota is what the queue can always take back from others. A resource
	// that is not named has quota 0; "unlimited" guarantees all that the parent
	// has.
	// +optional
	Quota ResourceAmounts `json:"quota,omitempty"`

	// Limit is what the queue never exceeds. A resource that is not named is
	// unlimited; 0 means none.
	// +optional
	Limit ResourceAmounts `json:"limit,omitempty"`

	// OverQuotaWeight is the queue's part, against its siblings of the same
	// priority, of what is left over quotas. A resource that is not named has
	// weight 1; a queue of weight 0 gets nothing over its quota.
	// +optional
	OverQuotaWeight ResourceWeights `json:"overQuotaWeight,omitempty"`

	// PreemptMinRuntime protects a started job against preemption by jobs of
	// its own queue for that long. A queue without it inherits its parent's.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration of zero or more in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m"
	// +optional
	PreemptMinRuntime *metav1.Duration `json:"preemptMinRuntime,omitempty"`

	// ReclaimMinRuntime protects a started job against reclaim by other queues
	// for that long. A queue without it inherits its parent's.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration of zero or more in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m"
	// +optional
	ReclaimMinRuntime *metav1.Duration `json:"reclaimMinRuntime,omitempty"`

	// EvictionsPerMinute is how many pods of the queue, and of the queues below
	// it together, are evicted a minute for others at most; 0 is any number. The
	// bounds of the queues above hold as well. Where neither the queue nor one
	// above sets it, the control plane's --queue-evictions-per-minute holds.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000",message="must be a whole number from 1 to 1000000, or 0 for any number of evictions"
	// +optional
	EvictionsPerMinute *int32 `json:"evictionsPerMinute,omitempty"`

	// PreemptionDelay is how long a workload of the queue waits for free room
	// before others are evicted for it, unless its PodGroup says otherwise. A
	// queue without it inherits its parent's, a root the control plane's
	// --preemption-delay.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration of zero or more in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m"
	// +optional
	PreemptionDelay *metav1.Duration `json:"preemptionDelay,omitempty"`

	// EvictionBackoff is how long a workload of the queue that was evicted is no
	// victim again, doubled with every further eviction up to 16 times; 0 is not
	// at all. A queue without it inherits its parent's, a root the control
	// plane's --eviction-backoff.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration of zero or more in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m"
	// +optional
	EvictionBackoff *metav1.Duration `json:"evictionBackoff,omitempty"`
}

// ResourceAmounts maps a resource name, as QueueSpec lists them, to an amount.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(gpu(\\\\.[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?|cpu|memory|ephemeral-storage|pods|hugepages-[1-9][0-9]*[KMG]i|[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$') && !k.matches('^(nvidia\\\\.com/gpu|fairslice\\\\.io/.*)$'))",messageExpression="'resource ' + self.filter(k, !(k.matches('^(gpu(\\\\.[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?|cpu|memory|ephemeral-storage|pods|hugepages-[1-9][0-9]*[KMG]i|[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$') && !k.matches('^(nvidia\\\\.com/gpu|fairslice\\\\.io/.*)$')))[0] + ' must be named gpu, gpu.<model>, cpu, memory, ephemeral-storage, pods, hugepages-<size> or as an extended resource (<domain>/<name>), and GPUs always as gpu or gpu.<model>'"
// +kubebuilder:validation:XValidation:rule="self.all(k, string(self[k]) == 'unlimited' || (isQuantity(string(self[k])) && !quantity(string(self[k])).isLessThan(quantity('0'))))",messageExpression="'the amount of ' + self.filter(k, !(string(self[k]) == 'unlimited' || (isQuantity(string(self[k])) && !quantity(string(self[k])).isLessThan(quantity('0')))))[0] + ' must be a quantity of zero or more, such as 8, 500m or 64Gi, or the word unlimited'"
type ResourceAmounts map[string]Amount

// ResourceWeights maps a resource name, as QueueSpec lists them, to a weight.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, self[k] >= 0 && self[k] <= 1000000)",messageExpression="'the weight of ' + self.filter(k, !(self[k] >= 0 && self[k] <= 1000000))[0] + ' must be a whole number from 0 to 1000000'"
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(gpu(\\\\.[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?|cpu|memory|ephemeral-storage|pods|hugepages-[1-9][0-9]*[KMG]i|[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$') && !k.matches('^(nvidia\\\\.com/gpu|fairslice\\\\.io/.*)$'))",messageExpression="'resource ' + self.filter(k, !(k.matches('^(gpu(\\\\.[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?|cpu|memory|ephemeral-storage|pods|hugepages-[1-9][0-9]*[KMG]i|[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$') && !k.matches('^(nvidia\\\\.com/gpu|fairslice\\\\.io/.*)$')))[0] + ' must be named gpu, gpu.<model>, cpu, memory, ephemeral-storage, pods, hugepages-<size> or as an extended resource (<domain>/<name>), and GPUs always as gpu or gpu.<model>'"
type ResourceWeights map[string]int64

// QueueStatus is what the queue controller observes and computes. Amounts
// include all queues below.
type QueueStatus struct {
	// ObservedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Allocated is held by pods that are bound and not finished, or promised.
	// +optional
	Allocated map[string]resource.Quantity `json:"allocated,omitempty"`

	// AllocatedNonPreemptible is the part of Allocated that no claim can take
	// back.
	// +optional
	AllocatedNonPreemptible map[string]resource.Quantity `json:"allocatedNonPreemptible,omitempty"`

	// Requested is Allocated plus what pending pods ask for.
	// +optional
	Requested map[string]resource.Quantity `json:"requested,omitempty"`

	// FairShare is what the queue is entitled to now: its quota and its part
	// of what is left over, up to its limit and what it requests.
	// +optional
	FairShare map[string]resource.Quantity `json:"fairShare,omitempty"`

	// Usage is the time-decayed part of the cluster's capacity that the queue
	// has used, from 0 to 1, in thousandths ("125m").
	// +optional
	Usage map[string]resource.Quantity `json:"usage,omitempty"`

	// Running counts what holds capacity.
	// +optional
	Running WorkloadCounts `json:"running,omitempty"`

	// Pending counts what waits.
	// +optional
	Pending WorkloadCounts `json:"pending,omitempty"`

	// Children are the names of the queues directly below, in order.
	// +listType=atomic
	// +optional
	Children []string `json:"children,omitempty"`

	// Conditions of type Ready, OverQuota and Backlogged.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadCounts counts pods and the workloads (gangs and single pods) that
// they form.
type WorkloadCounts struct {
	// +optional
	Pods int32 `json:"pods"`
	// +optional
	Workloads int32 `json:"workloads"`
}

// QueueList is a list of Queue.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}
