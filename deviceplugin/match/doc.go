// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package match answers the question that the kubelet's Allocate leaves open:
// for which container of which pod are these devices?
//
// The call names device IDs only. What is known beside it:
//
//   - Needs: containers of pods bound to this node that ask for one of our
//     resources. The control plane wrote on the pod, in the same request as the
//     binding, which GPUs it planned (annotation fairslice.io/gpu-assignment).
//   - Records: what the kubelet says that each container holds (its checkpoint
//     file and its PodResources API). They are the truth, and they are complete
//     for all earlier calls, because the kubelet makes them one after another.
//
// A Book holds both, and the account of the cards (package pool). Its rules:
//
//   - B1: the GPU that a container gets is that of its device IDs, always.
//   - B2: devices go to a need of the same resource and number. Among several,
//     one whose plan names exactly these GPUs, first of the pod that the kubelet
//     is busy with, then the one bound longest, and containers whose turn it is
//     in their pod before the others. Needs of the same shape are
//     interchangeable: if the guess was wrong, only their annotations change
//     (Corrections).
//   - B3: slices and GiB are never given without a plan (unless AllowUnplanned),
//     and never over more GPUs than planned. Whole GPUs and MIG instances are,
//     where no plan waits for them: the IDs alone say which it is.
//   - B4: devices off the plan are given only where that breaks no other plan.
//   - B5: devices are free when their pod is gone or terminal, when the kubelet
//     gives them to another, or when its records no longer name them; but a
//     checkpoint that is silent about a living pod frees nothing of what is
//     confirmed: it may be older than that. Nor does a deletion timestamp.
//   - B6: devices of a plain init container may be given again to later
//     containers of the same pod, as the kubelet does; they are counted once.
//
// Refusals are values with one sentence for the pod's status. Nothing here
// blocks, reads a clock or talks to anyone; Book is safe for concurrent use.
package match
