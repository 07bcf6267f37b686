package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// SEC-2: a file has 4 MiB at most. What is there is wrong then, and goes.
func TestSEC2LargeAnswer(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, logs := open(t, dir)
	s := storeOf(t, c, program(t))
	sized := func(n int) Entry {
		return Entry{Initialize: json.RawMessage(`{"a":"` + strings.Repeat("x", n) + `"}`)}
	}
	name := s.entryName(client)
	rest := len(head(name, nil)) + len(`{"initialize":{"a":""}}`+"\n")
	mustSave(t, s, client, sized(maxFile-rest))
	expect(t, "largest", len(s.Entry(client).Initialize), maxFile-rest+len(`{"a":""}`))
	for range 2 {
		if err := s.Save(client, sized(maxFile-rest+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("error %v", err)
		}
	}
	expect(t, "entry", s.Entry(client), Entry{})
	expect(t, "files", len(tree(t, dir)), 1+1)
	expect(t, "log lines", logs.Len(), 0)
}

// SEC-2: beyond 64 files the one that was not used for longest goes; the key
// stays, and so does what is not of the cache.
func TestSEC2Eviction(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, _ := open(t, dir)
	s := storeOf(t, c, program(t))
	numbered := func(i int) Client { return Client{Name: fmt.Sprint(i)} }
	age := func(name string, by time.Duration) {
		t.Helper()
		at := time.Now().Add(-by)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	plant := func(name string, by time.Duration) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		age(name, by)
	}
	plant("notes", 100*time.Hour)
	plant(tempPrefix+"old", 2*tempAge)
	plant(tempPrefix+"young", 0)
	age(keyName, 100*time.Hour)
	if err := s.SaveTraits(traits); err != nil {
		t.Fatal(err)
	}
	age(s.traitsName(), 30*time.Hour)
	for i := range maxFiles {
		mustSave(t, s, numbered(i), entry)
		age(s.entryName(numbered(i)), 20*time.Hour-time.Duration(i)*time.Minute)
	}
	expect(t, "traits, the oldest", s.Traits(), Traits{})
	expect(t, "first, which is used now", s.Entry(numbered(0)), entry)
	mustSave(t, s, numbered(maxFiles), entry)
	for i, want := range map[int]Entry{0: entry, 1: {}, 2: entry, maxFiles - 1: entry, maxFiles: entry} {
		expect(t, fmt.Sprint("entry ", i), s.Entry(numbered(i)), want)
	}
	counts := make(map[string]int)
	for path := range tree(t, dir) {
		counts[filepath.Ext(path)]++
		if strings.HasPrefix(filepath.Base(path), tempPrefix) && !strings.HasSuffix(path, "young") {
			t.Errorf("%s is left", path)
		}
	}
	expect(t, "files", counts, map[string]int{entrySuffix: maxFiles, "": 4}) // directory, key, notes, young
}

// SEC-2: processes share the directory, the first moment included. None fails,
// all have one key, and nobody sees a half of anything.
func TestSEC2ManyProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cache")
	command := program(t)
	const processes, rounds = 8, 30
	var mu sync.Mutex
	var keys []string
	var all sync.WaitGroup
	for p := range processes {
		all.Go(func() { // ends after its rounds
			core, logs := observer.New(zap.DebugLevel)
			c, err := Open(dir, zap.New(core))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			mu.Lock()
			keys = append(keys, string(c.key))
			mu.Unlock()
			s, err := c.For(command)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range rounds {
				mine := Entry{Initialize: json.RawMessage(`{"a":"` + strings.Repeat(fmt.Sprint(p), 1+i*100) + `"}`)}
				if err := errors.Join(
					s.Save(client, mine), s.Save(Client{Name: fmt.Sprint(p, i)}, mine), s.SaveTraits(traits),
				); err != nil {
					t.Error(err)
				}
				if got := s.Entry(client); len(got.Initialize) == 0 {
					t.Errorf("process %d, round %d: no entry", p, i)
				}
			}
			for _, line := range logs.All() {
				t.Errorf("log: %v %v", line.Message, line.ContextMap())
			}
		})
	}
	all.Wait()
	slices.Sort(keys)
	expect(t, "keys", len(slices.Compact(keys)), 1)
	expect(t, "files", len(tree(t, dir)), 1+1+maxFiles)
}
