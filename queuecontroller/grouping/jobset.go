// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"strconv"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// Labels of a JobSet's pods (jobset.x-k8s.io/v1alpha2).
const (
	labelReplicatedJob = "jobset.sigs.k8s.io/replicatedjob-name"
	labelJobIndex      = "jobset.sigs.k8s.io/job-index"
	labelPodIndex      = "batch.kubernetes.io/job-completion-index"
	labelAttempt       = "jobset.sigs.k8s.io/restart-attempt"
)

// jobSet pods are one gang with a sub-group for each replicated job. Where the
// Jobs of a replicated job differ from a bigger one, by a topology or a minimum
// of their own, each has a sub-group below it. A JobSet that starts anew is
// another gang: pods of the attempt before do not count for it.
func jobSet(in *input) kube.Membership {
	attempt := in.pod.Labels[labelAttempt]
	if attempt == "0" {
		attempt = ""
	}
	g := in.group(attempt, 1)
	g.Spec.MinMember = nil
	jobs := in.at("spec.replicatedJobs").list()
	if len(jobs) == 0 {
		in.failf("spec.replicatedJobs is empty, must have an entry")
	}
	ours := in.pod.Labels[labelReplicatedJob]
	m := kube.Membership{Group: g, Leader: in.coordinates()}
	dependent := in.at("spec.startupPolicy.startupPolicyOrder").text() == "InOrder"
	for _, j := range jobs {
		name := j.get("name").text()
		subGroups, single := in.replicatedJob(j, name)
		g.Spec.SubGroups = append(g.Spec.SubGroups, subGroups...)
		dependent = dependent || len(j.get("dependsOn").list()) > 0
		if name == ours {
			m.SubGroup = name
			if !single {
				m.SubGroup = replicaOf(name, in.pod.Labels[labelJobIndex])
			}
		}
	}
	if m.SubGroup == "" {
		in.failf("spec.replicatedJobs has no entry %q, must have the one that the pod's label %s names", ours, labelReplicatedJob)
	}
	// Jobs that are created when others are ready cannot start together with
	// them: each starts whole when it is its turn.
	required := len(jobs)
	if dependent {
		required = 1
	}
	if text := in.upper(v1alpha1.AnnotationMinMember); text != "" {
		required = min(in.parseCount(v1alpha1.AnnotationMinMember, text, 1), len(jobs))
	}
	if required < len(jobs) {
		g.Spec.MinSubGroup = new(int32(required))
	}
	return m
}

func replicaOf(name, index string) string { return name + "-replica-" + index }

// replicatedJob makes the sub-groups of one; single if it is one for all its
// Jobs.
func (in *input) replicatedJob(j field, name string) (subGroups []v1alpha1.SubGroup, single bool) {
	replicas := j.get("replicas").count(1)
	spec := j.get("template").get("spec")
	pods := spec.get("parallelism").count(1)
	pods = min(pods, spec.get("completions").capped(pods))
	annotations := j.get("template").annotations()
	from := fixed(annotations)
	all, least := j.get("replicas").times(pods), pods
	if text := from(v1alpha1.AnnotationMinMember); text != "" {
		if least = in.parseCount(v1alpha1.AnnotationMinMember, text, 1); least > pods {
			in.failf("annotation %s of %s is %d, must be at most the %d pods of one of its Jobs", v1alpha1.AnnotationMinMember, j.path, least, pods)
		}
	}
	topology := in.constraint(from, topologyKeys, in.upper(v1alpha1.AnnotationTopology))
	if replicas == 0 || least == pods && (topology == nil || replicas == 1) {
		return []v1alpha1.SubGroup{{Name: name, MinMember: new(int32(all)), Topology: topology}}, true
	}
	subGroups = append(subGroups, v1alpha1.SubGroup{Name: name})
	for i := range replicas {
		subGroups = append(subGroups, v1alpha1.SubGroup{
			Name: replicaOf(name, strconv.Itoa(i)), Parent: name, MinMember: new(int32(least)), Topology: topology,
		})
	}
	return subGroups, false
}

// coordinates is true for the pod that the JobSet names as its coordinator.
func (in *input) coordinates() bool {
	c := in.at("spec.coordinator")
	return c.exists() && c.get("replicatedJob").text() == in.pod.Labels[labelReplicatedJob] &&
		strconv.Itoa(c.get("jobIndex").count(0)) == in.pod.Labels[labelJobIndex] &&
		strconv.Itoa(c.get("podIndex").count(0)) == in.pod.Labels[labelPodIndex]
}
