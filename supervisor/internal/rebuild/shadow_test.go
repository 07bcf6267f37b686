package rebuild

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// shadowed returns the copies of a project, and the path of its executable.
func shadowed(t *testing.T) (s *Shadows, server string) {
	t.Helper()
	project := t.TempDir()
	s, err := NewShadows(filepath.Join(t.TempDir(), "copies"), project)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	server = filepath.Join(project, "bin", "server")
	write(t, server, read(t, self(t)))
	return s, server
}

func (s *Shadows) standing(t *testing.T, path string) string {
	t.Helper()
	run, as, err := s.Stand(t.Context(), path, true)
	if err != nil || as == nil {
		t.Fatal(run, as, err)
	}
	return run
}

// C12, C13, SEC-7: a native executable of the project is started from a private
// copy, which nothing writes to; two are kept, and none after the end.
func TestSEC7Shadows(t *testing.T) {
	s, server := shadowed(t)
	whole := read(t, server)
	first := s.standing(t, server)
	if first == server || filepath.Base(first) != "server" || !bytes.Equal(read(t, first), whole) {
		t.Fatalf("started from %s", first)
	}
	if again := s.standing(t, server); again != first {
		t.Errorf("copied again to %s", again)
	}
	for dir := first; dir != s.base; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	copies := []string{first}
	for i := range 3 {
		write(t, server, append(whole, byte(i))) // in place, as a build may do it
		if next := s.standing(t, server); bytes.Equal(read(t, next), whole) {
			t.Errorf("copy %d is an old one", i)
		} else {
			copies = append(copies, next)
		}
	}
	for i, path := range copies {
		if _, err := os.Stat(path); (err == nil) != (i >= len(copies)-keptCopies) {
			t.Errorf("copy %d of %d: %v", i, len(copies), err)
		}
	}
	s.Close()
	if entries, err := os.ReadDir(s.base); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// SUP-10: while the file is no good, or may not be looked at, the copy from
// before stands in for it, and is told as what it is a copy of.
func TestShadowStays(t *testing.T) {
	s, server := shadowed(t)
	first := s.standing(t, server)
	before, err := os.Stat(server)
	if err != nil {
		t.Fatal(err)
	}
	write(t, server, []byte("#!/bin/sh\n"))
	run, as, err := s.Stand(t.Context(), server, false)
	if err != nil || run != first || !sameFile(as, before) {
		t.Errorf("Stand() = %s, %v, %v", run, as, err)
	}
}

// SUP-10: what takes the place of an executable and is none is started as it is,
// and found to be no good: the copy from before is no candidate.
func TestShadowOfNoExecutable(t *testing.T) {
	s, server := shadowed(t)
	whole := read(t, server)
	s.standing(t, server)
	write(t, server, []byte("no executable"))
	if run := s.standing(t, server); run != server {
		t.Errorf("started from %s", run)
	}
	write(t, server, whole)
	if run := s.standing(t, server); run == server {
		t.Error("started without a copy")
	}
}

// A cache that is cleaned while it is used costs another copy.
func TestShadowRemoved(t *testing.T) {
	for _, what := range []string{"copy", "directory", "base"} {
		t.Run(what, func(t *testing.T) {
			s, server := shadowed(t)
			first := s.standing(t, server)
			dir := filepath.Dir(filepath.Dir(first))
			gone := map[string]string{"copy": first, "directory": dir, "base": filepath.Dir(dir)}[what]
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
			again, _, err := s.Stand(t.Context(), server, false)
			if err != nil || again == server || !bytes.Equal(read(t, again), read(t, server)) {
				t.Errorf("started from %s, %v", again, err)
			}
			s.Close()
			if entries, err := os.ReadDir(s.base); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

// SEC-7: nothing else is copied: scripts, executables outside of the project,
// and those of its packages and environments.
func TestSEC7NoShadow(t *testing.T) {
	s, server := shadowed(t)
	project := filepath.Dir(filepath.Dir(server))
	whole := read(t, server)
	outside := filepath.Join(t.TempDir(), "python")
	write(t, outside, whole)
	script := filepath.Join(project, "run.sh")
	write(t, script, []byte("#!/bin/sh\n"))
	packaged := filepath.Join(project, "node_modules", "x", "bin", "x")
	write(t, packaged, whole)
	paths := []string{outside, script, packaged}
	if runtime.GOOS != "windows" {
		link := filepath.Join(project, "env", "python")
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, link)
	}
	for _, path := range paths {
		if run := s.standing(t, path); run != path {
			t.Errorf("%s is started from %s", path, run)
		}
	}
	off, err := NewShadows("off", project)
	if err != nil {
		t.Fatal(err)
	}
	if run := off.standing(t, server); run != server {
		t.Errorf("without copies, %s is started", run)
	}
}

// Copies of a process that was killed are removed by the next one.
func TestShadowsAreSwept(t *testing.T) {
	s, server := shadowed(t)
	s.standing(t, server)
	dead := filepath.Join(s.base, shadowPrefix+"dead")
	write(t, filepath.Join(dead, "lock"), nil)
	foreign := filepath.Join(s.base, shadowPrefix+"foreign")
	write(t, filepath.Join(foreign, "file"), nil)
	other, err := NewShadows(s.base, s.project)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.standing(t, server)
	if _, err := os.Stat(dead); err == nil {
		t.Error("those of a dead process are left")
	}
	for _, dir := range []string{s.dir, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestShadowRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	if _, err := NewShadows(file, t.TempDir()); err == nil {
		t.Error("a file was taken for a directory")
	}
}
