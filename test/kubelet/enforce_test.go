// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/enforce/cgroup"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/bed/binaries"
	"github.com/fairslice/fairslice/test/bed/image"
	"github.com/fairslice/fairslice/test/stack"
)

// cudaImage has a shell, the C library, stand-ins for the driver's libraries and a
// CUDA program, linked with them, that does what its input says (see
// deviceplugin/interceptor/testprog).
const cudaImage = "fairslice.test/cuda:1"

// held are the flags of a device plugin that holds containers by the interceptor,
// which is built into dir.
func held(ctx context.Context, dir string) ([]string, error) {
	if out, err := exec.CommandContext(ctx, "make", "-s", "-C", "../../deviceplugin/interceptor", "OUT="+dir, "all").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the interceptor: %w\n%s", err, out)
	}
	return []string{"--interceptor-dir=" + dir, "--state-dir=" + filepath.Join(dir, "state")}, nil
}

// importCUDA gives a node the image with what held has built into dir.
func importCUDA(ctx context.Context, node *stack.RealNode, dir string) error {
	busybox, err := binaries.LookHost("busybox")
	if err != nil {
		return err
	}
	spec, err := image.Busybox(cudaImage, busybox)
	if err != nil {
		return err
	}
	const libraries = "/usr/lib/standin/"
	spec.Env = append(spec.Env, "LD_LIBRARY_PATH="+libraries, "STANDIN_GPUS=81920")
	spec.Files = append(spec.Files,
		image.File{Path: "/bin/probe", Source: filepath.Join(dir, "probe")},
		image.File{Path: "/bin/static", Source: filepath.Join(dir, "static")},
		image.File{Path: libraries + "libcuda.so.1", Source: filepath.Join(dir, "standin/libcuda.so.1")},
		image.File{Path: libraries + "libnvidia-ml.so.1", Source: filepath.Join(dir, "standin/libnvidia-ml.so.1")},
		image.File{Path: libraries + "deepbind.so", Source: filepath.Join(dir, "deepbind.so")},
		image.File{Path: "/tmp/"})
	for _, program := range []string{"probe", "libfairslice.so"} {
		out, err := exec.CommandContext(ctx, "ldd", filepath.Join(dir, program)).Output()
		if err != nil {
			return fmt.Errorf("find the libraries of %s: %w", program, err)
		}
		for _, lib := range regexp.MustCompile(`/\S*`).FindAllString(string(out), -1) {
			spec.Files = append(spec.Files, image.File{Path: lib, Source: lib})
		}
	}
	archive := filepath.Join(dir, "image.tar")
	if err := image.WriteFile(archive, spec); err != nil {
		return err
	}
	defer os.Remove(archive)
	return node.Import(ctx, archive)
}

// cuda runs a shell script in the CUDA image, with 10 GiB of one GPU.
func cuda(name, script string, options ...stack.PodOption) *corev1.Pod {
	p := pod(name, "export STANDIN_UUIDS=$NVIDIA_VISIBLE_DEVICES\n"+strings.ReplaceAll(script, "\n\t", "\n"), append([]stack.PodOption{stack.MemoryGiB(10)}, options...)...)
	p.Spec.Containers[0].Image = cudaImage
	return p
}

// log is what a container has printed.
func (f fixture) log(name string) string {
	f.t.Helper()
	stream, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(name, &corev1.PodLogOptions{}).Stream(f.ctx)
	f.must(err)
	defer stream.Close()
	raw, err := io.ReadAll(stream)
	f.must(err)
	return string(raw)
}

// TestMemoryPastTheSliceIsRefused: in a real container the limit is the slice to the
// byte, by each way to ask the driver, and driver and NVML say so. Neither the
// environment nor a child process changes that.
func TestMemoryPastTheSliceIsRefused(t *testing.T) {
	f := use(t)
	f.create(cuda("past", `probe link 2>/tmp/errors <<END
	alloc 10GiB+1
	a = alloc 10GiB
	free a
	b = alloc 10238MiB
	alloc 2MiB+1
	managed 2MiB+1
	async 4MiB 0
	create 0 4MiB
	array 1024 1024
	fork alloc 2MiB+1
	c = alloc 2MiB
	alloc 1
	info
	total 0
	nvml 0
	END
	grep -c refused /tmp/errors
	(echo alloc 10GiB+1; echo info) | LD_PRELOAD= FAIRSLICE_GPU_MEMORY_MIB=999999 FAIRSLICE_REGION=/nowhere probe dlsym 2>/dev/null`))
	f.eventuallyIs(90*time.Second, corev1.PodSucceeded, "past")
	want := strings.ReplaceAll(`alloc 10GiB+1: OUT_OF_MEMORY
		a = alloc 10GiB: ok
		free a: ok
		b = alloc 10238MiB: ok
		alloc 2MiB+1: OUT_OF_MEMORY
		managed 2MiB+1: OUT_OF_MEMORY
		async 4MiB 0: OUT_OF_MEMORY
		create 0 4MiB: OUT_OF_MEMORY
		array 1024 1024: OUT_OF_MEMORY
		  child: OUT_OF_MEMORY
		c = alloc 2MiB: ok
		alloc 1: OUT_OF_MEMORY
		info: ok free 0MiB total 10240MiB
		total 0: ok 10240MiB
		nvml 0: ok free 0MiB total 10240MiB used 10240MiB
		1
		alloc 10GiB+1: OUT_OF_MEMORY
		info: ok free 10240MiB total 10240MiB
		`, "\n\t\t", "\n")
	if got := f.log("past"); got != want {
		t.Errorf("the program printed\n%s\nwant\n%s", got, want)
	}
}

