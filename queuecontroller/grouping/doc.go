// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package grouping finds the gang of a pod whose user wrote no PodGroup: from
// the objects that own the pod, or from a group object of another project that
// the pod names.
//
// It has two halves. Rules.Membership is pure: a pod and the objects around it
// go in, a kube.Membership comes out, always the same. Resolver reads those
// objects with one watch for each kind that is seen, and tells the ledger when
// what is known of a pod changes.
//
// It never writes, never blocks the pod watch, and never decides where a pod
// runs. A PodGroup of ours, named by the label fairslice.io/pod-group, always
// wins over what is derived here; a kind without a rule makes single pods.
//
// Units: pods for every minimum, ranks counted from 0.
//
// Invariants:
//   - a pod with a controller is not placed alone while its owners are unread,
//     for a bounded time
//   - two owners of one name, one after the other, are two gangs
//   - what is wrong with an owner is one sentence on its pods and touches nobody
//     else's
package grouping
