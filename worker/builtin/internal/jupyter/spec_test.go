package jupyter

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mcp/holdfast/worker/builtin/internal/jupytertest"
)

// install writes a kernel.json below a folder of kernels.
func install(t *testing.T, share, name, content string) string {
	t.Helper()
	dir := filepath.Join(share, "kernels", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const aSpec = `{"argv":["python","-f","{connection_file}"],"display_name":"A","language":"python"}`

// ROOM-7: kernels are found where jupyter_client finds them, whatever the
// variables say, and the first of a name wins.
func TestSearchLikeJupyter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the folders of the oracle are those of Unix")
	}
	interpreter := jupytertest.Python(t, "jupyter_client", "IPython")
	root := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	home := at("home")
	shares := map[string]string{
		"path": at("path"), "path2": at("path2"), "xdg": at("xdg", "jupyter"), "data": at("data"),
		"userbase": at("userbase", "share", "jupyter"), "env": at("venv", "share", "jupyter"),
		"home": filepath.Join(home, ".local", "share", "jupyter"), "ipython": filepath.Join(home, ".ipython"), "ipythondir": at("ipython"),
	}
	for name, share := range shares {
		install(t, share, "only-"+name, aSpec)
		install(t, share, "Common", aSpec)
	}
	install(t, shares["path"], "two", aSpec)
	install(t, shares["home"], "TWO", aSpec)
	if err := os.MkdirAll(filepath.Join(shares["path"], "kernels", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"nothing":     nil,
		"path":        {"JUPYTER_PATH=" + at("path") + "/:" + at("path2")},
		"xdg":         {"XDG_DATA_HOME=" + at("xdg")},
		"data":        {"JUPYTER_DATA_DIR=" + at("data"), "XDG_DATA_HOME=" + at("xdg")},
		"ipython":     {"IPYTHONDIR=" + at("ipython")},
		"environment": {"VIRTUAL_ENV=" + at("venv"), "JUPYTER_PREFER_ENV_PATH=1"},
		"user first":  {"VIRTUAL_ENV=" + at("venv"), "JUPYTER_PREFER_ENV_PATH=no"},
		"conda":       {"CONDA_PREFIX=" + at("venv"), "JUPYTER_PREFER_ENV_PATH=true", "JUPYTER_PATH=" + at("path2")},
		"all":         {"JUPYTER_PATH=" + at("path2") + ":" + at("path"), "JUPYTER_DATA_DIR=" + at("data"), "VIRTUAL_ENV=" + at("venv"), "JUPYTER_PREFER_ENV_PATH=0"},
	} {
		t.Run(name, func(t *testing.T) {
			env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PYTHONUSERBASE=" + at("userbase")}, env...)
			got := make(map[string]string)
			for _, s := range List(env).Specs {
				got[s.Name] = s.Dir
				if found, err := Find(env, strings.ToUpper(s.Name)); err != nil || found.Dir != s.Dir {
					t.Errorf("%s: %v", s.Name, err)
				}
			}
			// jupyter_core takes the environment from its own interpreter.
			cmd := exec.Command(interpreter, "-c", `
import json, os, site, sys
site.ENABLE_USER_SITE = True
from jupyter_core import paths
paths.ENV_JUPYTER_PATH = [os.path.join(os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or sys.prefix, "share", "jupyter")]
from jupyter_client.kernelspec import KernelSpecManager
print(json.dumps(KernelSpecManager(ensure_native_kernel=False).find_kernel_specs()))`)
			cmd.Env = env
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]string
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got, want) {
				t.Errorf("found\n%v\nwant\n%v", got, want)
			}
			if len(want) < 4 {
				t.Errorf("the oracle found %v", want)
			}
		})
	}
}

