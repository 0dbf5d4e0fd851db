// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/kube"
)

// ownerRules are the kinds that are known, whatever their version.
var ownerRules = map[schema.GroupKind]rule{
	{Group: "apps", Kind: "Deployment"}:  {class: inference, derive: deployment},
	{Group: "apps", Kind: "ReplicaSet"}:  {class: train, derive: (*input).together},
	{Group: "apps", Kind: "StatefulSet"}: {spec: true, class: train, derive: statefulSet},
	{Group: "apps", Kind: "DaemonSet"}:   {derive: daemonSet},
	{Group: "batch", Kind: "Job"}:        {spec: true, class: train, derive: job},
	{Group: "batch", Kind: "CronJob"}:    {skip: true},

	{Group: "jobset.x-k8s.io", Kind: "JobSet"}:                     {spec: true, class: train, derive: jobSet},
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:   {spec: true, class: train, derive: leaderWorkerSet},
	{Group: "trainer.kubeflow.org", Kind: "TrainJob"}:              {skip: true},
	{Group: "kubeflow.org", Kind: "PyTorchJob"}:                    {spec: true, class: train, derive: pyTorchJob},
	{Group: "kubeflow.org", Kind: "MPIJob"}:                        {spec: true, class: train, derive: mpiJob},
	{Group: "kubeflow.org", Kind: "TFJob"}:                         {spec: true, class: train, derive: replicaJob("tfReplicaSpecs")},
	{Group: "kubeflow.org", Kind: "XGBoostJob"}:                    {spec: true, class: train, derive: replicaJob("xgbReplicaSpecs", "Master", "Worker")},
	{Group: "kubeflow.org", Kind: "JAXJob"}:                        {spec: true, class: train, derive: replicaJob("jaxReplicaSpecs", "Worker")},
	{Group: "kubeflow.org", Kind: "Notebook"}:                      {class: build, derive: (*input).together},
	{Group: "ray.io", Kind: "RayCluster"}:                          {spec: true, class: train, derive: rayCluster},
	{Group: "ray.io", Kind: "RayJob"}:                              {skip: true, class: train},
	{Group: "ray.io", Kind: "RayService"}:                          {skip: true, class: train},
	{Group: "argoproj.io", Kind: "Workflow"}:                       {skip: true, class: train, derive: workflowPod},
	{Group: "argoproj.io", Kind: "CronWorkflow"}:                   {skip: true, class: train, derive: workflowPod},
	{Group: "serving.knative.dev", Kind: "Revision"}:               {class: inference, derive: revision},
	{Group: "serving.knative.dev", Kind: "Configuration"}:          {skip: true, class: inference},
	{Group: "serving.knative.dev", Kind: "Service"}:                {skip: true, class: inference},
	{Group: "machinelearning.seldon.io", Kind: "SeldonDeployment"}: {class: train, derive: (*input).together},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}:         {class: train, derive: virtualMachine},
	{Group: "kubevirt.io", Kind: "VirtualMachine"}:                 {skip: true, class: train},
	{Group: "grove.io", Kind: "PodCliqueSet"}:                      {skip: true, class: train},
	{Group: "grove.io", Kind: "PodGangSet"}:                        {skip: true, class: train},
	{Group: "grove.io", Kind: "PodCliqueScalingGroup"}:             {skip: true, class: train},
	{Group: "grove.io", Kind: "PodClique"}:                         {skip: true, class: train},
	{Group: "nvidia.com", Kind: "DynamoGraphDeployment"}:           {skip: true, class: inference},
	{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}:      {skip: true, class: train},
}

// Rules of pods that no known kind owns.
var (
	unknownRule = rule{}
	bareRule    = rule{derive: bare}
	sparkRule   = rule{class: train, derive: spark}
)

// bare pods have nobody around them to say more.
func bare(in *input) kube.Membership {
	if in.minMember() > 0 {
		in.refuseMinMember("the pod has no owner that can be read; create a PodGroup and name it by the label fairslice.io/pod-group")
	}
	return in.single()
}

// daemonSet pods belong to their nodes: each is alone, whatever is written
// around it.
func daemonSet(*input) kube.Membership { return kube.Membership{} }

// deployment pods are alone. With min-member those of one ReplicaSet are a
// gang: during a rollout the old and the new ones must not count for each other.
func deployment(in *input) kube.Membership {
	if in.minMember() == 0 {
		return in.alone()
	}
	generation := ""
	if len(in.below) > 0 {
		generation = in.below[len(in.below)-1].GetName()
	}
	return kube.Membership{Group: in.group(generation, in.minMember())}
}

// statefulSet pods are one gang of at least one.
func statefulSet(in *input) kube.Membership {
	policy := in.at("spec.podManagementPolicy")
	if n := in.minMember(); n > 1 && policy.text() != "Parallel" {
		policy.wrong("Parallel, since a pod that is created after another one runs cannot start together with it")
	}
	return in.together()
}

// job pods are alone unless somebody says how many must start together: a Job's
// parallelism alone is no gang.
func job(in *input) kube.Membership {
	m := in.alone()
	parallel := in.at("spec.parallelism")
	if n := in.minMember(); n > parallel.capped(1) {
		parallel.wrong("at least the min-member, which is " + shown(n))
	}
	once := in.at("spec.backoffLimit").capped(6) == 0 || in.at("spec.backoffLimitPerIndex").capped(1) == 0
	m.NotRecreated = once && !in.ignoresDisruption()
	return m
}

// ignoresDisruption is true for a Job that makes a new pod for an evicted one
// without counting it as a failure.
func (in *input) ignoresDisruption() bool {
	for _, rule := range in.at("spec.podFailurePolicy.rules").list() {
		if rule.get("action").text() != "Ignore" {
			continue
		}
		for _, condition := range rule.get("onPodConditions").list() {
			if condition.get("type").text() == string(corev1.DisruptionTarget) {
				return true
			}
		}
	}
	return false
}

// workflowPod is a stage of a workflow: each starts on its own, and only the
// workflow knows whether it is tried again.
func workflowPod(in *input) kube.Membership {
	m := in.alone()
	m.NotRecreated = true
	return m
}

// revision pods are one gang of the scale that Knative keeps at least.
func revision(in *input) kube.Membership {
	minimum := in.minMember()
	for _, key := range []string{"autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale"} {
		if text := in.upper(key); text != "" && minimum == 0 {
			minimum = in.parseCount(key, text, 0)
		}
	}
	return kube.Membership{Group: in.group("", max(minimum, 1))}
}

// virtualMachine is one pod; an instance without a VirtualMachine above it is
// not made again.
func virtualMachine(in *input) kube.Membership {
	m := in.together()
	m.NotRecreated = len(in.above) == 0
	return m
}

const (
	labelSparkApp      = "spark-app-name"
	labelSparkSelector = "spark-app-selector"
	labelSparkRole     = "spark-role"
)

func isSpark(pod *corev1.Pod) bool {
	return pod.Labels[labelSparkApp] != "" && pod.Labels[labelSparkSelector] != ""
}

// spark pods of one application are one gang of at least one: the driver asks
// for its executors when it runs.
func spark(in *input) kube.Membership {
	g := in.inherited()
	in.policies(&g.Spec)
	g.Owner = in.reference()
	g.Key = in.pod.Namespace + "/spark/" + in.pod.Labels[labelSparkSelector]
	g.Spec.MinMember = new(int32(max(in.minMember(), 1)))
	g.Spec.Topology = in.constraint(in.any, topologyKeys, "")
	driver := in.pod.Labels[labelSparkRole] == "driver"
	return kube.Membership{Group: g, Leader: driver, NotRecreated: driver}
}
