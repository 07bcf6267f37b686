package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tie holds the job that the process and its descendants are in; zero if they
// are in none. The job ends them all when its last handle is closed, be it by
// the end of this process.
type tie struct {
	job windows.Handle
	// interrupt is an event that the process has a handle of; zero if it has not.
	interrupt windows.Handle
}

// prepare makes the event that the process inherits and is told in its
// environment.
func (t *tie) prepare(spec Spec, attr *os.ProcAttr) error {
	if len(spec.InterruptEnv) == 0 {
		return nil
	}
	inherit := windows.SecurityAttributes{InheritHandle: 1}
	inherit.Length = uint32(unsafe.Sizeof(inherit))
	event, err := windows.CreateEvent(&inherit, 0, 0, nil) // resets itself
	if err != nil {
		return os.NewSyscallError("CreateEvent", err)
	}
	t.interrupt = event
	attr.Sys.AdditionalInheritedHandles = append(attr.Sys.AdditionalInheritedHandles, syscall.Handle(event))
	for _, name := range spec.InterruptEnv {
		attr.Env = slices.DeleteFunc(attr.Env, func(kv string) bool { return envName(kv) == envName(name+"=") })
		attr.Env = append(attr.Env, fmt.Sprintf("%s=%d", name, event))
	}
	return nil
}

// sysProcAttr starts a process suspended if it is to be put into a job, so
// that it cannot start others outside of it.
func sysProcAttr(spec Spec) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if spec.Group {
		attr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
	}
	if spec.Group || spec.ParentDeath {
		attr.CreationFlags |= windows.CREATE_SUSPENDED
	}
	return attr
}

// bind puts the suspended process into its job and lets it run.
func (t *tie) bind(p *os.Process, spec Spec) error {
	if !spec.Group && !spec.ParentDeath {
		return nil
	}
	job, err := newJob()
	if err != nil {
		return err
	}
	var assign error
	err = p.WithHandle(func(process uintptr) {
		assign = windows.AssignProcessToJobObject(job, windows.Handle(process))
	})
	if err = errors.Join(err, os.NewSyscallError("AssignProcessToJobObject", assign)); err == nil {
		err = resume(p.Pid)
	}
	if err != nil {
		windows.CloseHandle(job)
		return err
	}
	t.job = job
	return nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

// resume starts the one thread of a process that was created suspended.
func resume(pid int) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer windows.CloseHandle(list)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(list, &entry); err == nil; err = windows.Thread32Next(list, &entry) {
		if entry.OwnerProcessID != uint32(pid) {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return os.NewSyscallError("OpenThread", err)
		}
		defer windows.CloseHandle(thread)
		_, err = windows.ResumeThread(thread)
		return os.NewSyscallError("ResumeThread", err)
	}
	return fmt.Errorf("proc: no thread of process %d found", pid)
}

// awaitExit blocks until the process has ended; its handle, held by os.Process,
// keeps the pid from being used again.
func (p *Process) awaitExit() {
	p.os.WithHandle(func(process uintptr) {
		windows.WaitForSingleObject(windows.Handle(process), windows.INFINITE)
	})
}

// groupAlive gives the rest of a job no grace: CTRL_BREAK has no effect on
// what does not share the console.
func (p *Process) groupAlive() bool { return false }

func (t *tie) release() {
	if t.job != 0 {
		windows.CloseHandle(t.job)
		t.job = 0
	}
	if t.interrupt != 0 {
		windows.CloseHandle(t.interrupt)
		t.interrupt = 0
	}
}

func (p *Process) interruptTree() error {
	if p.tie.interrupt == 0 {
		return fmt.Errorf("interrupt: %w", errors.ErrUnsupported)
	}
	return os.NewSyscallError("SetEvent", windows.SetEvent(p.tie.interrupt))
}

func (p *Process) terminateTree() error {
	if !p.group {
		return p.os.Kill() // a process that shares the group cannot be asked alone
	}
	return os.NewSyscallError("GenerateConsoleCtrlEvent",
		windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.os.Pid)))
}

func (p *Process) killTree() error {
	if p.tie.job == 0 {
		return p.os.Kill()
	}
	return os.NewSyscallError("TerminateJobObject", windows.TerminateJobObject(p.tie.job, 1))
}

func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }

// KillOwnGroupAfter ends this process after d, and with it the jobs of the
// processes that it started. It returns at once.
func KillOwnGroupAfter(d time.Duration) {
	time.AfterFunc(d, func() { windows.TerminateProcess(windows.CurrentProcess(), 1) })
}

// BecomeSubreaper does nothing on Windows: a job holds all descendants.
func BecomeSubreaper() error { return nil }

// Identify returns the identity of a process that exists, ended or not.
func Identify(pid int) (Identity, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return Identity{}, os.NewSyscallError("OpenProcess", err)
	}
	defer windows.CloseHandle(process)
	var creation, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &creation, &exit, &kernel, &user); err != nil {
		return Identity{}, os.NewSyscallError("GetProcessTimes", err)
	}
	return Identity{Pid: pid, Start: uint64(creation.HighDateTime)<<32 | uint64(creation.LowDateTime)}, nil
}

// ended reports whether a process that exists only because of open handles has
// ended.
func ended(pid int) bool {
	process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return true
	}
	defer windows.CloseHandle(process)
	event, err := windows.WaitForSingleObject(process, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// descendants finds nothing: a job holds them all.
func descendants(Identity) []Identity { return nil }

func sweep([]Identity) int { return 0 }

// envName returns the name of an environment entry, as names are compared.
// Entries such as "=C:=C:\dir" keep their leading sign.
func envName(kv string) string {
	if kv == "" {
		return ""
	}
	end := strings.IndexByte(kv[1:], '=')
	if end < 0 {
		return strings.ToUpper(kv)
	}
	return strings.ToUpper(kv[:1+end])
}

// completeEnv adds what no process can do without.
func completeEnv(env []string) []string {
	if _, ok := lookEnv(env, "SYSTEMROOT"); !ok {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	return env
}