func TestListTellsWhatIsWrong(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	install(t, first, "good", aSpec)
	shadowed := install(t, second, "Good", aSpec)
	for name, content := range map[string]string{
		"no-json":     `{"argv":["x"],}`,
		"no-argv":     `{"display_name":"x"}`,
		"empty-argv":  `{"argv":[]}`,
		"bad-argv":    `{"argv":"python"}`,
		"bad-mode":    `{"argv":["x"],"interrupt_mode":"shout"}`,
		"provisioned": `{"argv":["x"],"metadata":{"kernel_provisioner":{"provisioner_name":"k8s"}}}`,
		"bad name":    aSpec,
	} {
		dir := install(t, second, name, content)
		if _, err := Find([]string{"HOME=" + first, "JUPYTER_PATH=" + second}, name); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	env := []string{"HOME=" + t.TempDir(), "JUPYTER_PATH=" + first + string(filepath.ListSeparator) + second}
	found := List(env)
	if len(found.Broken) != 7 || !slices.Contains(found.Shadowed, shadowed) {
		t.Errorf("%+v", found)
	}
	_, err := Find(env, "python4")
	if missing, ok := errors.AsType[*NotFoundError](err); !ok || !errors.Is(err, ErrNoKernel) || !slices.Contains(missing.Installed, "good") {
		t.Errorf("error %v", err)
	}
}

func TestCommand(t *testing.T) {
	prefix := t.TempDir()
	bin := filepath.Join(prefix, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "python3"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	env := readEnvironment([]string{"HOME=" + prefix})
	in := filepath.Join(prefix, "share", "jupyter", "kernels", "k")
	for _, test := range []struct {
		dir        string
		argv, want []string
	}{
		{in, []string{"python", "-f", "{connection_file}"}, []string{filepath.Join(bin, "python3"), "-f", "C"}},
		{in, []string{"python3.12", "{resource_dir}/x", "{prefix}", "{other}"}, []string{filepath.Join(bin, "python3"), in + "/x", prefix, "{other}"}},
		{in, []string{"pythonic", "~", "~/x", "~user"}, []string{"pythonic", env.home(), env.home() + "/x", "~user"}},
		{"/elsewhere/k", []string{"python", "a{connection_file}b"}, []string{"python", "aCb"}},
	} {
		s := &Spec{Dir: test.dir, Argv: test.argv}
		if got := s.command(env, "C"); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.argv, got, test.want)
		}
	}
}

func TestInterruptModes(t *testing.T) {
	for _, test := range []struct{ argv0, mode, want string }{
		{"/usr/bin/python3", "", bySignal},
		{"/usr/bin/python3", "message", byMessage},
		{"/opt/deno", "", byMessage},
		{"xpython", "signal", byMessage},
	} {
		s, err := parseSpec([]byte(`{"argv":["` + test.argv0 + `"],"interrupt_mode":"` + test.mode + `"}`))
		if test.mode == "" {
			s, err = parseSpec([]byte(`{"argv":["` + test.argv0 + `"]}`))
		}
		if err != nil || s.interruptMode() != test.want {
			t.Errorf("%v: %v", test, err)
		}
	}
}

// FuzzDecode: whatever arrives, only signed messages are taken.
func FuzzDecode(f *testing.F) {
	s := newSession()
	_, m, err := s.encode("stream", nil, map[string]string{"text": "x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m[0], m[1], m[2], m[3], m[5])
	f.Add([]byte("id"), m[0], m[1], m[2], m[5])
	f.Fuzz(func(t *testing.T, a, b, c, d, e []byte) {
		for _, frames := range [][][]byte{{a, b, c, d, e, e}, {delimiter, a, b, c, d, e}, {delimiter, s.sign([][]byte{b, c, d, e}), b, c, d, e, a}} {
			m, header, err := s.decode(frames)
			switch {
			case err == nil && (len(header) == 0 || !json.Valid(header)):
				t.Fatalf("%q", frames)
			case err == nil && m.Buffers != nil && len(m.Buffers) != 1:
				t.Fatalf("%d buffers", len(m.Buffers))
			case err != nil && !errors.Is(err, errSignature) && !errors.Is(err, errMalformed):
				t.Fatal(err)
			}
		}
	})
}
