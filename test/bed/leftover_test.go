// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/bed"
)

// TestMain lets the test binary play the program that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("BED_TEST_VICTIM") != "" {
		victim()
	}
	os.Exit(m.Run())
}

// victim starts a cluster, says where, and waits to be killed.
func victim() {
	ctx := context.Background()
	node := os.Getenv("BED_TEST_VICTIM") == "node"
	cluster, err := bed.Start(ctx, bed.Options{NoControllerManager: !node})
	if err == nil && node {
		_, err = cluster.StartKubelet(ctx, bed.KubeletOptions{})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cluster.Folder())
	select {}
}

func TestNothingOutlivesAKilledProgram(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			folder, processes := killVictim(t, "control plane", sig)
			if len(processes) < 2 {
				t.Errorf("cluster in %s had processes %v, want etcd and kube-apiserver among them", folder, processes)
			}
		})
	}
}

// killVictim runs the victim, sends it the signal once its cluster is up, and
// checks that nothing is left. It returns the cluster's folder and the processes
// that it had.
func killVictim(t *testing.T, part string, sig syscall.Signal) (string, []string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "BED_TEST_VICTIM="+part)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	folder := lines.Text()
	if _, err := os.Stat(folder); err != nil || folder == "" {
		t.Fatalf("the program says %q, want the cluster's folder", folder)
	}
	processes := marked(folder)
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it ends by the signal, which is an error here
	eventually(t, 20*time.Second, func(context.Context) error {
		_, err := os.Stat(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil:
			return fmt.Errorf("folder %s is still there", folder)
		}
		return err
	})
	nothingLeft(t, folder, "/"+filepath.Base(folder))
	return folder, processes
}

// marked returns the command lines of the processes that name the folder in
// their environment or command line.
func marked(folder string) []string {
	var found []string
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range entries {
		environment, _ := os.ReadFile(process + "/environ")
		command, _ := os.ReadFile(process + "/cmdline")
		if strings.Contains(string(environment)+string(command), folder) {
			found = append(found, filepath.Base(process)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

func nothingLeft(t *testing.T, folder, cgroup string) {
	t.Helper()
	if left := marked(folder); len(left) > 0 {
		t.Errorf("processes are left: %s", strings.Join(left, "\n"))
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder %s is left (error %v)", folder, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), folder) {
		t.Errorf("mounts of %s are left (error %v)", folder, err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup" + cgroup, "/sys/fs/cgroup/*" + cgroup} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}