// TestProcessesShareABudget: four processes of a container hold a quarter each, a
// fifth gets nothing; what one held that is killed with -9 is free again at once.
func TestProcessesShareABudget(t *testing.T) {
	f := use(t)
	f.create(cuda("four", `for i in 1 2 3 4; do
	  mkfifo /tmp/in$i
	  sleep 600 >/tmp/in$i &
	  probe link </tmp/in$i >/tmp/$i 2>&1 &
	  eval p$i=$!
	  echo "a = alloc 2560MiB" >/tmp/in$i
	done
	for i in 1 2 3 4; do until [ -s /tmp/$i ]; do sleep 0.1; done; cat /tmp/$i; done
	echo "alloc 1" | probe link 2>/dev/null
	kill -9 $p4; wait $p4 2>/dev/null
	printf 'a = alloc 2560MiB\nalloc 1\n' | probe link 2>/dev/null
	kill -9 $p1 $p2 $p3
	exit 0`))
	f.eventuallyIs(90*time.Second, corev1.PodSucceeded, "four")
	want := strings.Repeat("a = alloc 2560MiB: ok\n", 4) + "alloc 1: OUT_OF_MEMORY\na = alloc 2560MiB: ok\nalloc 1: OUT_OF_MEMORY\n"
	if got := f.log("four"); got != want {
		t.Errorf("the processes printed\n%s\nwant\n%s", got, want)
	}
}

// TestRestartedContainerHasItsWholeBudget: what the last incarnation held when it
// was killed is not charged to the next one, which has the same small PIDs.
func TestRestartedContainerHasItsWholeBudget(t *testing.T) {
	f := use(t)
	p := cuda("again", "(echo 'a = alloc 10GiB'; sleep 9) | probe link & sleep 2; exit 1")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	f.create(p)
	f.eventually(90*time.Second, func() string {
		s := f.get("again").Status.ContainerStatuses
		if len(s) == 0 || s[0].RestartCount < 2 || s[0].State.Running == nil {
			return "the container has not started for the third time"
		}
		return ""
	})
	f.eventually(20*time.Second, func() string {
		if got := f.log("again"); got != "a = alloc 10GiB: ok\n" {
			return fmt.Sprintf("the restarted container printed %q", got)
		}
		return ""
	})
}

// TestIsolationLevelIsPublishedAndObeyed: a pod may demand a minimum.
func TestIsolationLevelIsPublishedAndObeyed(t *testing.T) {
	f := use(t)
	object, err := f.Client.CoreV1().Nodes().Get(f.ctx, node.Name, metav1.GetOptions{})
	f.must(err)
	const key = v1alpha1.LabelGPUIsolation
	if l, a := object.Labels[key], object.Annotations[key]; l != v1alpha1.IsolationIntercept || a != l {
		t.Errorf("label and annotation %s are %q and %q, want %q", key, l, a, v1alpha1.IsolationIntercept)
	}
	f.create(
		pod("weak", "env", stack.Slice(10), stack.Annotate(v1alpha1.AnnotationMinIsolation, v1alpha1.IsolationIntercept)),
		pod("strong", "env", stack.Slice(10), stack.Annotate(v1alpha1.AnnotationMinIsolation, v1alpha1.IsolationCgroup)),
	)
	f.eventuallyIs(60*time.Second, corev1.PodSucceeded, "weak")
	if p := f.get("strong"); p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" {
		t.Errorf("a pod that demands %s is %s on node %q", v1alpha1.IsolationCgroup, p.Status.Phase, p.Spec.NodeName)
	}
}

// TestLimitHookKeepsAContainerFromStarting: a real runtime applies the CDI device of
// a container's limit, runs the hook, and does not start the container when the
// limit cannot be set: here there is no driver.
func TestLimitHookKeepsAContainerFromStarting(t *testing.T) {
	state := t.TempDir()
	layer, err := cgroup.New(cgroup.Config{
		CDIDir: node.CDIDir(), StateDir: state, Program: shared.Binary, NVMLLibrary: "/nonexistent/libnvidia-ml.so.1", CgroupRoot: "/sys/fs/cgroup",
	})
	if err != nil {
		t.Fatal(err)
	}
	id := enforce.ContainerID("r", []string{"a"})
	edits, err := layer.Prepare(enforce.Container{ID: id, Shares: []enforce.Share{{UUID: "GPU-a", MemoryMiB: 10240}}})
	if err != nil {
		t.Fatal(err)
	}
	programs, err := binaries.Ensure(t.Context(), io.Discard, binaries.Ctr)
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		args = append([]string{"--address=" + node.ContainerdSocket(), "--namespace=k8s.io", "run", "--rm", "--net-host", "--cgroup=" + node.CgroupRoot() + "/" + name}, args...)
		out, _ := node.Command(t.Context(), programs.Path(binaries.Ctr), append(args, bed.BusyboxImage, name, "echo", "it runs")...).CombinedOutput()
		return string(out)
	}
	if out := run("free"); !strings.Contains(out, "it runs") {
		t.Fatalf("a container without a limit: %s", out)
	}
	if out := run("limited", "--device="+edits.CDIDevices[0]); strings.Contains(out, "it runs") || !strings.Contains(out, "fairslice: GPU memory limit: ") {
		t.Errorf("a container whose limit cannot be set: %s", out)
	}
	if out := run("unknown", "--device="+cgroup.Kind+"=0"); strings.Contains(out, "it runs") || !strings.Contains(out, "unresolvable CDI devices") {
		t.Errorf("a container whose limit is not known: %s", out)
	}
}
