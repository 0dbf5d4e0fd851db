// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultMinMember is the gang size of a PodGroup without sub-groups that sets
// none.
const DefaultMinMember = 1

// PodGroup is a gang: pods that start together or not at all. Pods join it by
// the label fairslice.io/pod-group. It is needed only where a gang cannot be
// derived from a known owner; a single pod needs none. Of a gang that is derived
// Fairslice makes a PodGroup itself, with the annotation fairslice.io/gang, to
// show its state.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fspg,categories=fairslice
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queue`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Min",type=integer,description="Pods that must run together",JSONPath=`.status.minMember`
// +kubebuilder:printcolumn:name="Members",type=integer,description="Pods that exist",JSONPath=`.status.members`
// +kubebuilder:printcolumn:name="Placed",type=integer,description="Pods that have a node",JSONPath=`.status.placed`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="a pod group's name must have at most 63 characters, because pods name their group in a label"
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec is what the user asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minResources)",message="minResources is not supported: say with minMember how many pods must start together; their requests are added up",fieldPath=".minResources"
// +kubebuilder:validation:XValidation:rule="!(has(self.minMember) && has(self.minSubGroup))",message="minMember and minSubGroup exclude each other: minMember counts pods of a group without sub-groups, minSubGroup counts top-level sub-groups",fieldPath=".minMember"
// +kubebuilder:validation:XValidation:rule="!has(self.minMember) || has(self.minSubGroup) || !has(self.subGroups) || self.subGroups.size() == 0",message="minMember cannot be set beside subGroups: set minMember on the sub-groups that hold pods",fieldPath=".minMember"
// +kubebuilder:validation:XValidation:rule="!has(self.minSubGroup) || (has(self.subGroups) && self.minSubGroup <= self.subGroups.filter(s, !has(s.parent) || s.parent.size() == 0).size())",message="minSubGroup must not exceed the number of sub-groups without a parent",fieldPath=".minSubGroup"
type PodGroupSpec struct {
	// Queue is the name of a leaf queue. Empty: the queue label of the pods,
	// then that of the namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="queue must be the name of a queue: lower-case letters, digits, '-' and '.'"
	// +optional
	Queue string `json:"queue,omitempty"`

	// MinMember is how many pods must start together; more are welcome and
	// start one by one. 1 when unset. 0 makes every pod an extra.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100000",message="minMember must be a whole number from 0 to 100000"
	// +optional
	MinMember *int32 `json:"minMember,omitempty"`

	// MinSubGroup is how many of the sub-groups without a parent must start
	// together. All of them when unset. 0 makes each an extra.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minSubGroup must be a whole number of zero or more"
	// +optional
	MinSubGroup *int32 `json:"minSubGroup,omitempty"`

	// MinResources exists to be refused, so that a group written for another
	// scheduler is not started in parts: see MinMember.
	// +optional
	MinResources map[string]Amount `json:"minResources,omitempty"`

	// Preemptible says whether others may take the gang's capacity. When unset
	// it follows the priority: below 100 is preemptible.
	// +optional
	Preemptible *bool `json:"preemptible,omitempty"`

	// PriorityClassName is the gang's priority inside its queue. Empty: that of
	// the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// SubGroups form a tree through parent, at most five levels deep. Only
	// leaves hold pods, which join by the label fairslice.io/sub-group.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.parent) || s.parent.size() == 0 || s.parent in self.map(p, p.name))",message="each sub-group's parent must be the name of another sub-group of this pod group"
	// +kubebuilder:validation:XValidation:rule="[self.filter(s, !has(s.parent) || !(s.parent in self.map(p, p.name))).map(s, s.name)].all(a, [self.filter(s, has(s.parent) && s.parent in a).map(s, s.name)].all(b, [self.filter(s, has(s.parent) && s.parent in b).map(s, s.name)].all(c, [self.filter(s, has(s.parent) && s.parent in c).map(s, s.name)].all(d, a.size() + b.size() + c.size() + d.size() + self.filter(s, has(s.parent) && s.parent in d).size() == self.size()))))",message="sub-groups must form a tree of at most five levels: no sub-group may be its own parent, directly or through others"
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.minMember) || !self.exists(c, has(c.parent) && c.parent == s.name))",message="only a sub-group that holds pods may set minMember: one with sub-groups below sets minSubGroup"
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.minSubGroup) || s.minSubGroup <= self.filter(c, has(c.parent) && c.parent == s.name).size())",message="a sub-group's minSubGroup must not exceed the number of sub-groups directly below it"
	// +optional
	SubGroups []SubGroup `json:"subGroups,omitempty"`

	// Topology keeps the gang's pods close together.
	// +optional
	Topology *TopologyConstraint `json:"topology,omitempty"`

	// PreemptionDelay is how long the gang waits for free capacity before it
	// takes capacity from others, counted anew after each eviction.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration of zero or more in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m"
	// +optional
	PreemptionDelay *metav1.Duration `json:"preemptionDelay,omitempty"`

	// StaleGracePeriod is how long a running gang may be short of its minimum
	// before the rest is evicted. 60 s when unset; negative is never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="!(self in ['', '-']) && self.matches('^(0|-?([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,6})?ms)?)$')",message="must be a duration in hours, minutes, seconds and milliseconds, such as 30s, 10m or 1h30m, and negative for never"
	// +optional
	StaleGracePeriod *metav1.Duration `json:"staleGracePeriod,omitempty"`

	// OnMemberLost says what happens when a member of a gang that runs is lost
	// (evicted, failed, or its node is gone) and fewer than the minimum are left.
	// Replace: the others stay and the pod that stands in for it starts at once;
	// if none has within StaleGracePeriod, the others are evicted too. ReleaseAll:
	// the others are evicted at once, so that the gang starts whole again. Replace
	// when unset.
	// +optional
	OnMemberLost OnMemberLost `json:"onMemberLost,omitempty"`
}

// OnMemberLost is a policy of a gang.
//
// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self in ['Replace', 'ReleaseAll']",message="onMemberLost must be Replace or ReleaseAll"
// +kubebuilder:validation:MaxLength=20
type OnMemberLost string

// Policies of a gang that loses a member.
const (
	OnMemberLostReplace    OnMemberLost = "Replace"
	OnMemberLostReleaseAll OnMemberLost = "ReleaseAll"
)

// SubGroup is a part of a gang with a minimum and a topology of its own.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minMember) && has(self.minSubGroup))",message="minMember and minSubGroup exclude each other: minMember counts pods of this sub-group, minSubGroup counts sub-groups directly below it"
type SubGroup struct {
	// Name is unique within the pod group and is the value of the pods' label
	// fairslice.io/sub-group.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a sub-group's name must be a label value: letters, digits, '-', '_' and '.', at most 63 characters"
	Name string `json:"name"`

	// Parent is the name of the sub-group above. Empty at the top.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Parent string `json:"parent,omitempty"`

	// MinMember is how many pods of this sub-group must start with the gang. 1
	// when unset. 0 makes every pod an extra.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100000",message="minMember must be a whole number from 0 to 100000"
	// +optional
	MinMember *int32 `json:"minMember,omitempty"`

	// MinSubGroup is how many of the sub-groups directly below must start
	// together. All of them when unset. 0 makes each an extra.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minSubGroup must be a whole number of zero or more"
	// +optional
	MinSubGroup *int32 `json:"minSubGroup,omitempty"`

	// Topology holds within the domain that the parent was given.
	// +optional
	Topology *TopologyConstraint `json:"topology,omitempty"`
}

// TopologyConstraint asks for one domain of a Topology.
//
// +kubebuilder:validation:XValidation:rule="(has(self.required) && self.required.size() > 0) || (has(self.preferred) && self.preferred.size() > 0)",message="topology must set required, preferred or both to the node label of a level"
type TopologyConstraint struct {
	// Name of the Topology.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Required is the node label of the level within one domain of which all
	// pods must be.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Required string `json:"required,omitempty"`

	// Preferred is the node label of the level at which to try first, relaxed
	// level by level up to Required.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Preferred string `json:"preferred,omitempty"`
}

// PodGroupPhase sums a gang's state up in one word. docs/gangs.md says which
// event leads from which phase to which.
//
// +kubebuilder:validation:Enum=Pending;Waiting;Scheduling;Starting;Running;Degraded;Stale;Finished
type PodGroupPhase string

// Phases of a PodGroup.
const (
	// PodGroupPending: fewer pods exist than must start together.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupWaiting: the pods exist and wait for quota or room.
	PodGroupWaiting PodGroupPhase = "Waiting"
	// PodGroupScheduling: all that must start together have a place, not all are
	// bound to it.
	PodGroupScheduling PodGroupPhase = "Scheduling"
	// PodGroupStarting: all that must start together are bound, not all run.
	PodGroupStarting PodGroupPhase = "Starting"
	// PodGroupRunning: all that must start together run, and so does a gang whose
	// minimum was raised since.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupDegraded: the gang ran, lost a member and is below its minimum. It
	// stays for its grace period, in which the member may be replaced.
	PodGroupDegraded PodGroupPhase = "Degraded"
	// PodGroupStale: the gang is given up. What is left of it is evicted, so that
	// it starts whole again.
	PodGroupStale PodGroupPhase = "Stale"
	// PodGroupFinished: no pod is left that could run.
	PodGroupFinished PodGroupPhase = "Finished"
)

// PodGroupStatus is what the queue controller observes.
type PodGroupStatus struct {
	// ObservedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// Queue that the gang is charged to.
	// +optional
	Queue string `json:"queue,omitempty"`

	// MinMember is how many pods must start together, over all sub-groups.
	// +optional
	MinMember int32 `json:"minMember,omitempty"`

	// Members are the pods that exist and are not finished.
	// +optional
	Members int32 `json:"members"`
	// Placed are the members that have a node.
	// +optional
	Placed int32 `json:"placed"`
	// Running are the placed members that run.
	// +optional
	Running int32 `json:"running"`
	// Succeeded are the members that ended well, also those whose pods are gone.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// +optional
	Failed int32 `json:"failed"`

	// Message is one sentence: why the gang waits, with its numbers.
	// +optional
	Message string `json:"message,omitempty"`

	// SubGroups are the sub-groups that hold pods, by name.
	// +listType=map
	// +listMapKey=name
	// +optional
	SubGroups []SubGroupStatus `json:"subGroups,omitempty"`

	// Conditions of types Scheduled and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SubGroupStatus counts the members of one sub-group.
type SubGroupStatus struct {
	Name string `json:"name"`
	// MinMember as in the spec.
	// +optional
	MinMember int32 `json:"minMember"`
	// Members are the pods that exist and are not finished, Placed those that
	// have a node, Running those that run.
	// +optional
	Members int32 `json:"members"`
	// +optional
	Placed int32 `json:"placed"`
	// +optional
	Running int32 `json:"running"`
	// Succeeded are the members that ended well, also those whose pods are gone.
	// +optional
	Succeeded int32 `json:"succeeded"`
}

// PodGroupList is a list of PodGroup.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
