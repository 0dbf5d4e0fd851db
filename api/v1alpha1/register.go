// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is the API version of the kinds in this package.
const Version = "v1alpha1"

var (
	// GroupVersion is fairslice.io/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

	// QueueResource names queues in URLs and RBAC rules.
	QueueResource = GroupVersion.WithResource("queues")
	// PodGroupResource names podgroups in URLs and RBAC rules.
	PodGroupResource = GroupVersion.WithResource("podgroups")
	// TopologyResource names topologies in URLs and RBAC rules.
	TopologyResource = GroupVersion.WithResource("topologies")

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Queue{}, &QueueList{},
		&PodGroup{}, &PodGroupList{},
		&Topology{}, &TopologyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
