package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// markerEnv is inherited by all that a test starts.
const markerEnv = "PROC_TEST_MARKER"

func init() {
	// parent dies by KILL and leaves a child that tells whether it got TERM.
	roles["parent"] = func([]string) {
		spec := roleSpec("report-term")
		spec.ParentDeath = true
		spec.Stdout = os.Stdout
		if _, err := Start(spec); err != nil {
			panic(err)
		}
		forever()
	}
	roles["report-term"] = func([]string) {
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, unix.SIGTERM, unix.SIGUSR1)
		fmt.Println("ready")
		for <-signals != unix.SIGTERM {
			fmt.Println("alive")
		}
		fmt.Println("got TERM")
	}
	// supervisor and worker are the tree of C46 (c): the worker handles the
	// death of its parent, what it started ignores TERM, some of it outside of
	// its group.
	roles["supervisor"] = func([]string) {
		spec := roleSpec("worker")
		spec.ParentDeath = true
		spec.Stdout = os.Stdout
		if _, err := Start(spec); err != nil {
			panic(err)
		}
		forever()
	}
	roles["worker"] = func([]string) {
		term := make(chan os.Signal, 1)
		signal.Notify(term, unix.SIGTERM)
		if err := BecomeSubreaper(); err != nil {
			panic(err)
		}
		spec := shell(`trap "" TERM
			sh -c 'sleep 1000; true' &
			setsid sh -c 'sleep 1000; true' &
			(setsid sh -c 'sleep 1000; true' &)
			sleep 0.1; echo ready; wait`)
		spec.Group = false
		spec.Stdout = os.Stdout
		if _, err := Start(spec); err != nil {
			panic(err)
		}
		<-term
		KillOwnGroupAfter(20 * time.Millisecond)
		forever()
	}
	// leader starts a member of its group that kills its "own" group.
	roles["leader"] = func([]string) {
		spec := roleSpec("member")
		spec.Group = false
		p, err := Start(spec)
		if err != nil {
			panic(err)
		}
		<-p.Done()
		fmt.Println(p.Exit())
	}
	roles["member"] = func([]string) {
		KillOwnGroupAfter(0)
		forever()
	}
	for name, scenario := range scenarios {
		roles["scenario-"+name] = func([]string) {
			err := BecomeSubreaper()
			if err == nil {
				err = scenario()
			}
			if err != nil {
				fmt.Println(strings.ReplaceAll(err.Error(), "\n", "; "))
				os.Exit(1)
			}
			fmt.Println("ok")
		}
	}
}

// marked returns the processes that carry a marker, ended ones not counted.
func marked(marker string) []Identity {
	var found []Identity
	for pid, s := range snapshot() {
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if bytes.Contains(env, []byte(markerEnv+"="+marker+"\x00")) && !s.zombie {
			found = append(found, s.id)
		}
	}
	return found
}

// eventually polls for a state of processes that nobody reports.
func eventually(limit time.Duration, what string, cond func() bool) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(limit); !cond(); <-poll.C {
		if time.Now().After(deadline) {
			return errors.New("not within " + limit.String() + ": " + what)
		}
	}
	return nil
}

func newMarker(t *testing.T) string {
	marker := fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		for _, id := range marked(marker) {
			t.Errorf("left behind: %+v", id)
			unix.Kill(id.Pid, unix.SIGKILL)
		}
	})
	return marker
}

