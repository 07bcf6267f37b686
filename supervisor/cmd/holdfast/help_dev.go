package main

const devHelp = `dev is run for a server that somebody is editing. It watches the sources,
builds the server after a change, and lets the new one take over when it is
ready. Calls under way end on the old one; the client keeps its connection.

A build that fails, and a new server that cannot be started, change nothing:
what served goes on, "holdfast status" says why, and the client gets a log
message. With a build command nothing is built or started before the first
request that needs the server. "holdfast swap" and SIGUSR2 build first. So does
the tool holdfast_swap, which the client's model has beside holdfast_status and
holdfast_logs unless --control-tools=false.

  What is edited?                --project --watch
  How is it built?               --build
  May a build write over it?     --shadow
  When does it hang?             --hang-timeout, 30s with --worker

All else is as in "holdfast run", and so are the other flags.

  save ---- nothing more for 300ms ---- build ---- whole? ---- swap
              |                           |
              +-- another save: again     +-- another save: ended, again

What is not given is guessed from the project, and printed:

  go.mod          watch **/*.go without tests, go.mod, go.sum; build the
                  executable that the command names from cmd/NAME, the project
                  itself, or the only package below cmd
  package.json    watch scripts and JSON; if the command runs what a build
                  writes, run the script "build", or tsc
  pyproject.toml, setup.py, requirements.txt
                  watch **/*.py; there is nothing to build
  anything else   watch the executable

A server that runs from a script needs no build. A watched path may be a file,
a directory or a glob with ** and {a,b}; !PATH leaves out. Never watched are
.git, node_modules, virtual environments and caches, unless a path leads
there, and what the build itself makes of the executable.

With --shadow auto, workers are started from a private copy of a native
executable that lies in the project, so that a build can write over the file.
A server that looks for files beside its executable needs --shadow off.

The build gets the environment of the server, and runs in the project. Builds
of one command in one directory wait for each other, whoever started them.

With --project, a holdfast.toml in that directory is read as well; it counts
before the user's configuration file.`
