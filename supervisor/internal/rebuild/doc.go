// Package rebuild makes what a worker is started from, again and again while
// somebody edits its sources: it watches files, runs the build, waits until the
// result is whole, and keeps a copy of it that no later build can touch.
//
//	w, err := rebuild.NewWatcher(dir, patterns, ignored)
//	b := rebuild.New(rebuild.Config{Dir: dir, Command: "go build -o bin/server .", Changes: w.Changes(), ...})
//	go w.Run(ctx)
//	go b.Run(ctx)
//	...
//	b.Ready(ctx)         // before a start: there is something to start
//	b.Swap(ctx)          // somebody wants a replacement: build, then replace
//	b.Status()
//
// One goroutine, Run, owns the decision what is built when:
//
//	          change                over            done
//	[idle] ----------> [settling] -------> [build] ------> Config.Replace
//	   |                 debounce            |  ^
//	   +--- Swap, Ready ---------------------+  | another change ends it: from
//	                                         +--+ the beginning
//
//	build: wait for the lock -> command -> the executable is whole -> its copy -> free the lock
//
// There is at most one build at a time, and at most one is remembered that has
// to follow it. Builds of one command in one directory wait for each other in
// all processes of a user, and one that another process has done meanwhile is
// not done again (SEC-7).
//
// All methods are safe for concurrent use. The package starts no worker and
// knows none: what follows a build is a function of the caller.
package rebuild
