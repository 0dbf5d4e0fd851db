// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// segments puts every size consecutive ranks of a gang close together.
type segments struct {
	size     int
	topology *v1alpha1.TopologyConstraint
}

// segmentsOf reads what a worker template or the pod itself asks for; nil for
// nothing, or if there is no level that would keep a segment together. size
// overrides the annotation unless it is 0; of is the number of ranks.
func (in *input) segmentsOf(template lookup, size, of int) *segments {
	text := template(v1alpha1.AnnotationSegmentSize)
	switch {
	case size == 0 && text == "":
		return nil
	case size == 0:
		size = in.parseCount(v1alpha1.AnnotationSegmentSize, text, 2)
	}
	if size < 2 || size > of {
		in.failf("segment size is %d, must be from 2 to the %d pods that it divides", size, of)
		return nil
	}
	topology := in.constraint(template, segmentKeys, in.upper(v1alpha1.AnnotationTopology))
	if topology == nil {
		return nil
	}
	return &segments{size, topology}
}

func segmentName(parent string, i int) string { return fmt.Sprintf("%s-%d", parent, i) }

// divide makes a sub-group for each segment of members, counted from first.
func (s *segments) divide(name, parent string, first, members int) (out []v1alpha1.SubGroup) {
	for i, n := range spreadOver(members, s.size) {
		out = append(out, v1alpha1.SubGroup{
			Name: segmentName(name, first+i), Parent: parent, MinMember: new(int32(n)), Topology: s.topology,
		})
	}
	return out
}
