// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// envNode tells the holder of a node's namespaces the node's folder.
const envNode = "FAIRSLICE_BED_NODE"

// sysctls that the kubelet sets for the whole machine. Inside the node, files
// of the test bed that hold these values lie over them: the kubelet finds what
// it wants and the machine keeps what it has.
var sysctls = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// holdNode is the first process of a node's new mount and process-ID
// namespaces: it arranges the mounts, then adopts and buries orphans until it is
// killed, and all of the node with it.
func holdNode(folder string) error {
	if folder == "" || os.Getpid() != 1 {
		return fmt.Errorf("variable %s is %q in process %d, must name the node's folder in process 1 of a new namespace", envNode, folder, os.Getpid())
	}
	// Nothing mounted from here on reaches the machine …
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("make the node's mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount the node's /proc: %w", err)
	}
	if err := bindFolders(folder); err != nil {
		return err
	}
	if err := coverSysctls(filepath.Join(folder, "sysctl")); err != nil {
		return err
	}
	// … and mounts of containers reach the kubelet and the reverse, as on a
	// node that systemd has booted.
	if err := syscall.Mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts within the node: %w", err)
	}
	children := make(chan os.Signal, 16)
	signal.Notify(children, syscall.SIGCHLD)
	if err := os.WriteFile(filepath.Join(folder, "ready"), nil, 0o644); err != nil {
		return err
	}
	for range children {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	return nil
}

// bindFolders lays the node's folders over the kubelet's and containerd's usual
// paths. A path that the machine lacks is made, empty, and stays: removing it
// would end the mount in another cluster's node.
func bindFolders(folder string) error {
	for name, target := range nodeFolders {
		if target == "" {
			continue
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(filepath.Join(folder, name), target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount the node's %s: %w", target, err)
		}
	}
	return nil
}

func coverSysctls(folder string) error {
	for name, value := range sysctls {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
			continue
		}
		file := filepath.Join(folder, filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}
