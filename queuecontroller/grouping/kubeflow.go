// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// Labels of the pods of Kubeflow's training jobs (kubeflow.org/v1; the job role
// also in MPIJob v2beta1).
const (
	labelReplicaType  = "training.kubeflow.org/replica-type"
	labelReplicaIndex = "training.kubeflow.org/replica-index"
	labelJobRole      = "training.kubeflow.org/job-role"
)

// leaders are the replica types and job roles that the others wait for.
var leaders = []string{"master", "chief", "launcher", "coordinator"}

// replicas are the types of a training job with their numbers.
type replicas struct {
	specs field
	of    map[string]int // by lower-case type
	sum   int
}

// replicasOf reads spec.<name>; the demanded types must have a pod.
func (in *input) replicasOf(name string, demanded ...string) replicas {
	r := replicas{specs: in.at("spec." + name), of: map[string]int{}}
	for _, kind := range r.specs.names() {
		n := r.specs.get(kind).get("replicas").count(1)
		r.of[strings.ToLower(kind)] += n
		r.sum += n
	}
	for _, kind := range demanded {
		if r.of[strings.ToLower(kind)] == 0 {
			f := r.specs.get(kind)
			if f.exists() {
				f = f.get("replicas")
			}
			f.wrong("1 or more replicas")
		}
	}
	if r.sum == 0 {
		r.specs.wrong("at least one type with replicas")
	}
	return r
}

// template reads the pod template's annotations of a type.
func (r replicas) template(kind string) map[string]string {
	return r.specs.get(kind).get("template").annotations()
}

// leastOf is how many pods must start together: what somebody asks for by
// annotation, else schedulingPolicy.minAvailable, else otherwise.
func (in *input) leastOf(r replicas, otherwise int) int {
	f := in.at("spec.runPolicy.schedulingPolicy.minAvailable")
	least := cmp.Or(in.minMember(), f.count(0), otherwise)
	if least > r.sum {
		in.failf("%d pods must start together and the job has %d, must be at most that many", least, r.sum)
	}
	return least
}

// trainingGang starts the gang of a training job and the membership of its pod.
func (in *input) trainingGang(least int) kube.Membership {
	g := in.group("", least)
	if class := in.at("spec.runPolicy.schedulingPolicy.priorityClass").text(); class != "" && g.Spec.PriorityClassName == "" {
		g.Spec.PriorityClassName = class
	}
	m := kube.Membership{Group: g, Leader: slices.Contains(leaders, in.role())}
	if n, err := strconv.Atoi(in.pod.Labels[labelReplicaIndex]); err == nil && n >= 0 {
		m.Rank = &n
	}
	return m
}

// role of the pod in its job, in lower case.
func (in *input) role() string {
	return strings.ToLower(cmp.Or(in.pod.Labels[labelReplicaType], in.pod.Labels[labelJobRole]))
}

// replicaJob pods are one gang of all that the job has.
func replicaJob(specs string, demanded ...string) func(*input) kube.Membership {
	return func(in *input) kube.Membership {
		r := in.replicasOf(specs, demanded...)
		return in.trainingGang(in.leastOf(r, r.sum))
	}
}

// pyTorchJob pods are one gang with the sub-groups master and worker; an elastic
// job starts with its minReplicas.
func pyTorchJob(in *input) kube.Membership {
	r := in.replicasOf("pytorchReplicaSpecs")
	least := in.leastOf(r, cmp.Or(in.at("spec.elasticPolicy.minReplicas").count(0), r.sum))
	m := in.trainingGang(least)
	g := m.Group
	g.Spec.MinMember = nil
	masters, workers := r.of["master"], r.of["worker"]
	if masters > 0 {
		g.Spec.SubGroups = append(g.Spec.SubGroups, v1alpha1.SubGroup{Name: "master", MinMember: new(int32(min(masters, least)))})
	}
	if workers > 0 {
		g.Spec.SubGroups = append(g.Spec.SubGroups, v1alpha1.SubGroup{Name: "worker", MinMember: new(int32(max(least-masters, 0)))})
	}
	if m.SubGroup = in.role(); m.SubGroup != "master" && m.SubGroup != "worker" || r.of[m.SubGroup] == 0 {
		in.failf("spec.pytorchReplicaSpecs has no type %q, must have the one that the pod's label %s names", m.SubGroup, labelReplicaType)
	}
	if s := in.segmentsOf(in.template(r.template("Worker")), 0, workers); s != nil && workers > 0 {
		in.segmentWorkers(&m, s, workers, max(least-masters, 0))
	}
	return m
}

// segmentWorkers divides the workers by rank. An elastic job needs as many full
// segments as hold its minimum.
func (in *input) segmentWorkers(m *kube.Membership, s *segments, workers, least int) {
	at := slices.IndexFunc(m.Group.Spec.SubGroups, func(g v1alpha1.SubGroup) bool { return g.Name == "worker" })
	parent := &m.Group.Spec.SubGroups[at]
	parent.MinMember = nil
	parts := s.divide("worker", "worker", 0, workers)
	if need := (least + s.size - 1) / s.size; need < len(parts) {
		parent.MinSubGroup = new(int32(need))
	}
	m.Group.Spec.SubGroups = append(m.Group.Spec.SubGroups, parts...)
	if m.SubGroup != "worker" {
		return
	}
	rank := in.podLabelNumber(labelReplicaIndex)
	if rank >= workers {
		in.failf("spec.pytorchReplicaSpecs.Worker.replicas is %d, must be above the pod's replica index %d", workers, rank)
	}
	m.SubGroup = segmentName("worker", rank/s.size)
}

// mpiJob pods are one gang with the sub-groups launcher and worker.
func mpiJob(in *input) kube.Membership {
	r := in.replicasOf("mpiReplicaSpecs", "Launcher", "Worker")
	least := in.leastOf(r, r.sum)
	m := in.trainingGang(least)
	m.Group.Spec.MinMember = nil
	launchers := min(r.of["launcher"], least)
	m.Group.Spec.SubGroups = []v1alpha1.SubGroup{
		{Name: "launcher", MinMember: new(int32(launchers))},
		{Name: "worker", MinMember: new(int32(least - launchers))},
	}
	if in.at("spec.launcherCreationPolicy").text() == "WaitForWorkersReady" {
		m.Group.Later = []string{"launcher"}
	}
	m.SubGroup = in.role()
	if m.SubGroup != "launcher" && m.SubGroup != "worker" {
		in.failf("the pod's label %s is %q, must be launcher or worker", labelReplicaType, m.SubGroup)
	}
	return m
}
