// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of components lie below those that Linux gives to outgoing connections
// (32768 and up): a component that was killed finds its port free again.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMu  sync.Mutex
	portsOut = map[int]bool{}
)

// freePort returns a loopback TCP port that nobody listens on and that this
// program has not given out before.
func freePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portsOut[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		portsOut[port] = true
		return port, nil
	}
	return 0, errors.New("no free port between 20000 and 32000")
}
