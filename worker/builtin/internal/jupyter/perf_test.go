package jupyter

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func extended(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_EXTENDED") == "" {
		t.Skip("only with HOLDFAST_EXTENDED=1")
	}
}

// jupyterClient prints the median of many executions of 1+1 by jupyter_client,
// in milliseconds, until reply and idle status are there.
const jupyterClient = `
import statistics, sys, time
from jupyter_client import KernelManager
manager = KernelManager(kernel_name="python3", transport="ipc" if sys.platform != "win32" else "tcp")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
times = []
for i in range(220):
    began = time.perf_counter()
    id = client.execute("1+1")
    while True:
        m = client.get_iopub_msg(timeout=30)
        if m["parent_header"].get("msg_id") == id and m["content"].get("execution_state") == "idle":
            break
    while client.get_shell_msg(timeout=30)["parent_header"].get("msg_id") != id:
        pass
    times.append(time.perf_counter() - began)
client.stop_channels()
manager.shutdown_kernel()
print(statistics.median(times[20:]) * 1000)
`

// A round trip takes no more than 1.1 times what jupyter_client takes.
func TestRoundTrip(t *testing.T) {
	extended(t)
	spec := pythonSpec(t)
	_, env := runtimeDir(t)
	cmd := exec.Command(spec.Argv[0], "-c", jupyterClient)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		t.Fatal(err)
	}
	k := startKernel(t, Config{Spec: spec})
	var times []float64
	for range 220 {
		began := time.Now()
		_, r := finish(t, execute(t, k, "1+1"))
		times = append(times, float64(time.Since(began).Microseconds())/1000)
		wantOutcome(t, r, OK)
	}
	times = times[20:]
	slices.Sort(times)
	ours := times[len(times)/2]
	t.Logf("median of 1+1: %.2f ms, by jupyter_client %.2f ms", ours, theirs)
	if ours > 1.1*theirs {
		t.Errorf("median %.2f ms, by jupyter_client %.2f ms", ours, theirs)
	}
}

// ROOM-8: 100 MB of output take little memory while the reader is stalled, and
// all of it is there then.
func TestMemory(t *testing.T) {
	extended(t)
	const size, limit = 100 << 20, 64 << 20
	k := startKernel(t, Config{Spec: pythonSpec(t)})
	e := execute(t, k, "for i in range(1600): print('x' * 65535, flush=True)")
	queued := execute(t, k, "1")
	select { // the reply comes on another channel, behind all output
	case m := <-queued.reply:
		queued.reply <- m
	case <-time.After(patience):
		t.Fatal("the output is not done")
	}
	<-time.After(time.Second)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("heap %d MiB, from the system %d MiB, %d messages wait", m.HeapAlloc>>20, m.Sys>>20, k.conns[iopub].Pending())
	if m.HeapAlloc > limit {
		t.Errorf("heap of %d MiB", m.HeapAlloc>>20)
	}
	got := 0
	for {
		m, ok := next(t, e)
		if !ok {
			break
		}
		got += len(printed(t, m))
	}
	if wantOutcome(t, e.Result(), OK); got != size || e.Result().Cut {
		t.Errorf("%d bytes, %+v", got, e.Result())
	}
	finish(t, queued)
}
