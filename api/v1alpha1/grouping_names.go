// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// What users may write on the owner of pods (a Job, a JobSet, a PyTorchJob …),
// on its pod template or on a pod, instead of a PodGroup. Each is read as an
// annotation first and as a label second; that of the outermost owner wins.
const (
	// AnnotationMinMember makes a gang of the owner's pods: how many must start
	// together. On a JobSet it counts replicated jobs, on the template of a
	// replicated job the pods of each of its Jobs.
	AnnotationMinMember = Group + "/min-member"
	// AnnotationTopology names the Topology that the two levels below are of.
	AnnotationTopology = Group + "/topology"
	// AnnotationTopologyRequired is the node label of the level within one
	// domain of which all pods must be.
	AnnotationTopologyRequired = Group + "/topology-required"
	// AnnotationTopologyPreferred is the node label of the level at which to
	// try first.
	AnnotationTopologyPreferred = Group + "/topology-preferred"
	// AnnotationSegmentSize puts every so many consecutive ranks close
	// together, as the two annotations below say.
	AnnotationSegmentSize = Group + "/segment-size"
	// AnnotationSegmentTopologyRequired and AnnotationSegmentTopologyPreferred
	// are levels of AnnotationTopology, for each segment.
	AnnotationSegmentTopologyRequired  = Group + "/segment-topology-required"
	AnnotationSegmentTopologyPreferred = Group + "/segment-topology-preferred"
	// AnnotationOnMemberLost, AnnotationStaleGracePeriod and
	// AnnotationPreemptionDelay are the fields of a PodGroup of that name.
	AnnotationOnMemberLost     = Group + "/on-member-lost"
	AnnotationStaleGracePeriod = Group + "/stale-grace-period"
	AnnotationPreemptionDelay  = Group + "/preemption-delay"
	// LabelPriorityClass names the gang's PriorityClass.
	LabelPriorityClass = Group + "/priority-class"
)

// AnnotationGang on a PodGroup that Fairslice made names the derived gang that
// it shows. Nobody joins such a PodGroup, and what is changed in its spec is put
// back: the gang's owner says what it is.
const AnnotationGang = Group + "/gang"

// Annotations of pods that were written for another scheduler and are read for
// as long as clusters migrate: everything below MigrationPrefix, and the name of
// the pod's group.
const (
	MigrationPrefix   = "kai.scheduler/"
	MigrationPodGroup = "pod-group-name"
)
