// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"strconv"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// Labels of a LeaderWorkerSet's pods (leaderworkerset.x-k8s.io/v1).
const (
	labelGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	labelWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	labelRevision    = "leaderworkerset.sigs.k8s.io/template-revision-hash"
)

// Names of the sub-groups.
const (
	leaderGroup  = "leader"
	workersGroup = "workers"
	segmentGroup = "segment"
)

// leaderWorkerSet pods are one gang for each replica of the set: a leader and
// its workers. A rollout replaces a replica by one of another revision, which is
// another gang.
func leaderWorkerSet(in *input) kube.Membership {
	in.refuseMinMember("spec.leaderWorkerTemplate.size says it")
	size := in.at("spec.leaderWorkerTemplate.size").count(1)
	if size < 1 {
		in.at("spec.leaderWorkerTemplate.size").wrong("1 or more")
	}
	part := in.podLabelNumber(labelGroupIndex)
	rank := in.podLabelNumber(labelWorkerIndex)
	name := strconv.Itoa(part)
	if revision := in.pod.Labels[labelRevision]; revision != "" {
		name += "-" + revision
	}
	m := kube.Membership{Group: in.group(name, size), Leader: rank == 0, Rank: &rank}
	if size < 2 {
		return m
	}
	if rank >= size {
		in.failf("spec.leaderWorkerTemplate.size is %d, must be above the pod's worker index %d", size, rank)
	}
	in.layOut(&m, size, rank)
	if in.at("spec.startupPolicy").text() == "LeaderReady" {
		// Workers are created when the leader is ready.
		for _, s := range m.Group.Spec.SubGroups {
			if s.MinMember != nil && s.Name != leaderGroup {
				m.Group.Later = append(m.Group.Later, s.Name)
			}
		}
	}
	return m
}

// layOut divides a group of size into sub-groups and puts the pod into its own.
func (in *input) layOut(m *kube.Membership, size, rank int) {
	g := m.Group
	g.Spec.MinMember = nil
	template := in.at("spec.leaderWorkerTemplate.workerTemplate").annotations()
	s := in.segmentsOf(func(key string) string {
		if v := in.upper(key); v != "" {
			return v
		}
		return in.template(template)(key)
	}, in.at("spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize").count(0), size)
	m.SubGroup = workersGroup
	if rank == 0 {
		m.SubGroup = leaderGroup
	}
	leader := v1alpha1.SubGroup{Name: leaderGroup, MinMember: new(int32(1))}
	if s == nil {
		g.Spec.SubGroups = []v1alpha1.SubGroup{leader, {Name: workersGroup, MinMember: new(int32(size - 1))}}
		return
	}
	if in.at("spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType").text() == "LeaderExcluded" {
		in.excludeLeader(m, s, leader, size, rank)
		return
	}
	in.includeLeader(m, s, leader, size, rank)
}

// excludeLeader leaves the leader outside of every segment.
func (in *input) excludeLeader(m *kube.Membership, s *segments, leader v1alpha1.SubGroup, size, rank int) {
	if (size-1)%s.size != 0 {
		in.failf("segment size is %d, must divide the %d workers, since the leader is in no segment", s.size, size-1)
	}
	m.Group.Spec.SubGroups = append([]v1alpha1.SubGroup{leader}, s.divide(segmentGroup, "", 0, size-1)...)
	if rank > 0 {
		m.SubGroup = segmentName(segmentGroup, (rank-1)/s.size)
	}
}

// includeLeader puts the leader into the first segment, which has one pod more
// than the others if that divides the workers evenly.
func (in *input) includeLeader(m *kube.Membership, s *segments, leader v1alpha1.SubGroup, size, rank int) {
	first, segment := s.size, rank/s.size
	if (size-1)%s.size == 0 {
		first, segment = s.size+1, max(rank-1, 0)/s.size
	}
	zero := segmentName(segmentGroup, 0)
	leader.Parent = zero
	m.Group.Spec.SubGroups = append([]v1alpha1.SubGroup{
		{Name: zero, Topology: s.topology},
		leader,
		{Name: workersGroup, Parent: zero, MinMember: new(int32(first - 1))},
	}, s.divide(segmentGroup, "", 1, size-first)...)
	if segment > 0 {
		m.SubGroup = segmentName(segmentGroup, segment)
	}
}

// podLabelNumber reads a number that the pod's controller wrote.
func (in *input) podLabelNumber(key string) int {
	n, err := strconv.Atoi(in.pod.Labels[key])
	if err != nil || n < 0 {
		in.failf("the pod's label %s is %q, must be a whole number of zero or more", key, in.pod.Labels[key])
		return 0
	}
	return n
}