func zombies() (pids []int) {
	for pid, s := range snapshot() {
		if s.ppid == os.Getpid() && s.zombie {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestParentDeath_SUP12(t *testing.T) {
	p, out := start(t, roleSpec("parent"))
	expectLine(t, out, "ready")
	if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	expectLine(t, out, "got TERM")
}

// The signal is tied to the thread that started the child, not to the process:
// a child must not get it while its parent lives.
func TestParentDeathNotByThread_SUP12(t *testing.T) {
	spec := roleSpec("report-term")
	spec.ParentDeath = true
	p, out := start(t, spec)
	expectLine(t, out, "ready")
	for range 20 {
		ended := make(chan struct{})
		go func() { // ends at once, and its thread with it
			defer close(ended)
			runtime.LockOSThread()
		}()
		<-ended
	}
	if err := unix.Kill(p.Pid(), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	expectLine(t, out, "alive")
	p.Terminate()
	expectLine(t, out, "got TERM")
	if got := awaitDone(t, p); got != (Exit{}) {
		t.Errorf("Exit() = %v", got)
	}
}

func TestSupervisorKilled_C46(t *testing.T) {
	marker := newMarker(t)
	spec := roleSpec("supervisor")
	spec.Env = append(spec.Env, markerEnv+"="+marker)
	p, out := start(t, spec)
	expectLine(t, out, "ready")
	// supervisor, worker, wrapper, and three times sh and sleep
	if err := eventually(10*time.Second, "nine processes", func() bool { return len(marked(marker)) == 9 }); err != nil {
		t.Fatal(err, marked(marker))
	}
	unix.Kill(p.Pid(), unix.SIGKILL)
	if err := eventually(10*time.Second, "all are gone", func() bool { return len(marked(marker)) == 0 }); err != nil {
		t.Error(err)
	}
}

func TestKillOwnGroupOfNonLeader(t *testing.T) {
	p, out := start(t, roleSpec("leader"))
	expectLine(t, out, "killed by SIGKILL")
	if got := awaitDone(t, p); got != (Exit{}) {
		t.Errorf("leader: %v, want it unharmed", got)
	}
}

// Two hundred lives leave no descriptor, zombie or goroutine.
func TestNothingAccumulates_SUP12(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	cycle := func(i int) {
		spec := shell("exec sleep 1000")
		spec.ParentDeath = i%2 == 0
		p, err := Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Stop(time.Duration(i%3) * 5 * time.Second)
		awaitDone(t, p)
	}
	cycle(0)
	before := count()
	for i := range 200 {
		cycle(i)
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if z := zombies(); len(z) > 0 {
		t.Errorf("zombies: %v", z)
	}
	tree.Lock()
	defer tree.Unlock()
	if len(tree.live) > 0 {
		t.Errorf("%d processes still registered", len(tree.live))
	}
	// Goroutines: TestMain.
}

// Strays need a subreaper, which the test binary must not become: each
// scenario runs in a process of its own.
func TestSubreaper_SUP12(t *testing.T) {
	for name := range scenarios {
		t.Run(name, func(t *testing.T) {
			marker := newMarker(t)
			spec := roleSpec("scenario-" + name)
			spec.Env = append(spec.Env, markerEnv+"="+marker)
			p, out := start(t, spec)
			expectLine(t, out, "ok")
			if got := awaitDone(t, p); got != (Exit{}) {
				t.Errorf("Exit() = %v", got)
			}
		})
	}
}

// begin starts a script in a scenario and waits for its "ready"; the words
// after that are pids.
func begin(script string) (*Process, []Identity, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	spec := shell(script)
	spec.Stdout, spec.Stderr = w, os.Stderr
	p, err := Start(spec)
	w.Close()
	if err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || words[0] != "ready" {
		return nil, nil, fmt.Errorf("read %q: %w", line, err)
	}
	var ids []Identity
	for _, word := range words[1:] {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, nil, err
		}
		id, err := Identify(pid)
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	return p, ids, nil
}

// only fails unless the given processes, apart from this one, are all that is
// left of the tree.
func only(want ...Identity) error {
	left := make(map[Identity]bool)
	for _, id := range marked(os.Getenv(markerEnv)) {
		left[id] = id.Pid != os.Getpid()
	}
	for _, id := range want {
		if !left[id] {
			return fmt.Errorf("%+v is gone", id)
		}
		left[id] = false
	}
	for id, there := range left {
		if there {
			cmdline, _ := os.ReadFile("/proc/" + strconv.Itoa(id.Pid) + "/cmdline")
			return fmt.Errorf("%+v is left: %q", id, cmdline)
		}
	}
	if z := zombies(); len(z) > 0 {
		return fmt.Errorf("zombies are left: %v", z)
	}
	return nil
}

var scenarios = map[string]func() error{
	// A grandchild in a session of its own, still below the process.
	"setsid": func() error {
		p, _, err := begin(`setsid sh -c 'trap "" TERM; echo ready; sleep 1000; true' & wait`)
		if err != nil {
			return err
		}
		p.Stop(50 * time.Millisecond)
		return only()
	},
	// A daemon that was adopted before the process crashed.
	"daemon": func() error {
		p, ids, err := begin(`setsid sh -c 'sh -c "sleep 1000; true" & echo ready $$; wait' & sleep 0.1; exit 1`)
		if err != nil {
			return err
		}
		<-p.Done()
		if err := only(append(ids, childrenOf(ids[0])...)...); err != nil {
			return fmt.Errorf("before the stop: %w", err)
		}
		p.Stop(time.Second)
		return only()
	},
	// A declared daemon and what is below it stay.
	"spared": func() error {
		p, ids, err := begin(`setsid sh -c 'setsid sleep 1000 & echo ready $$ $!; wait' & setsid sleep 1000 & wait`)
		if err != nil {
			return err
		}
		Spare(ids[0])
		p.Stop(50 * time.Millisecond)
		if n := Sweep(); n != 0 {
			return fmt.Errorf("a sweep after the stop killed %d", n)
		}
		if err := only(ids...); err != nil {
			return err
		}
		for _, id := range ids {
			unix.Kill(id.Pid, unix.SIGKILL)
		}
		return eventually(5*time.Second, "the daemon is reaped", func() bool { return only() == nil })
	},
	// What may be of a live process is left to it; its group is not touched.
	"side by side": func() error {
		old, stray, err := begin(`(setsid sh -c 'echo ready $$; exec sleep 1000' &) ; exec sleep 1000`)
		if err != nil {
			return err
		}
		nextTick()
		// Its orphan stays in its group, its daemon does not.
		young, ids, err := begin(`(sleep 1000 &)
			(setsid sh -c 'echo ready $$; exec sleep 1000' &) ; exec sleep 1000`)
		if err != nil {
			return err
		}
		if !stray[0].Alive() {
			return errors.New("the stray is gone too early")
		}
		old.Stop(time.Second)
		if stray[0].Alive() {
			return errors.New("the stray of the old process is left")
		}
		if !ids[0].Alive() || !young.Identity().Alive() {
			return errors.New("the live process or its daemon is gone")
		}
		if n := len(marked(os.Getenv(markerEnv))); n != 4 { // this, young, orphan, daemon
			return fmt.Errorf("%d processes are left, want 4", n)
		}
		young.Stop(time.Second)
		return only()
	},
	// What is still below a process when it is stopped is its own, however
	// young.
	"handed over": func() error {
		old, _, err := begin(`trap "setsid sleep 1000 &" USR1; echo ready; while :; do sleep 0.01; done`)
		if err != nil {
			return err
		}
		young, _, err := begin(`echo ready; exec sleep 1000`)
		if err != nil {
			return err
		}
		nextTick()
		unix.Kill(old.Pid(), unix.SIGUSR1)
		session := func() bool {
			for _, id := range marked(os.Getenv(markerEnv)) {
				if sid, err := unix.Getsid(id.Pid); err == nil && sid == id.Pid {
					return true
				}
			}
			return false
		}
		if err := eventually(10*time.Second, "a process in its own session", session); err != nil {
			return err
		}
		old.Stop(0)
		if err := eventually(time.Second, "the young process alone", func() bool { return only(young.Identity()) == nil }); err != nil {
			return errors.Join(err, only(young.Identity()))
		}
		young.Stop(time.Second)
		return only()
	},
	// Adopted processes that end are reaped while their origin lives on.
	"zombies": func() error {
		p, _, err := begin(`for i in 1 2 3 4 5 6 7 8 9 10; do (true &); (setsid true &); done; echo ready; exec sleep 1000`)
		if err != nil {
			return err
		}
		err = eventually(10*time.Second, "no zombie", func() bool { return len(zombies()) == 0 && len(children()) == 1 })
		p.Stop(time.Second)
		return errors.Join(err, only())
	},
	// Children in a bridge's own group: no group to kill, all the same.
	"ungrouped": func() error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		spec := shell(`trap "" TERM; sh -c 'echo ready; sleep 1000; true' & (sleep 1000 &) ; (true &) ; wait`)
		spec.Group, spec.Stdout = false, w
		p, err := Start(spec)
		w.Close()
		if err != nil {
			return err
		}
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			return err
		}
		p.Stop(50 * time.Millisecond)
		return only()
	},
	// os/exec keeps its own waits, as long as it starts no groups.
	"os/exec": func() error {
		p, _, err := begin(`(while :; do (setsid true &) ; sleep 0.01; done) & echo ready; exec sleep 1000`)
		if err != nil {
			return err
		}
		for range 100 {
			if err := exec.Command("/bin/sh", "-c", "exit 0").Run(); err != nil {
				return fmt.Errorf("os/exec: %w", err)
			}
		}
		sleeper := exec.Command("sleep", "1000")
		if err := sleeper.Start(); err != nil {
			return err
		}
		p.Stop(time.Second)
		Sweep()
		if err := sleeper.Process.Signal(syscall.Signal(0)); err != nil {
			return fmt.Errorf("a child of os/exec was swept: %w", err)
		}
		sleeper.Process.Kill()
		if err := sleeper.Wait(); err == nil || sleeper.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			return fmt.Errorf("wait of os/exec: %w", errors.Join(err, errors.New("not killed by this test")))
		}
		return only()
	},
}

func childrenOf(id Identity) (ids []Identity) {
	for _, s := range snapshot() {
		if s.ppid == id.Pid {
			ids = append(ids, s.id)
			ids = append(ids, childrenOf(s.id)...)
		}
	}
	return ids
}

// nextTick waits until processes get another start time.
func nextTick() {
	first := now()
	eventually(time.Second, "the next tick", func() bool { return now() > first })
}

// now is the start time of a process started now.
func now() uint64 {
	p, err := Start(shell("exit 0"))
	if err != nil {
		panic(err)
	}
	<-p.Done()
	return p.Identity().Start
}

func TestParseStat(t *testing.T) {
	raw := "42 (a) b (c) S 7 40 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n"
	got, err := parseStat(42, []byte(raw))
	want := stat{id: Identity{Pid: 42, Start: 987654}, ppid: 7, pgrp: 40}
	if err != nil || got != want {
		t.Errorf("parseStat = %+v, %v; want %+v", got, err, want)
	}
	got, err = parseStat(42, []byte(strings.Replace(raw, ") S 7", ") Z 7", 1)))
	if err != nil || !got.zombie {
		t.Errorf("a zombie is not recognised: %+v, %v", got, err)
	}
}

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("1 (x) S"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseStat(1, raw)
		if err == nil && s.id.Pid != 1 {
			t.Error("another pid")
		}
		if err != nil && s != (stat{}) {
			t.Error("an error with a result")
		}
	})
}
