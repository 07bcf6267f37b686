package main

const runHelp = `run is what an MCP client is configured to start. It speaks MCP on stdin and
stdout and runs COMMAND, any MCP server that speaks stdio, behind it. With
--worker it runs a native worker instead: a server built with holdfast's
worker SDK, which saves one process.

When the server dies it is started again. Requests that were not given to it
wait, reads are asked once more, and anything else that was under way is
answered as outcome_unknown: it is never executed twice. SIGUSR2, like
"holdfast swap", replaces the server by what COMMAND is now.

  What is run, and where?        --worker --cwd --env --env-file
  By what is it found?           --name
  How long may a start take?     --start-timeout
  How long does a client wait
  for its first answer?          --initialize-timeout --discover-timeout
                                 --no-cache
  How long do requests wait?     --hold-timeout --hold-max
  How often is it restarted?     --crash-budget --backoff --crash-cooldown
                                 --handoff-budget
  How is it replaced?            --swap --drain-timeout
  When does it hang?             --hang-timeout
  What may be asked twice?       --replay-annotated
  What if a tool has changed?    --stale-schema
  What may a client watch, and
  what is it asked in turn?      --max-leases --chain-timeout
  What can the model do?         --control-tools
  How does a session end?        --eof-grace
  What is shown, what is kept?   --max-frame --no-stderr-in-errors
                                 --log-file --log-level

  server 1   serving ----------- crash
                                   |  pause of --backoff: none, 100ms, 200ms ...
  server 2                         +---> starting ----> serving --- swap
                                   |     at most                     |
  requests                         wait  --start-timeout             |
                                   at most --hold-timeout            |
  server 3                                        starting ----> serving
  server 2                                        (serving)      draining for
                                                       --drain-timeout at most

  crashes beyond --crash-budget: nothing is started, calls are answered at
  once with the cause. A request tries again once the longest --backoff is
  over; without one, a try is made after --crash-cooldown.

A server that needs longer than a second to start is spoken for: initialize,
server/discover and lists are answered as it did at the last start. What has
changed is told to the client once the server is ready.

Each setting can also stand in the environment, --max-frame as
HOLDFAST_MAX_FRAME, and in the configuration file, as max-frame = "64MiB".
A flag wins over the environment, which wins over the file.

The server gets the environment of holdfast without HOLDFAST_* variables, then
the entries of --env-file, then those of --env.`
