// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Command bed-tools builds the programs of the test bed, or some of them, into
// the cache and prints the folder that holds them. It does nothing when they
// are there.
//
//	go run ./test/bed/cmd/bed-tools                  # all
//	go run ./test/bed/cmd/bed-tools controller-gen   # one
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: bed-tools [program …]\n\nBuilds programs of the test bed into the cache and prints their folder.\nPrograms: %s (default: all).\n", strings.Join(binaries.All(), ", "))
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	names := flag.Args()
	if len(names) == 0 {
		names = binaries.All()
	}
	dir, err := binaries.Ensure(ctx, os.Stderr, names...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bed-tools:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
