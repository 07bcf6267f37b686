package document

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var triples = flag.Int("triples", 1000, "how many random triples are merged by git as well")

// TestMergeLikeGit: ROOM-1, the same conflicts and the same text as git
// merge-file.
func TestMergeLikeGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	clean, conflicts, differ := 0, 0, 0
	for seed := range *triples {
		base, one, other := triple(rand.New(rand.NewPCG(uint64(seed), 1)))
		want, ok := gitMerge(t, dir, base, one, other)
		got, merged := merge(base, one, other)
		if ok {
			clean++
		} else {
			conflicts++
		}
		if merged != ok || ok && got != want {
			differ++
			t.Errorf("seed %d: base %q, one %q, other %q:\n%v %q\ngit: %v %q", seed, base, one, other, merged, got, ok, want)
		}
	}
	t.Logf("%d clean, %d conflicts, %d differ", clean, conflicts, differ)
	if clean < *triples/5 || conflicts < *triples/5 {
		t.Error("the triples are one-sided")
	}
}

// triple makes a text and two edited versions of it.
func triple(r *rand.Rand) (base, one, other string) {
	words := []string{"import os", "", "x = 1", "y = 2", "for i in range(3):", "    print(i)", "    total += i", "def f(a):", "    return a", "# comment", "f(x)", "data.plot()", "z = f(y)"}
	line := func() string {
		if r.IntN(3) == 0 {
			return words[r.IntN(len(words))] + "\n"
		}
		return fmt.Sprintf("%s # %d\n", words[r.IntN(len(words))], r.IntN(100))
	}
	var lines []string
	for range r.IntN(30) {
		lines = append(lines, line())
	}
	edit := func() string {
		edited := slices.Clone(lines)
		for range r.IntN(4) {
			at := r.IntN(len(edited) + 1)
			switch end := min(len(edited), at+r.IntN(3)); r.IntN(3) {
			case 0:
				edited = slices.Insert(edited, at, line(), line())
			case 1:
				edited = slices.Delete(edited, at, end)
			default:
				edited = slices.Replace(edited, at, end, line())
			}
		}
		text := strings.Join(edited, "")
		if r.IntN(4) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		return text
	}
	return strings.Join(lines, ""), edit(), edit()
}

func gitMerge(t *testing.T, dir, base, one, other string) (string, bool) {
	t.Helper()
	args := []string{"merge-file", "-p"}
	for _, file := range []struct{ name, text string }{{"one", one}, {"base", base}, {"other", other}} {
		path := filepath.Join(dir, file.name)
		if err := os.WriteFile(path, []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), true
}

// Merging knows no sides, invents no lines, and takes what one alone changed.
func TestMergeProperties(t *testing.T) {
	texts := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "d\n"}), 0, 12), func(lines []string) string { return strings.Join(lines, "") })
	rapid.Check(t, func(t *rapid.T) {
		base, one, other := texts.Draw(t, "base"), texts.Draw(t, "one"), texts.Draw(t, "other")
		ab, okAB := merge(base, one, other)
		ba, okBA := merge(base, other, one)
		if ab != ba || okAB != okBA {
			t.Fatalf("%q %v, the other way round %q %v", ab, okAB, ba, okBA)
		}
		if got, ok := merge(base, base, other); got != other || !ok {
			t.Fatalf("what one alone changed: %q %v", got, ok)
		}
		if got, ok := merge(base, one, one); got != one || !ok {
			t.Fatalf("what both changed alike: %q %v", got, ok)
		}
		rebuilt, at := "", 0
		a, b := splitLines(base), splitLines(one)
		for _, h := range diff(a, b) {
			rebuilt += strings.Join(a[at:h.aFrom], "") + strings.Join(b[h.bFrom:h.bTo], "")
			at = h.aTo
		}
		if rebuilt += strings.Join(a[at:], ""); rebuilt != one {
			t.Fatalf("the difference of %q and %q makes %q", base, one, rebuilt)
		}
	})
}

// Texts too far apart are replaced as a whole, in bounded time.
func TestMergeOfDistantTexts(t *testing.T) {
	text := func(name string) string {
		var b strings.Builder
		for i := range 20000 {
			fmt.Fprintf(&b, "%s %d\n", name, i)
		}
		return b.String()
	}
	base := text("base")
	if _, ok := merge(base, text("one"), base+"more\n"); ok {
		t.Error("merged")
	}
	if got, ok := merge(base, "first\n"+base, base+"last\n"); !ok || got != "first\n"+base+"last\n" {
		t.Errorf("not merged: %d bytes", len(got))
	}
}
