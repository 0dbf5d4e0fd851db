// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Topology names the node labels that say how close nodes are to each other.
// A node belongs to it when it carries the label of every level.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fstopo,categories=fairslice
// +kubebuilder:printcolumn:name="Coarsest",type=string,JSONPath=`.spec.levels[0].nodeLabel`
// +kubebuilder:printcolumn:name="Finest",type=string,JSONPath=`.spec.levels[-1:].nodeLabel`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Topology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TopologySpec `json:"spec"`
}

// TopologySpec cannot change: running gangs were placed by it.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a topology cannot change: create another one and name it in new workloads"
type TopologySpec struct {
	// Levels from coarse to fine, for example zone, block, rack, host.
	// +listType=map
	// +listMapKey=nodeLabel
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(l, l.nodeLabel == 'kubernetes.io/hostname') || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",message="kubernetes.io/hostname must be the last level, because no domain is smaller than a node"
	Levels []TopologyLevel `json:"levels"`
}

// TopologyLevel is one step of closeness.
type TopologyLevel struct {
	// NodeLabel is the key of the label whose value is the node's domain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="nodeLabel must be the key of a node label, such as topology.kubernetes.io/zone"
	NodeLabel string `json:"nodeLabel"`
}

// TopologyList is a list of Topology.
//
// +kubebuilder:object:root=true
type TopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topology `json:"items"`
}
