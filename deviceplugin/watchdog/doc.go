// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package watchdog decides when a container that uses more memory of a GPU than it
// was given has done so for long enough, and who ends. It is the last layer: it
// sees static binaries and raw ioctls, which an interceptor does not, but only
// after the memory is taken.
//
// One Watchdog per card, fed with one look at all its containers at each poll:
//
//   - W1: a container is over where its known use exceeds its limit and an allowance
//     for each of its processes: the driver counts contexts, the limit does not.
//   - W2: what is unknown is never held against anyone. Known use alone may be.
//   - W3: nothing happens before Polls looks in a row; one look within the limit
//     begins anew. A look that failed is no look.
//   - W4: peaks in the Grace after the first look at a container do not count. A
//     restarted container is a new one.
//   - W5: then a verdict, once; and again after Polls more looks over the limit.
//     Killing takes the largest process first, evicting the pod.
//
// The package has no clock, no goroutine, no lock, and kills nothing itself. Units
// are bytes.
package watchdog
