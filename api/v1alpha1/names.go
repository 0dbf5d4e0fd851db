// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Group is the API group of every Fairslice object and the prefix of every
// label, annotation, gate and resource that users or components write.
const Group = "fairslice.io"

// Resources that a container may ask for, each an extended resource of whole
// units.
const (
	// ResourceWholeGPU asks for whole GPUs, one unit each. The name is
	// configurable; this is the default.
	ResourceWholeGPU = "nvidia.com/gpu"
	// ResourceGPUSlice asks for hundredths of one GPU: its memory (hard) and
	// its compute (share). Above 100 it must be a multiple of 100, unless
	// AnnotationGPUCount spreads it.
	ResourceGPUSlice = Group + "/gpu-slice"
	// ResourceGPUMemory asks for GiB of one GPU, whatever its model.
	ResourceGPUMemory = Group + "/gpu-memory"
	// ResourceQueued is the marker that the admission policy adds to a queued
	// pod's first container, so that the extender's interest is exactly the
	// queued pods: kube-scheduler looks for the name alone. The amount is "0".
	// A larger one that no node has would keep kube-scheduler from waking the
	// pod when a node changes, even where it ignores the resource: the hint of
	// its plugin NodeResourcesFit does not know what is ignored (1.37).
	ResourceQueued = Group + "/queued"
)

// Labels that users set.
const (
	// LabelQueue names the queue of a pod; on a namespace, the default queue
	// of its pods. The key is configurable; this is the default.
	LabelQueue = Group + "/queue"
	// LabelPodGroup names the PodGroup (of the pod's namespace) that a pod
	// belongs to.
	LabelPodGroup = Group + "/pod-group"
	// LabelSubGroup names the sub-group of the PodGroup that a pod belongs to.
	LabelSubGroup = Group + "/sub-group"
	// LabelPreemptible is "true" or "false" and overrides what the pod's
	// priority says about being a victim.
	LabelPreemptible = Group + "/preemptible"
)

// GateQueue is the scheduling gate that holds a pod until the plan places it.
const GateQueue = Group + "/queue"

// Annotations on pods.
const (
	// AnnotationGPUCount spreads each container's slice or memory request
	// evenly over that many GPUs of one node: "2" with gpu-slice: 50 takes 25
	// of two GPUs.
	AnnotationGPUCount = Group + "/gpu-count"
	// AnnotationGPUAssignment holds an Assignment in JSON. Only the control
	// plane and the device plugin write it.
	AnnotationGPUAssignment = Group + "/gpu-assignment"
	// AnnotationNodePlacement is "pack" (default) or "spread": how nodes are
	// chosen for this pod.
	AnnotationNodePlacement = Group + "/node-placement"
	// AnnotationGPUPlacement is "pack" (default) or "spread": how GPUs of a
	// node are chosen for this pod.
	AnnotationGPUPlacement = Group + "/gpu-placement"
	// AnnotationMinIsolation is the weakest isolation level (see
	// LabelGPUIsolation) that the pod accepts.
	AnnotationMinIsolation = Group + "/min-gpu-isolation"
	// AnnotationGPUProcesses declares how many processes use a GPU in each of the
	// pod's containers, by default 1. MPS limits each process, so a container's
	// share is divided by it; the other isolation levels do not need it.
	AnnotationGPUProcesses = Group + "/gpu-processes"
)

// AnnotationCordonedGPUs on a node lists GPUs, by UUID or driver's index and
// separated by commas, that take no new containers. People write it, the device
// plugin obeys.
const AnnotationCordonedGPUs = Group + "/cordoned-gpus"

// Labels and annotations that the device plugin writes on its node.
const (
	// AnnotationGPUs holds the node's Inventory in JSON.
	AnnotationGPUs = Group + "/gpus"
	// AnnotationGPURoom changes whenever room on the node's GPUs grows, so that
	// kube-scheduler retries pods that the extender refused. Its value means
	// nothing.
	AnnotationGPURoom = Group + "/gpu-room"
	// LabelGPUModel is the model of the node's GPUs as a label value, for
	// example "NVIDIA-A100-SXM4-40GB"; "mixed" when they differ.
	LabelGPUModel = Group + "/gpu.model"
	// LabelGPUCount is the number of physical GPUs that the plugin serves.
	LabelGPUCount = Group + "/gpu.count"
	// LabelGPUMemory is the usable memory of the smallest GPU or MIG instance, in
	// MiB.
	LabelGPUMemory = Group + "/gpu.memory"
	// LabelGPUIsolation is the strongest isolation level that the node offers:
	// mig, cgroup, mps, intercept, watch or none. The same key is an annotation.
	LabelGPUIsolation = Group + "/gpu-isolation"
)

// DefaultQueue is the queue of pods that ask for GPU and name no queue, if a
// Queue of that name exists.
const DefaultQueue = "default"
