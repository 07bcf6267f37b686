// Command bench tells what holdfast costs. It starts the same server directly,
// behind holdfast, and behind things that do as little as possible, puts the
// same calls to each, and prints how they compare with the direct one.
//
//	bench            latency, throughput, CPU, start and memory by target
//	bench -kill 50   time from the death of a worker to the next answer
//	bench -swap 50   what clients see of replacements under 1,000 calls a second
//	bench -flood 7   calls and other updates beside 10,000 updates a second
//
// Absolute times say more about the machine than about a target, and more
// about its other load than about either. So each repetition measures every
// target once, in rotating order, and a ratio is taken within the repetition;
// printed is the median of the ratios and their range. A range that contains
// 1.00 is marked "~": no claim follows from it.
//
// Each answer is checked for its id and the echoed text, outside of what is
// timed. A wrong, lost or repeated answer fails the run; a missed bound does
// not.
//
// A target that is not installed is left out with a line that says so; socat,
// supergateway and mcp-remote are looked for in PATH and below -npm. One
// target runs at a time; the only goroutines are the writer of a message larger
// than a pipe, under -kill and -flood the reader of the answers, and under -swap
// a sender and a reader.
//
// CPU and memory come from /proc and are left out elsewhere than on Linux.
package main
