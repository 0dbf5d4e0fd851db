// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package pack chooses the node and the GPUs of a task so that as much GPU
// capacity as possible stays usable for what is expected to come, and replays
// traces of production clusters to measure how well that works.
//
// A Policy values what a node has left; a task goes where the value drops
// least. Three are here: best fit; fragmentation gradient descent (FGD, from
// the idea of "Beware of Fragmentation", USENIX ATC 2023); and our own,
// expected fill, which asks of each node how much of its GPUs would be left
// over if expected tasks kept coming until none fits, and prices GPUs of models
// that constrained tasks depend on.
//
// All that a policy knows is the mix of task classes: as expected (given, which
// is also what FGD is given) or as seen so far. It never sees the order of
// arrivals, never looks ahead, never declines a task that fits, and moves
// running tasks only where the caller asks for it; every move is counted.
//
// Units: thousandths of a core, MiB, thousandths of a GPU. Scores are integers
// in 1/2²⁰ of a thousandth of a GPU. Randomness is a documented generator
// (Random) with a seed: equal inputs give equal results. Standard library only.
package pack
